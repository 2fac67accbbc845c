// The UUID of a fake GPU: different on each host, the same in CUDA and NVML.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
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

// Text form as in NVML and CUDA_VISIBLE_DEVICES.
inline std::string fake_uuid_text(int device) {
  const std::array<unsigned char, 16> bytes = fake_device_uuid(device);
  std::string text = "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::array<char, 4> pair{};
    std::snprintf(pair.data(), pair.size(), "%02x", bytes[i]);
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(pair.data());
  }
  return text;
}

}  // namespace p5
