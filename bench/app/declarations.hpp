// How options are declared: one statement each, with its name, help, the value that help shows, what its text becomes,
// and what it must not be combined with.
#pragma once

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/options.hpp"

namespace p5 {

// Both throw UsageError; Check when all options are known.
using Take = std::function<void(const std::string& text)>;
using Check = std::function<void(const Options& options)>;

struct Declaration {
  std::string name, shown, help;  // a name without dashes: a word of the command line
  Take take;
  Check check = nullptr;
  std::vector<std::string> commands = {};  // that it means something to; none: the command that it is declared for
  bool several = false;                    // takes all words that follow
  bool may_be_empty = false;
  std::string alias = "";                // an older name, which help does not show
  std::vector<std::string> values = {};  // all that it may be, or of lists each entry, where these can be named
};

// CLI11 would wrap the errors of parsing in its own words; keeping the texts and taking them after the parse leaves
// ours as they are.
class Declarations {
 public:
  CLI::Option* add(CLI::App& app, Declaration declaration);
  CLI::Option* add_flag(CLI::App& app, Declaration declaration, bool& value);
  void add_check(Check check) { checks_.push_back(std::move(check)); }

  // Null for what was not declared here, as --help.
  const Declaration* find(const CLI::Option& option) const;
  // Throws what take_all() would for an empty value of this option.
  void refuse_empty(const CLI::Option& option) const;
  // Calls what was declared for the options that were given, and notes their names in `options.given`. Refuses those
  // that mean nothing to the command, and empty values.
  void take_all(Options& options) const;
  void check_all(const Options& options) const;

 private:
  struct Entry {
    Declaration declared;
    const CLI::Option* option = nullptr;
    std::unique_ptr<std::vector<std::string>> texts;  // of a flag none
  };
  std::vector<Entry> entries_;
  std::vector<Check> checks_;
};

// Options of the commands that measure, under one heading of the help; their checks are for these commands, and for
// `check`, which takes a few of them.
inline const std::vector<std::string> measuring_commands{"run", "tune", "ab", "plan"};

class Declaring {
 public:
  Declaring(Declarations& all, CLI::App& app, std::string heading)
      : all_(all), app_(app), heading_(std::move(heading)) {}

  // `commands` of the declaration: others that have the option too.

  void operator()(Declaration declaration);
  void flag(const std::string& name, bool& value, const std::string& help, Check check = nullptr,
            std::vector<std::string> commands = {});

 private:
  void add_check(Check check);

  Declarations& all_;
  CLI::App& app_;
  const std::string heading_;
};

// All options of a run, from run_options.cpp.
void declare_run_options(Declarations& all, CLI::App& app, Options& options);
void declare_ab_options(Declarations& all, CLI::App& ab, Options& options);

// ---- texts that become values

template <class Number>
Number whole_number(const std::string& text, Number least, Number most) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < least || number > most)
    throw UsageError(fmt::format("'{}' is not a whole number from {} to {}", text, least, most));
  return number;
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

// "all", or a list of names.
template <class Enum>
std::vector<Enum> enums_of(const std::string& text, std::span<const std::string> names,
                           Enum (*parse)(std::string_view)) {
  if (text == "all") {
    std::vector<Enum> all;
    for (const std::string& name : names) all.push_back(parse(name));
    return all;
  }
  return list_of<Enum>(text, [&](const std::string& part) {
    if (lower(part) == "all") throw UsageError("'all' stands alone, and is written small");
    return parse(part);
  });
}

}  // namespace p5
