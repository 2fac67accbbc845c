#include "bench/app/commands/commands.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/base/console.hpp"
#include "bench/base/names.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/traffic.hpp"
#include "bench/model/work.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"
#include "reports/reachability.hpp"
#include "reports/writer.hpp"
#include "topo/finding.hpp"
#include "topo/nccl_log.hpp"
#include "topo/platform.hpp"
#include "topo/settings.hpp"
#include "topo/watch.hpp"
#include "tuner/arms.hpp"

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

bool needs_mpi(const Options* measuring) {
  if (started_by_launcher()) return true;
  if (!measuring) return false;
  // Copies of a simulation need MPI to be refused together.
  return !simulates(*measuring) || (measuring->command != "plan" && has_launched_peers());
}

bool measures_over_mpi(const Options* measuring) {
  return measuring && !simulates(*measuring) && likely_backend(*measuring).ranks == BackendInfo::Ranks::of_job;
}

namespace {

template <class Rows>
std::string lines_of(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += fmt::format("{:<18} {}\n", row.name, row.summary);
  return text;
}

std::string finding_line(const auto& kind) {
  return fmt::format("{:<26} {:<9} {}\n", kind.id, topo::name_of(kind.about), kind.summary);
}

std::string listing_of(const std::string& what) {
  std::string text;
  if (what == "collectives") {
    for (const Collective* each : collectives())
      if (each->moves_data) text += fmt::format("{:<18} {}\n", each->name, each->summary);
  } else if (what == communicator.name) {
    for (const CommunicatorStep& each : communicator_steps()) text += fmt::format("{:<18} {}\n", each.name, each.shown);
  } else if (what == "traffic") {
    for (const TrafficGenerator& each : traffic_generators())
      text += fmt::format("{:<29} {}\n", each.form, each.summary);
  } else if (what == "platforms") {
    text = lines_of(topo::platforms());
  } else if (what == "backends") {
    text = lines_of(backend_table());
  } else if (what == "formats") {
    text = lines_of(reports::writers());
  } else if (what == "findings") {
    for (const topo::Check& check : topo::checks()) text += finding_line(check);
    for (const auto& kinds : {topo::log_findings(), topo::watch_kinds(), topo::setting_findings(),
                              interface_finding_kinds(), start_finding_kinds(), reports::finding_kinds()})
      for (const topo::FindingKind& kind : kinds) text += finding_line(kind);
  } else if (what == "beside") {
    for (const WorkKind& kind : work_kinds()) text += fmt::format("{:<24} {}\n", kind.form, kind.summary);
  } else if (what == "knobs") {
    for (const tuner::Knob& knob : tuner::knobs())
      text += fmt::format("{:<29} {}; {} (default {}); risk: {}\n", knob.name, knob.summary, join(knob.values),
                          knob.standard.empty() ? "depends" : knob.standard, knob.risk);
  }
  return text;
}

}  // namespace

ExitCode list_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  return print_result_for(ExitCode::ok, listing_of(request.options.list_what));
}

ExitCode run_command(const Request& request) {
  if (!simulates(request.options)) return run_acceptance(request.control, request);
  // The simulator needs no job: the leader hosts all ranks.
  if (!request.control.is_leader()) return ExitCode::ok;
  const int gpus = topo::find_platform(request.options.platform).gpus;
  return run_acceptance(*make_solo_control_plane(gpus * request.options.nodes), request);
}

}  // namespace p5
