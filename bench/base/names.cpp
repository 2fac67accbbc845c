#include "bench/base/names.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "bench/base/text.hpp"

namespace p5 {

namespace {

// Levenshtein distance, by the recurrence over one row.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// File systems allow 255 bytes.
constexpr std::size_t longest_folder_name = 128;
// Names in the output folder beside those of clusters.
constexpr std::array<std::string_view, 2> taken_names{"baselines", "latest"};

bool fits_folder_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t longest_typed = 200;
  if (name.size() > longest_typed) return "";
  const std::string wanted = lower(name);
  if (wanted.find_first_not_of('-') == std::string::npos) return "";
  std::string best, beginning;  // beginning: the longest candidate that `name` starts with
  std::size_t fewest = wanted.size() < 3 ? wanted.size() / 2 : std::max<std::size_t>(2, wanted.size() / 2);
  bool begun = false;  // the best candidate starts with `name`
  for (const std::string& candidate : candidates) {
    const std::string known = lower(candidate);
    const std::size_t distance = edits(wanted, known);
    const bool begins = wanted.size() > 1 && known.starts_with(wanted);
    if (known.size() > 1 && wanted.starts_with(known) && known.size() > beginning.size()) beginning = candidate;
    if (begun && !begins) continue;
    if (begins != begun || (distance <= fewest && (best.empty() || distance < fewest))) {
      best = candidate;
      fewest = distance;
      begun = begins;
    }
  }
  return best.empty() ? beginning : best;
}

std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates) {
  return unknown_name(kind, name, candidates, nearest(name, candidates));
}

std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates,
                         const std::string& meant) {
  const std::string question = meant.empty() ? "." : fmt::format("; did you mean '{}'?", meant);
  return fmt::format("unknown {} {}{} Known: {}", kind, in_quotes(name), question, join(candidates));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t from = 0;;) {
    const std::size_t at = text.find(separator, from);
    parts.emplace_back(text.substr(from, at - from));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string folder_name_error(std::string_view name) {
  const bool fits = !name.empty() && name.size() <= longest_folder_name && name[0] != '.' &&
                    std::ranges::all_of(name, fits_folder_name) &&
                    std::ranges::find(taken_names, name) == taken_names.end();
  if (fits) return "";
  return fmt::format(
      "{} cannot be a folder's name here: 1 to {} letters (a to z, A to Z), digits, '-', '_' and '.', the first no "
      "'.', and not {}",
      in_quotes(name), longest_folder_name, fmt::join(taken_names, " or "));
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

}  // namespace p5
