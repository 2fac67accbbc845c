// Characters, words and numbers of the text that nccl-tests prints.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace p5::reports::nccl_tests {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline bool is_blank(std::string_view text) { return std::ranges::all_of(text, is_space); }
inline bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

using Words = std::vector<std::string_view>;

// Views into `line`.
inline Words words_of(std::string_view line) {
  Words words;
  for (std::size_t from = 0; (from = line.find_first_not_of(" \t\r\v\f", from)) != std::string_view::npos;) {
    const std::size_t to = std::min(line.find_first_of(" \t\r\v\f", from), line.size());
    words.push_back(line.substr(from, to - from));
    from = to;
  }
  return words;
}

// Of the whole text, or nothing.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Takes what is asked for from the beginning of a text, or nothing. By hand: std::regex calls itself for each
// character, and lines may have any length.
class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // As long as characters fit.
  template <class Fits>
  std::string_view take_while(const Fits& fits) {
    const auto end = std::ranges::find_if_not(rest_, fits);
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool skip_space() { return !take_while(is_space).empty(); }
  std::string_view digits() { return take_while(is_digit); }

 private:
  std::string_view rest_;
};

}  // namespace p5::reports::nccl_tests
