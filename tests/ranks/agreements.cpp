// The control plane alone, for tests that count its messages: `agreements COUNT BYTES` agrees COUNT times on parts of
// BYTES each; with one argument all ranks send an abort notice at once.
#include <cstdlib>
#include <string>

#include "bench/control/control_planes.hpp"

int main(int argc, char** argv) {
  const p5::MpiJob job(true);
  p5::ControlPlane& control = job.control();
  if (argc == 2) {
    control.notify_abort(1);
    control.barrier();
    return control.abort_notified(1) ? 0 : 1;
  }
  if (argc != 3) return 2;
  const std::string part(static_cast<std::size_t>(std::atoi(argv[2])), 'x');
  for (int left = std::atoi(argv[1]); left > 0; --left) {
    if (control.is_leader() != (control.gather(part).size() == static_cast<std::size_t>(control.ranks()))) return 1;
    if (control.broadcast(control.is_leader() ? part : "") != part) return 1;
  }
  return 0;
}
