// The subcommands: each composes the rooms into one thing that a user asks for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/app/machine/own_gpus.hpp"
#include "bench/app/run/fault_hooks.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/app/run/wall_limit.hpp"
#include "bench/base/error.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"

namespace p5 {

struct Request {
  ControlPlane& control;
  const Options& options;
  const std::vector<std::string>& arguments;  // as given, for the report
  TerminationSignals& signals;
  const FaultHooks& fault_hooks;  // nothing but in tests
  // Of a check: the time for the whole of it; and its GPUs where it has found them by itself, else null.
  WallLimit* wall_limit = nullptr;
  const OwnGpus* own_gpus = nullptr;
};

struct Command {
  std::string name;
  ExitCode (*run)(const Request& request) = nullptr;
};

const Command& find_command(const std::string& name);

// One per file. Called on all participants.
ExitCode run_command(const Request& request);
ExitCode plan_command(const Request& request);
ExitCode list_command(const Request& request);
ExitCode report_command(const Request& request);
ExitCode compare_command(const Request& request);
ExitCode import_command(const Request& request);
ExitCode baseline_command(const Request& request);
ExitCode explain_command(const Request& request);
ExitCode topo_command(const Request& request);

// The options of these arguments where they are a check; no options where they are refused, which is said later.
std::optional<Options> check_in(const std::vector<std::string>& arguments);

// Whether these arguments need MPI: a launcher started us, or they measure over it.
bool needs_mpi(const std::vector<std::string>& arguments);
// Whether the data under test travels over MPI; if not, MPI is kept off the fabric.
bool measures_over_mpi(const std::vector<std::string>& arguments);
std::vector<std::string> share_arguments(ControlPlane& control, const std::vector<std::string>& arguments);

}  // namespace p5
