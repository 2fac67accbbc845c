// Texts generated from the declared options: --help, the manual page, and completion for bash.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/app/declarations.hpp"

namespace p5 {

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
