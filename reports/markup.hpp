// Texts as other formats take them: names and words of anybody, in which nothing is markup.
#pragma once

#include <string>
#include <string_view>

namespace p5::reports {

// An attribute's value or an element's content. XML 1.0 has no way to write most control characters: blanks.
std::string for_xml(std::string_view text);

// A cell or a line of Markdown, and of the HTML in it.
std::string for_markdown(std::string_view text);

// A field of RFC 4180. What a spreadsheet would take for a formula gets a quotation mark before it.
std::string for_csv(std::string_view text);

}  // namespace p5::reports
