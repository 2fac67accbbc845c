// p5bench list WHAT: one per line, name first.
#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/preflight.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/base/console.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"
#include "reports/findings.hpp"
#include "reports/writer.hpp"
#include "topo/finding.hpp"
#include "topo/nccl_log.hpp"
#include "topo/platform.hpp"
#include "topo/settings.hpp"
#include "topo/watch.hpp"
#include "tuner/arms.hpp"

namespace p5 {

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

std::string list_of(const std::string& what) {
  std::string text;
  if (what == "collectives") {
    for (const Collective* each : collectives()) text += fmt::format("{:<18} {}\n", each->name, each->summary);
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
  } else if (what == "knobs") {
    for (const tuner::Knob& knob : tuner::knobs())
      text += fmt::format("{:<29} {}; {} (default {})\n", knob.name, knob.summary, join(knob.values),
                          knob.standard.empty() ? "depends" : knob.standard);
  }
  return text;
}

}  // namespace

ExitCode list_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  return print_result_for(ExitCode::ok, list_of(request.options.list_what));
}

}  // namespace p5
