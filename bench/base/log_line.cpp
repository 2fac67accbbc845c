#include "bench/base/log_line.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace p5 {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_in_host(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_'; }

// Begins an escape sequence, or is left out.
bool is_special(char c) { return c == '\x1b' || c == '\\' || c == '^' || c == '#'; }

// Length of the escape sequence at the beginning of a text; 0 for none.
std::size_t length_of_escape(std::string_view text) {
  constexpr std::array<std::string_view, 8> escapes{"\x1b",  "\\u001b", "\\u001B", "\\x1b",
                                                    "\\x1B", "\\033",   "^[",      "#033"};
  const auto found = std::ranges::find_if(escapes, [&](std::string_view each) { return text.starts_with(each); });
  if (found == escapes.end()) return 0;
  const std::string_view rest = text.substr(found->size());
  constexpr std::size_t longest = 40;
  if (rest.starts_with('[')) {
    std::size_t end = 1;
    while (end < rest.size() && end <= longest && (is_digit(rest[end]) || rest[end] == ';' || rest[end] == '?')) ++end;
    if (end < rest.size() && is_letter(rest[end])) return found->size() + end + 1;
  }
  const bool is_text = *found == "^[" || *found == "#033";
  if (!is_text && rest.size() >= 2 && rest[0] == '(' && (is_digit(rest[1]) || (rest[1] >= 'A' && rest[1] <= 'Z')))
    return found->size() + 2;
  return is_text ? 0 : found->size();
}

// Takes characters of a kind from the end of a text; how many.
template <class Kind>
std::size_t drop_last(std::string_view& text, const Kind& kind) {
  const std::size_t before = text.size();
  while (!text.empty() && kind(text.back())) text.remove_suffix(1);
  return before - text.size();
}
bool drop_last(std::string_view& text, char c) {
  if (!text.ends_with(c)) return false;
  text.remove_suffix(1);
  return true;
}

// The origin in front of " [DEVICE]".
std::optional<NcclOrigin> origin_at_end(std::string_view text) {
  if (drop_last(text, is_digit) == 0 || !drop_last(text, ':')) return std::nullopt;
  const std::string_view to_process = text;
  if (drop_last(text, is_digit) == 0 || !drop_last(text, ':')) return std::nullopt;
  const std::string_view to_host = text;
  const std::size_t length = drop_last(text, is_in_host);
  if (length == 0) return std::nullopt;
  return NcclOrigin{to_host.substr(text.size()), to_process.substr(text.size()), text};
}

bool is_device(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

}  // namespace

std::string plain_line(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  while (!line.empty()) {
    const auto to = static_cast<std::size_t>(std::ranges::find_if(line, is_special) - line.begin());
    text += line.substr(0, to);
    line.remove_prefix(to);
    if (line.empty()) break;
    if (const std::size_t length = length_of_escape(line); length > 0) {
      line.remove_prefix(length);
      continue;
    }
    if (!line.starts_with("\\\"")) text += line[0];
    line.remove_prefix(1);
  }
  text.erase(text.find_last_not_of('\r') + 1);
  text.erase(0, text.rfind('\r') + 1);
  return text;
}

std::optional<NcclOrigin> nccl_origin(std::string_view before) {
  while (true) {
    const std::size_t device = before.rfind(" [");
    if (device == std::string_view::npos) return std::nullopt;
    const std::string_view rest = before.substr(device + 2);
    before = before.substr(0, device);
    if (is_device(rest.substr(0, rest.find(']'))) && rest.find(']') != std::string_view::npos)
      if (const std::optional<NcclOrigin> found = origin_at_end(before)) return found;
  }
}

}  // namespace p5
