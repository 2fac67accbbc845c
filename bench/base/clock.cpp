#include "bench/base/clock.hpp"

#include <array>
#include <ctime>

namespace p5 {

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
