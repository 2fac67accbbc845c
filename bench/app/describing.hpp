// The command line as other programs want to know it: the manual page for man, completion for bash. Both from what was
// declared, as --help is.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "bench/app/declarations.hpp"

namespace p5 {

// A number and what it says.
using End = std::pair<int, std::string_view>;

// Those that a command takes: its own, and those of the whole that were declared for it or for everybody.
std::vector<const CLI::Option*> options_for(const CLI::App& app, const CLI::App& command, const Declarations& all);

std::string manual_page(const CLI::App& app, const Declarations& all, std::span<const End> ends);
std::string bash_completion(const CLI::App& app, const Declarations& all);

}  // namespace p5
