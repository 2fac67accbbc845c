// Escaping of untrusted text for other formats; nothing in the result is markup.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace p5::reports {

// XML attribute value or element content: printable, line ends and tabs as blanks. XML 1.0 cannot represent control
// characters and noncharacters.
std::string for_xml(std::string_view text);

// Cell or line of Markdown, and of the HTML in it.
std::string for_markdown(std::string_view text);

// Code span of Markdown if the name consists of letters, digits and ".-_"; else as for_markdown().
std::string code_for_markdown(std::string_view text);

// Field of RFC 4180. A text that a spreadsheet would read as a formula, also behind blanks, gets an apostrophe in
// front.
std::string for_csv(std::string_view text);

// Names of the test cases of a JUnit file. A name that repeats within its class gets a number, since readers take equal
// names for one test.
class TestNames {
 public:
  std::string unique(std::string_view group, const std::string& name);

 private:
  std::map<std::pair<std::string, std::string>, int> seen_;
};

// "1 node", "2 nodes".
std::string counted(std::integral auto count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace p5::reports
