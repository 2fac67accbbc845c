#include "reports/markup.hpp"

#include <algorithm>
#include <map>

#include "bench/base/text.hpp"

namespace p5::reports {

std::string for_xml(std::string_view text) {
  static const std::map<char, std::string_view> names{{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string safe;
  for (const char c : text) {
    const auto name = names.find(c);
    if (name != names.end())
      safe += name->second;
    else
      safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return safe;
}

std::string for_markdown(std::string_view text) {
  std::string line(text), safe;
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  for (const char c : printable(line)) {
    if (std::string_view("\\`*_[]<>#|~").find(c) != std::string_view::npos) safe += '\\';
    safe += c;
  }
  return safe;
}

std::string for_csv(std::string_view text) {
  std::string safe = printable(text);
  if (!safe.empty() && std::string_view("=+-@").find(safe.front()) != std::string_view::npos) safe.insert(0, 1, '\'');
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace p5::reports
