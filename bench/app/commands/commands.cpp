#include "bench/app/commands/commands.hpp"
#include "bench/app/command_line.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>
#include <optional>

#include "bench/app/machine/backends.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/agreement.hpp"

namespace p5 {

namespace {

const std::array<Command, 12> command_table{{
    {"run", run_command},
    {"tune", run_command},
    {"ab", run_command},
    {"check", run_command},
    {"plan", plan_command},
    {"list", list_command},
    {"report", report_command},
    {"compare", compare_command},
    {"baseline", baseline_command},
    {"import", import_command},
    {"explain", explain_command},
    {"topo", topo_command},
}};

}  // namespace

const Command& find_command(const std::string& name) { return *std::ranges::find(command_table, name, &Command::name); }

namespace {

// A run, or a plan of one, with its options; refused arguments are none: rank 0 alone will say why.
std::optional<Options> run_in(const std::vector<std::string>& arguments) {
  try {
    const Parsed parsed = parse_options(arguments);
    const std::string& command = parsed.options.command;
    if (!parsed.early && measures(command)) return parsed.options;
  } catch (const UsageError&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<Options> check_in(const std::vector<std::string>& arguments) {
  std::optional<Options> options = run_in(arguments);
  return options && options->checks() ? options : std::nullopt;
}

bool measures_over_mpi(const std::vector<std::string>& arguments) {
  const std::optional<Options> options = run_in(arguments);
  return options && !simulates(*options) && likely_backend(*options).ranks == BackendInfo::Ranks::of_job;
}

bool needs_mpi(const std::vector<std::string>& arguments) {
  if (started_by_launcher()) return true;
  const std::optional<Options> options = run_in(arguments);
  if (!options) return false;
  // Copies of a simulation are refused as well.
  return !simulates(*options) || (options->command != "plan" && has_launched_peers());
}

std::vector<std::string> share_arguments(ControlPlane& control, const std::vector<std::string>& arguments) {
  return shared_by_leader(control, arguments);  // of any bytes
}

}  // namespace p5
