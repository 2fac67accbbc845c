// Texts that others wrote (names out of files, of hosts, of libraries), on their way to a terminal or into a message.
#pragma once

#include <string>
#include <string_view>

namespace p5 {

// On one line, without anything that a terminal obeys or hides: control characters (line ends and ESC among them),
// marks that turn the direction of writing, and bytes that are no UTF-8 become \xNN. All else stays. Of what it
// returned it changes nothing.
std::string printable(std::string_view text);
// The same for a text of several lines, whose ends stay.
std::string printable_lines(std::string_view text);

bool is_utf8(std::string_view text);

// In quotation marks, printable, and cut after some 80 characters: for messages, which may be about any input.
std::string in_quotes(std::string_view text);

// One word of a POSIX shell, whatever it holds (but NUL, which no shell can hold).
std::string shell_word(std::string_view text);

std::string upper_case(std::string text);  // of ASCII

}  // namespace p5
