// Output to the user's console. Nothing here throws or ends the process: a console that fails must not cost a run its
// files.
#pragma once

#include <string_view>

#include "bench/base/error.hpp"

namespace p5 {

// Called first in main. Opens /dev/null for closed standard descriptors, so that no file opened later takes their
// number and receives console output, and ignores SIGPIPE, so that a reader that closes early (`p5bench | head -1`)
// does not end the process.
void prepare_console();

// Prints a result to stdout, unbuffered. Returns false, with a message on stderr, when it could not be printed; a
// closed reader (EPIPE) counts as success.
bool print_result(std::string_view text);
// Prints the result of a command and returns its exit code: `code`, or `environment` where `code` is ok and printing
// failed.
ExitCode print_result_for(ExitCode code, std::string_view text);

// True for a terminal, and for a pipe to the launcher of a job that writes to a terminal.
bool leads_to_terminal(int descriptor);
// True where stdout is a terminal that takes escape sequences; NO_COLOR (no-color.org) and TERM=dumb disable them.
bool stdout_takes_colours();

// Prints "p5bench: TEXT" and a line end to stderr.
void print_error(std::string_view text);
// Prints to stderr unchanged.
void print_stderr(std::string_view text);

}  // namespace p5
