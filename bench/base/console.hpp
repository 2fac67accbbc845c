// What is said to whoever started the program. Nothing here throws or ends the process: a console that takes nothing
// any more costs no run its files.
#pragma once

#include <string_view>

#include "bench/base/error.hpp"

namespace p5 {

// First in main. Standard descriptors that were closed become /dev/null, so that no file of ours takes their place and
// gets what was meant for the console; a reader that leaves early (`p5bench | head -1`) does not end the process.
void prepare_console();

// A result, to stdout, at once. False where it could not be printed, which stderr then says; a reader that has left
// has seen enough.
bool say(std::string_view text);
// The exit code of a command whose result is this text: `code`, or environment where that is ok and the text is lost.
ExitCode said(ExitCode code, std::string_view text);

// Whether a descriptor leads to a terminal: itself, or through the launcher of a job, to which it is a pipe.
bool leads_to_terminal(int descriptor);
// Whether stdout is a terminal for escape sequences; the user says no with NO_COLOR (no-color.org) or TERM=dumb.
bool stdout_takes_colours();

// "p5bench: TEXT", a line to stderr.
void complain(std::string_view text);
// To stderr as it is.
void tell(std::string_view text);

}  // namespace p5
