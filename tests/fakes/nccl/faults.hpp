// What the fake NCCL is told to do wrong: the variable P5BENCH_FAKE, as the README beside it describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace p5::fake_nccl {

struct Fault {
  enum class Kind { hang, crash, wrong, async, oom, slow, join_hang, join_crash, join_slow, join_error };
  enum class What { element, bit, stale, nothing };
  Kind kind = Kind::hang;
  int rank = any_rank;
  static constexpr int any_rank = -1;
  int least_ranks = 0;          // of the communicator
  std::string once;             // a file: the fault hits the first process that makes it
  std::uint64_t operation = 0;  // counted from 1; 0: any
  bool onwards = false;         // that operation and all after it
  What what = What::element;
  std::uint64_t microseconds = 0;
  std::string setting;  // only operations with this algorithm and protocol; empty: any
  bool here =
      true;  // false: of processes of another host or device, with a variable or once a file exists, unlike this one

  bool of(int some_rank) const { return rank == any_rank || rank == some_rank; }
  bool hits(int at_rank, std::uint64_t at_operation, const std::string& with) const {
    const bool counted = operation == 0 || (onwards ? at_operation >= operation : at_operation == operation);
    return of(at_rank) && counted && (setting.empty() || setting == with);
  }
};

struct Faults {
  std::vector<Fault> all;
  std::string problem;  // why the text makes no sense; empty mostly

  std::optional<Fault> find(Fault::Kind kind, int rank) const;
  // While a communicator of so many ranks is joined.
  std::optional<Fault> find_joining(Fault::Kind kind, int rank, int ranks) const;
  std::optional<Fault> find(Fault::Kind kind, int rank, std::uint64_t operation, const std::string& setting) const;
};

Faults parse_faults(const std::string& text);
// Those of this process, read once.
const Faults& faults();

// By the signal, also where a sanitizer waits for it.
[[noreturn]] void crash();

// The name of this process' host: NCCL_HOSTID, where it pretends to be of another one.
std::string host_name();

// A process stands for one rank: that of the first communicator which it joined. -1 before.
int process_rank();
void set_process_rank(int rank);
// The number of the next operation of this process: 1, 2, ...
std::uint64_t next_operation();

}  // namespace p5::fake_nccl
