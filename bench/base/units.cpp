#include "bench/base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();

// Factor of a size suffix, 0 when there is no such suffix.
std::uint64_t size_factor(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  constexpr std::string_view prefixes = "KMGT", small = "kmgt";
  const std::string_view rest = suffix.substr(1);
  std::size_t power = prefixes.find(suffix[0]);
  // nccl-tests accepts a lower-case letter alone; the prefix kilo is lower-case.
  if (power == std::string_view::npos && (rest.empty() || suffix[0] == 'k')) power = small.find(suffix[0]);
  if (power == std::string_view::npos) return 0;
  if (rest.empty() || rest == "iB") return std::uint64_t{1} << (10 * (power + 1));
  if (rest != "B") return 0;
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= 1000;
  return factor;
}

// The valid suffix with the same letters in another case; "" when there is none.
std::string suggested_size_unit(std::string_view suffix) {
  const std::string letters = lower(suffix);
  for (const char* known : {"B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"})
    if (letters == lower(known) || letters + "b" == lower(known)) return known;
  return "";
}

std::string suggested_time_unit(std::string_view unit) {
  static const std::map<std::string, const char*> others{
      {"m", "min"},           {"mins", "min"}, {"minute", "min"}, {"minutes", "min"}, {"sec", "s"},
      {"secs", "s"},          {"second", "s"}, {"seconds", "s"},  {"hr", "h"},        {"hrs", "h"},
      {"hour", "h"},          {"hours", "h"},  {"msec", "ms"},    {"msecs", "ms"},    {"millis", "ms"},
      {"milliseconds", "ms"}, {"ms", "ms"},    {"s", "s"},        {"min", "min"},     {"h", "h"}};
  const auto found = others.find(lower(unit));
  return found == others.end() ? "" : found->second;
}

std::string sentence(std::string_view words) { return fmt::format("{}{}", words, words.ends_with('?') ? "" : "."); }

std::string unknown_unit(std::string_view digits, std::string_view unit, const std::string& meant) {
  const std::string question = meant.empty() ? "" : fmt::format("; did you mean '{}{}'?", digits, meant);
  return fmt::format("unknown unit {}{}", in_quotes(unit), question);
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return UsageError(
        fmt::format("{} is not a size: {} Write a whole number of bytes, with K, M, G (binary: 64K = 64KiB = "
                    "65536) or kB, MB, GB (decimal: 64kB = 64000)",
                    in_quotes(text), sentence(why)));
  };
  std::uint64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [after, problem] = std::from_chars(begin, end, number);
  if (after == begin) throw refuse(text.empty() ? "it is empty" : "it does not start with a digit");
  if (problem == std::errc::result_out_of_range) throw refuse("it is too large");
  const std::string_view suffix(after, static_cast<std::size_t>(end - after));
  const std::uint64_t factor = size_factor(suffix);
  if (factor == 0)
    throw refuse(unknown_unit(text.substr(0, text.size() - suffix.size()), suffix, suggested_size_unit(suffix)));
  if (number == 0) throw refuse("it has to be at least 1");
  if (number > largest / factor) throw refuse("it is too large");
  return {number * factor};
}

Seconds parse_duration(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return UsageError(fmt::format("{} is not a duration: {} Write a number with ms, s, min or h, such as 30s or 10min",
                                  in_quotes(text), sentence(why)));
  };
  const std::size_t unit_at = text.find_first_not_of("0123456789.");
  const std::string_view digits = text.substr(0, unit_at);
  const std::string_view unit = unit_at == std::string_view::npos ? "s" : text.substr(unit_at);
  const std::optional<double> number = as_number<double>(digits);
  if (!number) throw refuse("it does not start with a number");
  constexpr std::array<std::pair<std::string_view, double>, 4> units{
      {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
  for (const auto& [name, factor] : units) {
    if (unit != name) continue;
    if (!(*number > 0)) throw refuse("it has to be above zero");
    if (*number * factor > 1e9) throw refuse("it is too long");
    return {*number * factor};
  }
  throw refuse(unknown_unit(digits, unit, suggested_time_unit(unit)));
}

std::string to_text(Bytes size) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::uint64_t count = size.count;
  while (unit + 1 < units.size() && count >= 1024 && count % 1024 == 0) count /= 1024, ++unit;
  return fmt::format("{} {}", count, units[unit]);
}

std::string to_rounded_text(double bytes) {
  if (bytes < 1023.5) return fmt::format("{:.0f} B", bytes);
  constexpr std::array<std::string_view, 4> units{"KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  double count = bytes / 1024;
  // 1,023.96 would be printed as 1024.0.
  while (unit + 1 < units.size() && count >= 1023.95) count /= 1024, ++unit;
  return fmt::format("{:.1f} {}", count, units[unit]);
}

std::string to_text(Seconds time) {
  // The bounds are half a unit in the last printed digit below the next unit: 0.9996 s prints 1 s, not 1e+03 ms.
  const double s = time.count;
  if (s < 0.9995e-3) return fmt::format("{:.3g} us", s * 1e6);
  if (s < 0.9995) return fmt::format("{:.3g} ms", s * 1e3);
  if (s < 59.95) return fmt::format("{:.3g} s", s);
  const auto whole = static_cast<long long>(std::llround(s));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

Clock::time_point later(Clock::time_point start, Seconds by) {
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(by.count));
}

Clock::time_point deadline_in(Seconds time) { return later(Clock::now(), time); }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

std::optional<double> parse_utc(const std::string& text) {
  std::tm parts{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (!end || end != text.c_str() + text.size()) return std::nullopt;
  return static_cast<double>(::timegm(&parts));
}

}  // namespace p5
