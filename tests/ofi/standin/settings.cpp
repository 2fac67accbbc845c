#include "tests/ofi/standin/settings.hpp"

#include <rdma/fabric.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace standin {

namespace {

std::string text(const char* name, const char* otherwise) {
  const char* const set = std::getenv((std::string("P5BENCH_STANDIN_") + name).c_str());
  return set ? set : otherwise;
}

std::vector<std::string> split(const std::string& all, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(all);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Settings read() {
  Settings read;
  read.fabric = text("FABRIC", "");
  if (read.fabric.empty()) throw std::invalid_argument("P5BENCH_STANDIN_FABRIC is not set");
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  read.host = name.data();
  read.machine = machine_of(text("MACHINE", "p5.48xlarge"));
  const auto devices = static_cast<std::size_t>(std::stoi(text("DEVICES", "1000")));
  if (devices < read.machine.devices.size()) read.machine.devices.resize(devices);
  read.scale = std::stod(text("SCALE", "0.01"));
  const std::vector<std::string> api = split(text("API", "1.18"), '.');
  read.api =
      FI_VERSION(static_cast<std::uint32_t>(std::stoul(api.at(0))), static_cast<std::uint32_t>(std::stoul(api.at(1))));
  read.start = std::stod(text("START", "0"));
  const std::vector<std::string> gpu = split(text("GPU", "peer"), ':');
  if (gpu.size() < 2 || gpu[1] == read.host) read.gpu = gpu.at(0);
  read.far = std::stod(text("FAR", "1"));
  read.silence = std::stod(text("SILENCE", "0"));
  read.writable = std::stoull(text("WRITABLE", "4294967296"));
  const std::string zone = text("ZONE", "0");
  read.zone = static_cast<std::uint8_t>(zone == "by-host" ? std::hash<std::string>()(read.host) : std::stoul(zone));
  for (const std::string& each : split(text("FAULT", ""), ';')) {
    const std::vector<std::string> parts = split(each, ':');
    if (parts.at(1) != "*" && parts.at(1) != read.host) continue;
    read.faults.push_back({parts.at(0), parts.at(2), parts.size() > 3 ? std::stod(parts[3]) : 1});
  }
  return read;
}

}  // namespace

const Fault* Settings::fault_of(const std::string& nic, const std::string& kind) const {
  const auto found =
      std::ranges::find_if(faults, [&](const Fault& f) { return f.kind == kind && (f.nic == nic || f.nic == "*"); });
  return found == faults.end() ? nullptr : &*found;
}

const Settings& settings() {
  static const Settings all = [] {
    try {
      return read();
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "stand-in for EFA: %s\n", problem.what());
      std::_Exit(3);
    }
  }();
  return all;
}

}  // namespace standin
