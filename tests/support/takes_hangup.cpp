// Preloaded by tests: takes SIGHUP when it is loaded, as UCX does, which Open MPI 5 loads.
#include <csignal>

[[gnu::constructor]] static void take_hangup() {
  std::signal(SIGHUP, [](int) {});
}
