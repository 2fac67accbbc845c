// What the control plane does, alone and as often as wanted, for tests that count: agreements COUNT BYTES agrees COUNT
// times on parts of BYTES each; agreements alarm has all ranks give up at once.
#include <cstdlib>
#include <string>

#include "bench/worlds/worlds.hpp"

int main(int argc, char** argv) {
  const p5::MpiJob job(true);
  p5::World& world = job.world();
  if (argc == 2) {
    world.raise_alarm(1);
    world.barrier();
    return world.alarmed(1) ? 0 : 1;
  }
  if (argc != 3) return 2;
  const std::string part(static_cast<std::size_t>(std::atoi(argv[2])), 'x');
  for (int left = std::atoi(argv[1]); left > 0; --left) {
    if (world.leads() != (world.gather(part).size() == static_cast<std::size_t>(world.ranks()))) return 1;
    if (world.broadcast(world.leads() ? part : "") != part) return 1;
  }
  return 0;
}
