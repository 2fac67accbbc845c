#include "bench/control/launcher.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace p5 {

namespace {

struct Launcher {
  const char *size, *rank;
};

// torchrun's names are anybody's: they count where all three are there.
constexpr Launcher torchrun{"WORLD_SIZE", "RANK"};
constexpr const char* torchruns_third = "LOCAL_RANK";

constexpr std::array launchers{Launcher{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                               Launcher{"PMI_SIZE", "PMI_RANK"},
                               Launcher{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                               Launcher{"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                               Launcher{"FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
                               Launcher{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                               Launcher{"", "PMIX_RANK"},
                               torchrun};

std::optional<int> number_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  const std::string& text = found->second;
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

constexpr std::string_view right_start =
    "Start it with Open MPI's own mpirun, or with srun --mpi=pmix, one rank per GPU";

}  // namespace

LaunchedAs launched_as(const Environment& environment) {
  for (const Launcher& each : launchers) {
    const bool torch = each.size == std::string_view(torchrun.size);
    if (torch && !environment.contains(torchruns_third)) continue;
    const auto size = number_in(environment, each.size), rank = number_in(environment, each.rank);
    if (!size && !rank) continue;
    return {.processes = size.value_or(0),
            .rank = rank.value_or(0),
            .said_by = rank ? each.rank : each.size,
            .by_torchrun = torch};
  }
  return {};
}

std::string objection_to(const LaunchedAs& launch, int ranks) {
  if (launch.processes <= ranks && launch.rank < ranks) return "";
  const std::string who = fmt::format("this is rank {} ({})", launch.rank, launch.said_by);
  const std::string what =
      launch.processes > 0
          ? fmt::format("the launcher started {} processes, but MPI sees a job of {}; {}", launch.processes, ranks, who)
          : fmt::format("{}, but MPI sees a job of {}", who, ranks);
  if (launch.by_torchrun) return fmt::format("{}: torchrun starts no MPI job. {}", what, right_start);
  return fmt::format("{}: the launcher does not belong to this program's MPI library (Open MPI). {}", what,
                     right_start);
}

bool nobody_to_ask(const Environment& environment) {
  const auto has = [&](const char* name) { return environment.contains(name); };
  const bool by_slurm = has("SLURM_STEP_ID") && (has("PMI_FD") || has("PMI_RANK"));
  return !by_slurm && std::ranges::none_of(std::array{"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "FLUX_JOB_ID"}, has);
}

}  // namespace p5
