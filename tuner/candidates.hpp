// Settings that may be tried for a call: those that NCCL offers, less those that it predicts to be slow and those that
// the operator's variables forbid.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/environment.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// ---- the user's constraints

// The search never overrides a variable that the user set, and tries no setting that contradicts one.
struct Constraints {
  std::set<std::pair<Function, Algorithm>> forbidden_algorithms;
  std::set<std::pair<Function, Protocol>> forbidden_protocols;
  int least_channels = 0, most_channels = 0;  // 0: not limited
  std::set<std::string> operator_variables;   // tuning variables that are set
  // One sentence for each malformed value, with the name of the variable. All settings that the variable could concern
  // are then forbidden, because NCCL may refuse the value or interpret it in a way unknown here.
  std::vector<std::string> remarks;

  bool allows(Function function, const Setting& setting) const;
  bool allows_channels(int channels) const;
  // False also for numbers of channels where another variable limits them.
  bool allows_variable(const std::string& name) const;
};

// `environment`: the operator's, before NCCL and its plugins add variables to it.
Constraints constraints_of(const Environment& environment);

// NCCL_*, FI_* and OFI_NCCL_*, except NCCL_DEBUG*.
bool is_tuning_variable(std::string_view name);
// Those of them that may change what is fastest, by which settings are valid: without names of hosts and our plugin's.
Environment tuning_variables_of(const Environment& environment);
// True with the value of registered_variable that lets rows decide calls on registered buffers too.
bool rows_decide_registered_calls(const Environment& environment);
// NCCL_CTA_POLICY by which registered all_gathers and reduce_scatters take few CTAs, unless a tuner is loaded; "" if it
// asks for another, or for none.
std::string efficiency_policy(const Environment& environment);

// ---- candidates

// The unit of decision: one size of one collective. All points of a search are of one communicator.
struct SizePoint {
  std::string collective;   // p5bench's name; the collectives that NCCL queries a tuner about are Functions
  std::uint64_t bytes = 0;  // message size of the case, which is the size in NCCL's tuner interface (table.hpp)
  auto operator<=>(const SizePoint&) const = default;
};

// An available entry of NCCL's cost table. Channels are 0, except for the chosen entry where another tuner sets them.
struct CostEntry {
  Setting setting;
  double microseconds = 0;  // NCCL's prediction, which is good for ranking only
  bool chosen = false;      // NCCL's own choice, so the default under another name
};

// A null setting is the default: NCCL's behaviour without our tuner.
struct Candidate {
  std::optional<Setting> setting;
  bool is_default() const { return !setting; }
  bool operator==(const Candidate&) const = default;
};
// "default", or the text form of the setting.
std::string to_text(const Candidate& candidate);

// Channel counts to try beside other work, which is left more of the GPU by fewer.
inline constexpr std::array channels_beside{2, 4, 8, 12, 16, 20, 24, 32};

struct CandidateRules {
  double prune = 8;                             // skip entries predicted slower than this times the fastest
  std::vector<int> channels{4, 8, 16, 24, 32};  // ascending; NCCL's own choice is always among the candidates
  // Least message bytes for each channel. NCCL's own minimum counts traffic (MinTrafficPerChannel in src/enqueue.cc),
  // and depends on its version: 512 B or 32 KiB.
  std::uint64_t bytes_per_channel = 8 << 10;
};

// The entries that are worth a measurement: allowed by the operator, not pruned by NCCL's prediction; fastest first.
std::vector<CostEntry> prune_cost_entries(const SizePoint& point, std::span<const CostEntry> offered,
                                          const CandidateRules& rules, const Constraints& constraints);

// The channel counts to try for a size besides NCCL's own choice, ascending.
std::vector<int> channel_counts(const SizePoint& point, const CandidateRules& rules, const Constraints& constraints);

// Each remaining entry with each channel count: the candidates of an exhaustive search.
std::vector<Setting> full_grid(const SizePoint& point, std::span<const CostEntry> offered, const CandidateRules& rules,
                               const Constraints& constraints);

// Settings of the same kind with the next lower and next higher channel count, less those in `tried`. NCCL's own count
// is not known; its neighbours are the highest and the middle count. The time, as a function of the number of channels,
// is assumed to have one minimum.
std::vector<Setting> channel_neighbours(const Setting& setting, std::span<const int> counts,
                                        std::span<const Setting> tried);

// ---- Call modes: ways of calling NCCL that need changes in the application. The tuning measures what they save; the
// report explains how a job gets them.

struct CallMode {
  std::string_view name;
  bool cuda_graph = false;  // this and the next two as in a case
  std::string_view registration = "none";
  std::string_view cta_policy = "default";  // another one matters beside other work, and is only measured there
  int since = 0;                            // first NCCL version, as ncclGetVersion counts
  std::string_view how;                     // instructions for a job, first with PyTorch
};

// Sources: NCCL's user guide on buffer registration and on CUDA graphs; PyTorch's pull requests 112850 (the hook) and
// 150564 (FSDP2 and memory pools of the process group). PyTorch's ways have never been tried with p5bench itself.
inline constexpr std::array call_modes{
    CallMode{"registered buffers", false, "local", "default", 21900,
             "PyTorch: TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1 registers what its allocator hands out (the "
             "settings for sizes then hold for broadcast and reduce alone); or a torch.cuda.MemPool of the process "
             "group's mem_allocator, registered with register_mem_pool(). C: ncclMemAlloc() and ncclCommRegister(). "
             "All ranks have to do it, or none. Where calls on such buffers are grouped, the settings for sizes need "
             "P5BENCH_TUNER_REGISTERED=rows on all ranks"},
    CallMode{"symmetric windows", false, "symmetric", "default", 22700,
             "C: ncclMemAlloc() and ncclCommWindowRegister() with NCCL_WIN_COLL_SYMMETRIC, by all ranks at the same "
             "offsets. PyTorch: a memory pool registered as symmetric, where the version offers that"},
    CallMode{"CUDA graph", true, "none", "default", 0,
             "PyTorch: capture the step with torch.cuda.graph(), collectives included. C: stream capture around the "
             "calls. It saves what the host needs to launch, and NCCL registers the buffers that it finds in a graph "
             "(NCCL_GRAPH_REGISTER), which is what large messages gain from"},
    CallMode{"registered buffers and CTA policy efficiency", false, "local", "efficiency", 22700,
             "Buffers as for registered ones, and ncclConfig_t's CTAPolicy NCCL_CTA_POLICY_EFFICIENCY (or the variable "
             "NCCL_CTA_POLICY=1) for all communicators; not with a tuner plugin, with which NCCL ignores the policy"},
    CallMode{"symmetric windows and CTA policy zero", false, "symmetric", "zero", 22800,
             "Buffers as for symmetric windows, and ncclConfig_t's CTAPolicy NCCL_CTA_POLICY_ZERO (or the variable "
             "NCCL_CTA_POLICY=2): copy engines move the data where NCCL can, and no multiprocessor does"},
};

}  // namespace p5::tuner
