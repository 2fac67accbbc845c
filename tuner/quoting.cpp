#include "tuner/quoting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace p5::tuner {

namespace {

bool printable(char c) { return c >= ' ' && c <= '~'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }

// Takes one character of UTF-8 off the text; null where it begins with none.
std::optional<std::uint32_t> take_code_point(std::string_view& text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (length > text.size() || (byte(0) >= 0x80 && byte(0) < 0xc2) || byte(0) > 0xf4) return std::nullopt;
  std::uint32_t point = length == 1 ? byte(0) : byte(0) & (0xff >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    point = point << 6 | (byte(i) & 0x3f);
  }
  const bool too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  if (too_long || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return std::nullopt;
  text.remove_prefix(length);
  return point;
}

}  // namespace

std::optional<std::string> yaml_text(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::optional<std::uint32_t> point = take_code_point(text);
    if (!point) return std::nullopt;
    const char c = *point < 0x80 ? static_cast<char>(*point) : '\0';
    if (c == '"' || c == '\\')
      result += std::string("\\") + c;
    else if (printable(c))
      result += c;
    else
      result += fmt::format("\\U{:08x}", *point);
  }
  return result + "\"";
}

std::string comment_text(std::string_view text) {
  std::string result(text);
  std::ranges::replace_if(
      result, [](char c) { return !printable(c); }, '?');
  return result;
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !digit(name[0]) &&
         std::ranges::all_of(name, [](char c) { return letter(c) || digit(c) || c == '_'; });
}

bool plain(std::string_view value) {
  return !value.empty() && std::ranges::all_of(value, [](char c) {
    return letter(c) || digit(c) || std::string_view("_./:,+@%=-").find(c) != std::string_view::npos;
  });
}

bool fits_nccl_conf(std::string_view value) {
  return value.size() < 1024 && std::ranges::all_of(value, printable) && !value.ends_with(' ');
}

}  // namespace p5::tuner
