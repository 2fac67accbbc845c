#include "bench/base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

namespace p5 {

namespace {

constexpr std::size_t longest_quote = 80;

struct Range {
  char32_t first, last;
};
// Control characters (C0, DEL, C1), invisible characters and bidirectional marks (Unicode 15: categories Cc and Cf,
// line separators), and the contiguous noncharacters.
constexpr std::array hidden{Range{0x00, 0x1f},     Range{0x7f, 0x9f},     Range{0xad, 0xad},
                            Range{0x61c, 0x61c},   Range{0x180e, 0x180e}, Range{0x200b, 0x200f},
                            Range{0x2028, 0x202e}, Range{0x2060, 0x206f}, Range{0xfdd0, 0xfdef},
                            Range{0xfeff, 0xfeff}, Range{0xfff9, 0xfffb}, Range{0xe0000, 0xe007f}};

// The last two code points of each plane are noncharacters, which XML parsers may reject.
bool ends_a_plane(char32_t code) { return (code & 0xfffe) == 0xfffe; }

struct Utf8Character {
  std::size_t bytes = 1;
  bool shown = false, valid = false;
};

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The character at the start of `text`; an invalid byte counts as one hidden character.
Utf8Character letter_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {1, first >= 0x20 && first != 0x7f, true};
  const std::size_t bytes = first >= 0xc2 && first < 0xe0   ? 2
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first >= 0xf0 && first < 0xf5 ? 4
                                                            : 0;
  if (bytes == 0 || text.size() < bytes || !std::ranges::all_of(text.substr(1, bytes - 1), continues)) return {};
  char32_t code = first & (0x7fu >> bytes);
  for (const char c : text.substr(1, bytes - 1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {};
  const bool is_hidden = ends_a_plane(code) ||
                         std::ranges::any_of(hidden, [&](const Range& r) { return r.first <= code && code <= r.last; });
  return {bytes, !is_hidden, true};
}

std::string made_printable(std::string_view text, std::string_view kept) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character character = letter_at(text);
    const std::string_view bytes = text.substr(0, character.bytes);
    if (character.shown || kept.find(bytes[0]) != std::string_view::npos)
      result += bytes;
    else
      for (const char c : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    text.remove_prefix(character.bytes);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return made_printable(text, ""); }

std::string printable_lines(std::string_view text) { return made_printable(text, "\n"); }

std::string cut(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  constexpr std::string_view dots = "...";
  std::size_t end = most > dots.size() ? most - dots.size() : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + std::string(dots);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character character = letter_at(text);
    if (!character.valid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  std::size_t end = std::min(text.size(), longest_quote);
  while (end < text.size() && end > 0 && continues(text[end])) --end;
  return fmt::format("'{}{}'", printable(text.substr(0, end)), end < text.size() ? "..." : "");
}

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::string for_shell(std::string_view text) {
  constexpr std::string_view unquoted = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@";
  return !text.empty() && text.find_first_not_of(unquoted) == std::string_view::npos ? std::string(text)
                                                                                     : shell_word(text);
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_in_host(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_'; }

// Begins an escape sequence or a no-break space, or is left out.
bool is_special(char c) { return c == '\x1b' || c == '\\' || c == '^' || c == '#' || c == no_break_space.front(); }

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

std::size_t length_of_escape(std::string_view text) {
  constexpr std::array<std::string_view, 8> escapes{"\x1b",  "\\u001b", "\\u001B", "\\x1b",
                                                    "\\x1B", "\\033",   "^[",      "#033"};
  const auto found = std::ranges::find_if(escapes, [&](std::string_view each) { return text.starts_with(each); });
  if (found == escapes.end()) return 0;
  const std::string_view rest = text.substr(found->size());
  const bool is_byte = found == escapes.begin(), is_text = *found == "^[" || *found == "#033";
  constexpr std::size_t longest = 40;
  if (rest.starts_with('[')) {
    const auto is_parameter = [&](char c) {
      return is_digit(c) || c == ';' || c == '?' || (is_byte && c >= ' ' && c < '@');
    };
    std::size_t end = 1;
    while (end < rest.size() && end <= longest && is_parameter(rest[end])) ++end;
    if (is_byte && end == rest.size()) return text.size();
    if (end < rest.size() && (is_letter(rest[end]) || (is_byte && rest[end] == '~'))) return found->size() + end + 1;
  }
  if (is_byte && rest.starts_with(']')) {  // up to BEL, or ESC and a backslash
    const std::size_t end = std::min(rest.find_first_of("\a\x1b"), rest.size());
    return found->size() + std::min(rest.size(), end + (rest.substr(end).starts_with('\a') ? 1 : 2));
  }
  if (!is_text && rest.size() >= 2 && rest[0] == '(' && (is_digit(rest[1]) || (rest[1] >= 'A' && rest[1] <= 'Z')))
    return found->size() + 2;
  if (is_byte && !rest.empty() && rest[0] >= '0' && rest[0] <= '~') return found->size() + 1;
  return is_text ? 0 : found->size();
}

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
    } else if (line.starts_with(no_break_space)) {
      text += ' ';
      line.remove_prefix(no_break_space.size());
    } else {
      if (!line.starts_with("\\\"")) text += line[0];
      line.remove_prefix(1);
    }
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

namespace {

// Length of the text without "[2026-11-20 10:00:00] " at its end, which NCCL writes in front of an origin.
std::size_t length_before_time(std::string_view text) {
  const std::size_t open = text.rfind('[');
  const bool is_time = text.ends_with("] ") && open != std::string_view::npos &&
                       text.substr(open).find(':') != std::string_view::npos && is_digit(text[open + 1]);
  return is_time ? open : text.size();
}

// Position of the next "NCCL INFO " or "NCCL WARN "; npos: none.
std::size_t mark_from(std::string_view line, std::size_t at) {
  for (constexpr std::string_view name = "NCCL "; (at = line.find(name, at)) != std::string_view::npos; ++at)
    if (const std::string_view kind = line.substr(at + name.size());
        kind.starts_with("INFO ") || kind.starts_with("WARN "))
      return at;
  return at;
}

void add_parted(std::string_view line, std::vector<LogLine>& lines) {
  constexpr std::size_t longest = 300;  // text between an origin's beginning and the mark
  bool begins = true;
  std::size_t mark = mark_from(line, 0);
  while (mark != std::string_view::npos) {
    const std::size_t next = mark_from(line, mark + 1);
    if (next == std::string_view::npos) break;
    const std::size_t from = next - std::min(next - mark, longest);
    const std::optional<NcclOrigin> origin = nccl_origin(line.substr(from, next - from));
    if (!origin) {
      mark = next;
      continue;
    }
    const std::size_t host = from + origin->before.size(), end = length_before_time(line.substr(0, host));
    std::string_view text = line.substr(0, end);
    const bool is_apart = end < host || text.ends_with('\t') || text.ends_with('"');
    drop_last(text, [](char c) { return c == '\t' || c == ' '; });
    lines.push_back({std::string(text), std::exchange(begins, is_apart)});
    line.remove_prefix(end);
    mark = next - end;
  }
  lines.push_back({std::string(line), begins});
}

}  // namespace

std::vector<LogLine> log_lines(std::string_view line) {
  constexpr std::string_view line_feed = "\\n", carriage_return = "\\r";
  std::vector<LogLine> lines;
  const std::string plain = plain_line(line);
  for (std::string_view rest = plain;;) {
    const std::size_t end = rest.find(line_feed);
    std::string_view one = rest.substr(0, end);
    if (one.ends_with(carriage_return)) one.remove_suffix(carriage_return.size());
    add_parted(one, lines);
    if (end == std::string_view::npos) return lines;
    rest.remove_prefix(end + line_feed.size());
  }
}

std::string_view known_end(std::string_view word, const std::set<std::string, std::less<>>& known) {
  for (std::size_t skip = 0; skip < word.size(); ++skip)
    if (known.contains(word.substr(skip))) return word.substr(skip);
  return word;
}

}  // namespace p5
