// Faults of the fake NCCL: the variable P5BENCH_FAKE, described in the README beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace p5::fake_nccl {

struct Fault {
  enum class Kind { hang, crash, wrong, async, oom, slow, join_hang, join_crash, join_slow, join_error };
  enum class What { element, bit, stale, nothing };
  Kind kind = Kind::hang;
  int rank = any_rank;
  static constexpr int any_rank = -1;
  int least_ranks = 0;          // minimum size of the communicator
  std::string once;             // a file: the fault applies only to the first process that creates it
  std::uint64_t operation = 0;  // counted from 1; 0: any
  bool onwards = false;         // this operation and all later ones
  What what = What::element;
  std::uint64_t microseconds = 0;
  std::string setting;   // only operations with this algorithm and protocol; empty: any
  int fewer = 0;         // only collectives with fewer channels than this; 0: any
  std::string function;  // only collectives of this name, "AllGather"; empty: any
  bool here = true;      // false: its condition (host, device, variable, file) does not hold in this process

  bool of(int some_rank) const { return rank == any_rank || rank == some_rank; }
  bool hits(int at_rank, std::uint64_t at_operation, const std::string& with, int channels,
            std::string_view of_function) const {
    const bool counted = operation == 0 || (onwards ? at_operation >= operation : at_operation == operation);
    return of(at_rank) && counted && (setting.empty() || setting == with) &&
           (fewer == 0 || (channels > 0 && channels < fewer)) && (function.empty() || function == of_function);
  }
};

struct Faults {
  std::vector<Fault> all;
  std::string problem;  // parse error; normally empty

  std::optional<Fault> find(Fault::Kind kind, int rank) const;
  // The fault of this kind that applies while a communicator of `ranks` ranks is joined.
  std::optional<Fault> find_joining(Fault::Kind kind, int rank, int ranks) const;
  std::optional<Fault> find(Fault::Kind kind, int rank, std::uint64_t operation, const std::string& setting,
                            int channels, std::string_view function) const;
};

Faults parse_faults(const std::string& text);
// Faults of this process, parsed once.
const Faults& faults();

// Dies of the signal even if a sanitizer handles it.
[[noreturn]] void crash();

// A figure of the model of communicators,
// P5BENCH_FAKE_COMMUNICATOR="init=50000,first=20000,destroy=1000,bytes=1048576": microseconds of a step, or bytes of
// device memory; 0 unless given.
std::uint64_t model_of_communicators(const std::string& name);

// The host name of this process: NCCL_HOSTID if it pretends to be on another host.
std::string host_name();

// Rank of this process: its rank in the first communicator that it joined; -1 before.
int process_rank();
void set_process_rank(int rank);
// The number of the next operation of this process: 1, 2, ...
std::uint64_t next_operation();

}  // namespace p5::fake_nccl
