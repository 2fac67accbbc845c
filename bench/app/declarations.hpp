// Declarations of options: one statement each, with name, help, the value shown in help, conversion of its text, and
// conflicts with other options.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/options.hpp"

namespace p5 {

// Both throw UsageError. Check runs after all options are set.
using Take = std::function<void(const std::string& text)>;
using Check = std::function<void(const Options& options)>;

struct Declaration {
  std::string name, shown, help;  // a name without dashes is a positional argument
  Take take;
  Check check = nullptr;
  std::vector<std::string> commands = {};  // commands that take it; empty: the command that it is declared for
  bool several = false;                    // takes all following words
  bool may_be_empty = false;
  std::string alias = "";                    // an older name, not shown in help
  std::vector<std::string> refused_by = {};  // commands whose check refuses it with a reason; their help lacks it
  std::vector<std::string> values = {};      // all possible values, or entries of lists, if enumerable
};

// CLI11 would add its own text to parse errors; texts are therefore stored and converted after the parse.
class Declarations {
 public:
  CLI::Option* add(CLI::App& app, Declaration declaration);
  CLI::Option* add_flag(CLI::App& app, Declaration declaration, bool& value);
  void add_check(Check check) { checks_.push_back(std::move(check)); }

  // Null for options not declared here, such as --help.
  const Declaration* find(const CLI::Option& option) const;
  // Throws the error of take_all() for an empty value of this option.
  void refuse_empty(const CLI::Option& option) const;
  // Converts the given options and adds their names to `options.given`. Refuses empty values and options that the
  // command does not take.
  void take_all(Options& options) const;
  void check_all(const Options& options) const;

 private:
  struct Entry {
    Declaration declared;
    const CLI::Option* option = nullptr;
    std::unique_ptr<std::vector<std::string>> texts;  // null for a flag
  };
  std::vector<Entry> entries_;
  std::vector<Check> checks_;
};

// Declares options of the measuring commands under one heading of the help. Their checks apply to these commands and to
// `check`, which takes a few of the options.
inline const std::vector<std::string> measuring_commands{"run", "tune", "ab", "plan"};

class Declaring {
 public:
  Declaring(Declarations& all, CLI::App& app, std::string heading)
      : all_(all), app_(app), heading_(std::move(heading)) {}

  // `commands`: further commands that take the option.

  void operator()(Declaration declaration);
  void flag(const std::string& name, bool& value, const std::string& help, Check check = nullptr,
            std::vector<std::string> commands = {}, std::vector<std::string> refused_by = {});

 private:
  void add_check(Check check);

  Declarations& all_;
  CLI::App& app_;
  const std::string heading_;
};

// Options of a run, and of `ab`.
void declare_run_options(Declarations& all, CLI::App& app, Options& options);
void declare_ab_options(Declarations& all, CLI::App& ab, Options& options);

// ---- conversions of texts

template <class Number>
Number whole_number(const std::string& text, Number least, Number most) {
  const std::optional<Number> number = as_number<Number>(text);
  if (!number || *number < least || *number > most)
    throw UsageError(fmt::format("'{}' is not a whole number from {} to {}", text, least, most));
  return *number;
}

inline std::string one_of(const std::string& kind, const std::string& text, const std::vector<std::string>& names) {
  if (std::ranges::find(names, text) == names.end()) throw UsageError(unknown_name(kind, text, names));
  return text;
}

template <class Value>
std::vector<Value> list_of(const std::string& text, const std::function<Value(const std::string&)>& parse) {
  std::vector<Value> values;
  for (const std::string& part : split(text)) {
    if (part.empty()) throw UsageError(fmt::format("'{}' has an empty entry; write a list like a,b,c", text));
    Value value = parse(part);
    if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
  }
  return values;
}

// Parses "all" or a list of names.
template <class Enum>
std::vector<Enum> enums_of(const std::string& text, std::span<const std::string> names,
                           Enum (*parse)(std::string_view)) {
  if (text == "all") {
    std::vector<Enum> all;
    for (const std::string& name : names) all.push_back(parse(name));
    return all;
  }
  return list_of<Enum>(text, [&](const std::string& part) {
    if (lower(part) == "all") throw UsageError("'all' cannot be combined with names, and is written in lower case");
    return parse(part);
  });
}

// ---- Texts generated from the declared options: --help, the manual page, and completion for bash.

// An exit code and its meaning.
using End = std::pair<int, std::string_view>;

// Options of a command: its own, and the global ones declared for it or for all.
std::vector<const CLI::Option*> options_for(const CLI::App& app, const CLI::App& command, const Declarations& all);

std::string manual_page(const CLI::App& app, const Declarations& all, std::span<const End> ends);
std::string bash_completion(const CLI::App& app, const Declarations& all);

struct Example {
  std::string_view command;  // "": p5bench without a command
  std::string_view line;     // the command line
  std::string_view meaning;
};

// Three examples per command, and three for p5bench itself.
std::span<const Example> examples();

// Width of the terminal, from 60 to 120; 80 for a file or pipe. The variable COLUMNS takes precedence.
std::size_t help_columns();

// The help of p5bench itself; `about` has one paragraph per line.
std::string help_of_program(const CLI::App& app, std::string_view about, std::size_t columns);
// The help of a command with all its options.
std::string help_of_command(const CLI::App& app, const CLI::App& command, const Declarations& all, std::size_t columns);

}  // namespace p5
