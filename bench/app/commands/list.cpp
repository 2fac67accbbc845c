// p5bench list WHAT: one per line, name first.
#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/collective.hpp"
#include "reports/joining.hpp"
#include "reports/local_checks.hpp"
#include "reports/slow_launches.hpp"
#include "reports/writer.hpp"
#include "topo/finding.hpp"
#include "topo/nccl_log.hpp"
#include "topo/platform.hpp"
#include "topo/watch.hpp"
#include "tuner/knobs.hpp"
#include "tuner/lint.hpp"

namespace p5 {

namespace {

template <class Rows>
void print(const Rows& rows) {
  for (const auto& row : rows) fmt::print("{:<18} {}\n", row.name, row.summary);
}

void print_finding(const auto& kind) {
  fmt::print("{:<26} {:<9} {}\n", kind.id, topo::name_of(kind.about), kind.summary);
}

}  // namespace

ExitCode list_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const std::string& what = request.options.list_what;
  if (what == "collectives") {
    for (const Collective* each : collectives()) fmt::print("{:<18} {}\n", each->name, each->summary);
  } else if (what == "platforms") {
    print(topo::platforms());
  } else if (what == "backends") {
    print(backend_table());
  } else if (what == "formats") {
    print(reports::writers());
  } else if (what == "findings") {
    for (const topo::Check& check : topo::checks()) print_finding(check);
    for (const auto& kinds :
         {topo::log_findings(), topo::watch_kinds(), tuner::lint_findings(), interface_finding_kinds(),
          reports::launch_finding_kinds(), reports::local_finding_kinds(), reports::join_finding_kinds()})
      for (const topo::FindingKind& kind : kinds) print_finding(kind);
  } else if (what == "knobs") {
    for (const tuner::Knob& knob : tuner::knobs())
      fmt::print("{:<29} {}; {} (default {})\n", knob.name, knob.summary, join(knob.values),
                 knob.standard.empty() ? "depends" : knob.standard);
  }
  return ExitCode::ok;
}

}  // namespace p5
