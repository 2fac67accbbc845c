// The UUID of a fake GPU: another on each host, and the same for CUDA and NVML.
#pragma once

#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>

namespace p5 {

inline std::array<unsigned char, 16> fake_device_uuid(int device) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::size_t hash = std::hash<std::string>{}(host.data());
  std::array<unsigned char, 16> bytes{"p5bench GPU"};
  std::memcpy(&bytes[11], &hash, 4);
  bytes[15] = static_cast<unsigned char>(device);
  return bytes;
}

}  // namespace p5
