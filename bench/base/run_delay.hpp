// Time in which a thread could run and waited for a core, by the kernel's scheduler.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "bench/base/units.hpp"

namespace p5 {

// Of the thread that makes it. Reading takes about a microsecond.
class RunDelay {
 public:
  RunDelay() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~RunDelay() {
    if (file_ >= 0) ::close(file_);
  }
  RunDelay(const RunDelay&) = delete;
  RunDelay& operator=(const RunDelay&) = delete;

  // Since the thread started; null where the kernel does not count it.
  std::optional<Seconds> total() const {
    std::array<char, 96> text{};  // nanoseconds on a core, nanoseconds of waiting, number of turns
    const ssize_t length = file_ < 0 ? -1 : ::pread(file_, text.data(), text.size(), 0);
    if (length <= 0) return std::nullopt;
    const std::string_view all(text.data(), static_cast<std::size_t>(length));
    const std::size_t second = all.find(' ') + 1;
    unsigned long long waited = 0;
    if (second == 0 || std::from_chars(all.data() + second, all.data() + all.size(), waited).ec != std::errc())
      return std::nullopt;
    return Seconds{static_cast<double>(waited) * 1e-9};
  }

 private:
  int file_;
};

// The share of each sample in which its thread waited for a core. Call begin() before the ranks meet, since a rank that
// comes late to a sample lengthens the others' times.
class SampleWaits {
 public:
  void clear() { shares_.clear(); }
  void begin() { before_ = delay_.total(); }
  void end(Seconds sample) {
    const std::optional<Seconds> now = delay_.total();
    if (before_ && now && sample.count > 0) shares_.push_back((now->count - before_->count) / sample.count);
  }
  // Empty where the kernel does not count.
  const std::vector<double>& shares() const { return shares_; }

 private:
  RunDelay delay_;
  std::optional<Seconds> before_;
  std::vector<double> shares_;
};

}  // namespace p5
