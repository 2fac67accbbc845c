// p5bench run, tune, ab and check: the acceptance run, from the machine to the verdict.
#include "bench/app/machine/backends.hpp"
#include "bench/app/run/acceptance.hpp"
#include "bench/control/control_planes.hpp"

namespace p5 {

ExitCode run_command(const Request& request) {
  if (!simulates(request.options)) return run_acceptance(request.control, request);
  // The simulator needs no job: the leader hosts all its ranks.
  if (!request.control.is_leader()) return ExitCode::ok;
  const int gpus = topo::find_platform(request.options.platform).gpus;
  return run_acceptance(*make_solo_world(gpus * request.options.nodes), request);
}

}  // namespace p5
