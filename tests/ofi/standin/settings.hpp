// Settings of the stand-in, from environment variables P5BENCH_STANDIN_...
//   FABRIC   folder that all hosts share; required
//   MACHINE  instance type (p5.48xlarge); DEVICES: limits the number of its NICs
//   SCALE    factor on the real rates (0.01), since two processor cores copy the data of all NICs; 0: unlimited
//   API      version below which 0xefa0 and 0xefa1 do not use RDMA ("1.18"); tests with an older library, which
//            cannot request it, lower the setting
//   START    seconds that the first look for devices takes unless FI_HMEM=system (0)
//   ZONE     number of the availability zone (0), or by-host; hosts in different zones do not reach each other
//   SILENCE  seconds until a message without an answer fails (0: never; the real timeout is unknown)
//   GPU      support of GPU memory: peer (the default), none (FI_HMEM is not offered), copies (no peer-to-peer) or
//            refused (registration of GPU memory fails); none if no libcuda.so.1 finds GPUs; KIND:HOST applies to
//            that host only
//   WRITABLE largest registration of host memory that peers may write to, in bytes (4 GiB: 2^20 pages)
//   FAR      factor on a NIC's rate for memory of any GPU except its nearest one (1)
//   FAULT    slow:HOST:NIC:SHARE, path:HOST:NIC@GPU:SHARE (from the memory of that GPU), silent:HOST:NIC,
//            lies:HOST:NIC or absent:HOST:NIC (the host has no such device); separated by semicolons; * as HOST or NIC
//            matches all
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ofi/standin/machines.hpp"

namespace standin {

struct Fault {
  std::string kind, nic;
  double share = 1;
};

struct Settings {
  std::string fabric, host;
  Machine machine;
  double scale = 0.01;
  std::uint32_t api = 0;
  double start = 0, silence = 0, far = 1;
  std::string gpu = "peer";
  std::uint8_t zone = 0;
  std::uint64_t writable = std::uint64_t{1} << 32;
  std::vector<Fault> faults{};  // faults of this host

  const Fault* fault_of(const std::string& nic, const std::string& kind) const;
};

const Settings& settings();  // ends the process if they are invalid

}  // namespace standin
