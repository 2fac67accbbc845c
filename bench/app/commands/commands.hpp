// The subcommands, each of which combines the components for one task of the user.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/run/shutdown.hpp"
#include "bench/base/error.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"

namespace p5 {

// Hooks by which tests make a run fail.
struct FaultHooks {
  // Called on each rank with the backend that the options selected; the returned one is measured.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>, int rank)> wrap_backend = {};
  // Called on each rank at the start of a phase.
  std::function<void(const std::string& phase, int rank)> enter_phase = {};
  std::optional<Seconds> longest_wait = {};  // limit for waiting for other ranks outside of cases
};

struct Request {
  ControlPlane& control;
  const Options& options;
  const std::vector<std::string>& arguments;  // unchanged, for the report
  Shutdown& shutdown;
  const FaultHooks& fault_hooks;      // empty except in tests
  const OwnGpus* own_gpus = nullptr;  // of a `check` without a launcher
  // The host of each rank at the leader, for what ends a run before it knows the machine; empty in tests.
  std::vector<std::string> hosts = {};
};

struct Command {
  std::string name;
  ExitCode (*run)(const Request& request) = nullptr;
};

const Command& find_command(const std::string& name);

// Called on all participants.
ExitCode run_command(const Request& request);
ExitCode plan_command(const Request& request);
ExitCode list_command(const Request& request);
ExitCode report_command(const Request& request);
ExitCode compare_command(const Request& request);
ExitCode import_command(const Request& request);
ExitCode baseline_command(const Request& request);
ExitCode explain_command(const Request& request);
ExitCode topo_command(const Request& request);

// `measuring`: the options of a command that measures; null for others and for a refused command line.
// True if the command needs MPI: a launcher started this process, or data is measured over MPI.
bool needs_mpi(const Options* measuring);
// True if MPI is the data path under test; otherwise MPI is kept off the fabric.
bool measures_over_mpi(const Options* measuring);

// ---- The folder that an import writes to.

// Creates a folder named after the imported file if that is a valid name, with "-2", "-3", ... if it exists.
std::filesystem::path new_folder_of_import(const Options& options, const std::filesystem::path& file);

// The cluster that an import belongs to.
std::string cluster_of_import(const Options& options);

// ---- p5bench import job FILE...: what a job communicates, from what its ranks recorded.

ExitCode import_job(const Request& request);

}  // namespace p5
