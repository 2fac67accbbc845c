// Work that runs at the same time as a case's operation (--beside), as a job has it: a collective on communicators of
// its own, or work of each rank's own device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"

namespace p5 {

struct Case;

struct Work {
  // collective: one operation of it. gemm: one matrix product D = A B, of n x k by k x n elements, n x n results. d2h:
  // one copy of d2h_bytes from the memory of a rank's device to the host.
  enum class Kind { collective, gemm, d2h };
  Kind kind = Kind::gemm;
  const Collective* collective = nullptr;
  std::string group = {};  // as Case::group
  Bytes bytes = {};        // of the message, as Case::bytes, before it is rounded up to whole elements
  int n = 0, k = 0;
  std::string type = {};  // of the operands: "bf16" or "fp8"
  // The collective's case, with one round, in which it has the type and reduction of the case that it runs beside.
  // Null in options and in reports that were read.
  std::shared_ptr<const Case> planned = {};
};

// Size of one copy of Work::Kind::d2h.
inline constexpr Bytes d2h_bytes = MiB(64);

// Memory of a rank's device for work that is no collective, at most.
Bytes device_memory(const Work& work);

// Kinds of work, for lists and messages: name, form and what it is.
struct WorkKind {
  std::string_view name, form, summary;
};
std::span<const WorkKind> work_kinds();

// Parses "gemm", "gemm:N,K,type" (from N on, each may be left out: 8192, N, bf16), "d2h" or "COLLECTIVE[@GROUP]:SIZE".
// Throws UsageError that names the error. The group is checked by the plan.
Work parse_work(const std::string& text);

// True if works can run beside this collective, and it beside others: all but pairs and steps of a communicator.
bool runs_with_work(const Collective& collective);

// The text that parse_work() takes: "gemm:8192,8192,bf16", "all_gather@node:64MiB", "all_reduce:64MiB" of all ranks.
std::string name_of(const Work& work);

// "beside gemm:8192,8192,bf16 and d2h"; "" without works.
std::string describe_beside(const std::vector<Work>& works);

}  // namespace p5
