// The subcommands: each composes the rooms into one thing that a user asks for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/app/run/intrusion.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/base/error.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/options.hpp"
#include "bench/model/world.hpp"

namespace p5 {

struct Request {
  World& world;
  const Options& options;
  const std::vector<std::string>& arguments;  // as given, for the report
  EndingSignals& signals;
  const Intrusion& intrusion;  // nothing but in tests
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
ExitCode topo_command(const Request& request);

// Whether these arguments need MPI: a launcher started us, or they measure over it.
bool needs_mpi(const std::vector<std::string>& arguments);
// Whether the data under test travels over MPI; if not, MPI is kept off the fabric.
bool measures_over_mpi(const std::vector<std::string>& arguments);
std::vector<std::string> share_arguments(World& world, const std::vector<std::string>& arguments);

}  // namespace p5
