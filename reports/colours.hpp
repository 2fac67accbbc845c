// Colours for a terminal: the decision, grades at the end of lines, severities at their beginning.
#pragma once

#include <string>
#include <string_view>

namespace p5::reports {

// `text` as render_console() and its like make it, with the escape sequences of ANSI terminals.
std::string with_colours(std::string_view text);

// The same where stdout is a terminal that wants them, else the text.
std::string in_colours(std::string_view text);

}  // namespace p5::reports
