// What the environment tells the stand-in. P5BENCH_STANDIN_...
//   FABRIC   folder that all hosts see; required
//   MACHINE  instance type (p5.48xlarge); DEVICES: only so many of its NICs
//   SCALE    share of the real rates (0.01): two processor cores copy what a node's NICs move; 0: as fast as they can
//   API      version below which 0xefa0 and 0xefa1 do not read by themselves ("1.18"); a library that is older than
//   that
//            cannot be asked for it, so tests on such a one lower it
//   START    seconds that the first look for devices takes unless FI_HMEM=system (0)
//   ZONE     number of the availability zone (0), or by-host; hosts of different ones do not reach each other
//   SILENCE  seconds until a message that nobody answers fails (0: never; the real time is not known)
//   GPU      how GPU memory is taken: peer (the default), none (FI_HMEM is not offered), copies (no peer-to-peer) or
//            refused (no memory of a GPU can be registered); without a libcuda.so.1 that finds GPUs it is none;
//            KIND:HOST is of that host alone
//   FAR      share of a NIC's rate from the memory of a GPU that is not the one beside it (1)
//   FAULT    slow:HOST:NIC:SHARE, path:HOST:NIC@GPU:SHARE (from the memory of that GPU), silent:HOST:NIC or
//            lies:HOST:NIC; several with ; between them. * as HOST or NIC is every one
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
  std::vector<Fault> faults{};  // of this host

  const Fault* fault_of(const std::string& nic, const std::string& kind) const;
};

const Settings& settings();  // ends the process where they make no sense

}  // namespace standin
