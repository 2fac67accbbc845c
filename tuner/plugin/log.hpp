// NCCL's log, as a plugin writes to it.
#pragma once

#include <atomic>
#include <string>

#include "tuner/plugin/abi.hpp"

namespace p5::tuner {

class Log {
 public:
  explicit Log(abi::Logger of_nccl) : logger_(of_nccl) {}

  void inform(const std::string& text) const { write(abi::info, text); }
  // Of many calls with the same flag the first one warns: splits would repeat it, on each rank.
  void warn_once(std::atomic_flag& said, const std::string& text) const {
    if (!said.test_and_set()) write(abi::warn, text);
  }
  void warn(const std::string& text) const { write(abi::warn, text); }
  abi::Logger logger() const { return logger_; }

 private:
  void write(int level, const std::string& text) const {
    if (logger_) logger_(level, abi::init | abi::tuning, "p5bench", 0, "TUNER/p5bench: %s", text.c_str());
  }

  abi::Logger logger_;
};

}  // namespace p5::tuner
