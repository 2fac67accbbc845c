#include "bench/base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include <fmt/format.h>

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

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace p5
