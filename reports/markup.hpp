// Texts as other formats take them: names and words of anybody, in which nothing is markup.
#pragma once

#include <string>
#include <string_view>

namespace p5::reports {

// An attribute's value or an element's content: printable, line ends and tabs as blanks. XML 1.0 has no way to write
// control characters and noncharacters.
std::string for_xml(std::string_view text);

// A cell or a line of Markdown, and of the HTML in it.
std::string for_markdown(std::string_view text);

// A name in Markdown's type for code where it is one of letters, digits and ".-_", else as any other text.
std::string code_for_markdown(std::string_view text);

// A field of RFC 4180. What a spreadsheet would take for a formula, behind blanks too, gets a quotation mark before it.
std::string for_csv(std::string_view text);

}  // namespace p5::reports
