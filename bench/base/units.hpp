// Bytes, seconds and rates as types, with their spellings on a command line and in a report, and the clocks. Sizes are
// binary unless written kB, MB, GB; rates are always decimal (1 GB/s = 1e9 bytes per second).
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace p5 {

struct Bytes {
  std::uint64_t count = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};

struct Seconds {
  double count = 0;
  friend auto operator<=>(const Seconds&, const Seconds&) = default;
};

// Decimal gigabytes per second.
struct GBps {
  double count = 0;
  friend auto operator<=>(const GBps&, const GBps&) = default;
};

constexpr GBps operator/(Bytes size, Seconds time) { return {static_cast<double>(size.count) / time.count * 1e-9}; }
constexpr GBps operator*(GBps rate, double factor) { return {rate.count * factor}; }
constexpr double microseconds(Seconds time) { return time.count * 1e6; }
constexpr Bytes KiB(std::uint64_t count) { return {count << 10}; }
constexpr Bytes MiB(std::uint64_t count) { return {count << 20}; }
constexpr Bytes GiB(std::uint64_t count) { return {count << 30}; }

// "8", "64K", "64KiB", "4G", "4GiB" are binary; "64kB", "4GB" decimal. Whole numbers from 1 to 2^63 - 1 only.
// Throws UsageError naming the text.
Bytes parse_bytes(std::string_view text);

// "500ms", "30s", "10min", "2h"; a bare number is seconds. Finite and above zero. Throws UsageError naming the text.
Seconds parse_duration(std::string_view text);

// "8 B", "64 KiB", "4 GiB"; the largest unit of which the size is a whole multiple.
std::string to_text(Bytes size);
// "31.4 GiB", "8.0 MiB": rounded, of any size.
std::string to_rounded_text(double bytes);
// "850 ms", "12.3 s", "4 min 10 s".
std::string to_text(Seconds time);

using Clock = std::chrono::steady_clock;

inline Seconds since(Clock::time_point then) { return {std::chrono::duration<double>(Clock::now() - then).count()}; }

Clock::time_point later(Clock::time_point start, Seconds by);
// The point in time `time` from now.
Clock::time_point deadline_in(Seconds time);

// "2026-11-20T12:00:00Z"
std::string utc_now();
// Seconds since 1970; std::nullopt for text in any other form.
std::optional<double> parse_utc(const std::string& text);

}  // namespace p5
