// The text of --help, made of the declared options: the commands, or one of them with its options, and examples.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/app/declarations.hpp"

namespace p5 {

struct Example {
  std::string_view command;  // "", of p5bench without one
  std::string_view line;     // as it is typed
  std::string_view meaning;
};

// Three for each command, and three for p5bench itself.
std::span<const Example> examples();

// How many columns the terminal has, within reason; of a file or a pipe 80. The variable COLUMNS counts before both.
std::size_t help_columns();

// The help of p5bench itself; `about` has a paragraph a line.
std::string help_of_program(const CLI::App& app, std::string_view about, std::size_t columns);
// The help of one command, with all options that it takes.
std::string help_of_command(const CLI::App& app, const CLI::App& command, const Declarations& all, std::size_t columns);

}  // namespace p5
