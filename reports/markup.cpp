#include "reports/markup.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5::reports {

namespace {

std::string on_one_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return line;
}

}  // namespace

std::string for_xml(std::string_view text) {
  static const std::map<char, std::string_view> names{{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string safe;
  for (const char& c : printable(on_one_line(text))) {
    const auto name = names.find(c);
    safe += name == names.end() ? std::string_view(&c, 1) : name->second;
  }
  return safe;
}

std::string for_markdown(std::string_view text) {
  const std::string line = printable(on_one_line(text));
  std::string safe;
  for (std::size_t at = 0; at < line.size(); ++at) {
    // Renderers link plain addresses too: "https://", "www." and "a@b".
    const std::string_view rest = std::string_view(line).substr(at);
    const bool links =
        rest.starts_with("://") || (rest.starts_with(".") && at >= 3 && lower(line.substr(at - 3, 3)) == "www");
    if (links || std::string_view("\\`*_[]<>#|~&@$!").find(line[at]) != std::string_view::npos) safe += '\\';
    safe += line[at];
  }
  return safe;
}

std::string code_for_markdown(std::string_view text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; };
  return !text.empty() && std::ranges::all_of(text, plain) ? "`" + std::string(text) + "`" : for_markdown(text);
}

std::string for_csv(std::string_view text) {
  std::string safe = printable(on_one_line(text));
  // Spreadsheets read a formula also behind blanks, those of Unicode included.
  static constexpr std::string_view blanks[]{" ", "\u00a0", "\u2002", "\u2003", "\u2009", "\u202f", "\u3000"};
  std::string_view rest = safe;
  for (bool blank = true; blank;) {
    blank = false;
    for (const std::string_view each : blanks)
      if (rest.starts_with(each)) rest.remove_prefix(each.size()), blank = true;
  }
  if (!rest.empty() && std::string_view("=+-@").find(rest.front()) != std::string_view::npos) safe.insert(0, 1, '\'');
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string quoted = "\"";
  for (const char c : safe) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string TestNames::unique(std::string_view group, const std::string& name) {
  const int count = ++seen_[{std::string(group), name}];
  return count == 1 ? name : fmt::format("{} ({})", name, count);
}

}  // namespace p5::reports
