// Checks of each GPU, alone and under load (Report::local_checks): their names, and the GPUs that differ from the
// others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/model/backend.hpp"
#include "reports/report.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// A figure of one GPU.
struct LocalCheck {
  std::string_view name;   // in the report, with the unit: "device_copy_gb_per_s"
  std::string_view label;  // "device copy"
  std::string_view unit;   // "GB/s", "us"
  bool more_is_better = true;
  double tolerated = 0;      // relative deviation from the median of the others that is tolerated; infinite: any
  double condemned = 0;      // deviation that makes it an error, which rejects the GPU's host; 0: none but no figure
  std::string_view action;   // recommended if a GPU exceeds the tolerance
  bool under_load = false;   // measured while the others compute and exchange messages, not on all GPUs
  bool of_exchange = false;  // of messages with another GPU, which may be the slow one
  // Name of the rate under load that belongs to a share, and has to be lower than the others' too. A share also falls
  // where the rate alone was high, and that of a GPU whose rate alone was low makes the others' look small.
  std::string_view rate = "";
};
std::span<const LocalCheck> local_checks();
// The first of the figures that no check is about; "" if there is none.
std::string unknown_figure(const LocalFigures& figures);

// Finding id, a warning or an error: a GPU is worse than the median of all others of its model in the job by more than
// the tolerance, or has no figure where they have one and nothing says why it was left out.
inline constexpr std::string_view slow_alone_id = "gpu.slow_alone";
std::vector<topo::Finding> slow_alone(const Report& report);

// Finding id, a warning or an error: what a GPU keeps of a rate of its own while it computes and its messages pass is
// less than the median of all others of its model by more than the tolerance.
inline constexpr std::string_view slow_under_load_id = "gpu.slow_under_load";
std::vector<topo::Finding> slow_under_load(const Report& report);

// Figures of two measurements of a GPU: the better one of each (of matrix products of unlike sizes that of the larger
// ones), the digests of both, and what either says of wrong results, as which unlike digests count too.
void keep_better(LocalChecks& first, const LocalChecks& second);

// Finding id, an error: a GPU with wrong results or memory; the run then ends with ExitCode::wrong_data.
inline constexpr std::string_view corrupt = "gpu.corrupt";
// GPUs whose own results differed or whose memory changed; else GPUs whose result of the same matrix product differs
// from the majority of their model. One finding without a host where that may be on one of several.
std::vector<topo::Finding> corruptions(const Report& report);

// Takes back those of wrong messages that a suspect of the same host explains: a NIC that corrupts data, say.
void withdraw_explained_corruptions(Report& report);

// Lowest and highest value of all GPUs for each measured figure: "device copy 3905 to 3921 GB/s".
std::vector<std::string> local_ranges(const Report& report);

// Sentences of a comparison that name figures of GPUs without judging them: those whose median over all GPUs and runs
// of NEW is worse than that of BASE by more than the tolerance. Only where both have them.
std::vector<std::string> worse_figures(std::span<const Report> base, std::span<const Report> fresh);

// Results of --burn, one row per GPU of a host: TFLOP/s in the first and the last minute and in the slowest second, the
// spread, and clocks, temperature, memory errors (corrected ones too) and Xids meanwhile; then the rates alone and
// under load; "" without a burn.
std::string burn_table(const Report& report, std::size_t host);

// GPUs whose matrix products were not computed, by reason: "GPUs 0, 1 of n0: no libcublasLt.so.13". Null: on all hosts.
std::vector<std::string> products_left_out(const Report& report, std::optional<std::size_t> host = std::nullopt);

// Finding id, an error: GPUs on which the burn that was asked for (`check --burn`) did not run. The check then ends
// with ExitCode::inconclusive at least.
inline constexpr std::string_view not_burnt = "gpu.not_burnt";
// GPUs of one host; `host` is null where it is not known.
topo::Finding missing_burn(const topo::Host* host, const std::vector<std::string>& gpus, const std::string& why);
// Those of all ranks without a burn, by host and reason, except GPUs with wrong results, which end it.
std::vector<topo::Finding> missing_burns(const Report& report);

// True for a finding about all GPUs of a host, which are slow alone or under load.
bool is_of_all_gpus(const topo::Finding& finding);

// An error: a GPU's local checks could not be measured, so the run is incomplete. About the hardware, or about the host
// where a limit of processes or memory may be the cause. `rank`: null where none is known.
inline constexpr std::string_view check_failed = "gpu.check_failed";
topo::Finding failed_check(const Report& report, std::optional<int> rank, const std::string& what);
// The same of a rank that did not answer, which does not condemn its host: the host is not finished.
topo::Finding unanswered_check(const Report& report, int rank, const std::string& what);

// Finding kinds for `list findings`.
std::vector<topo::FindingKind> local_finding_kinds();

}  // namespace p5::reports
