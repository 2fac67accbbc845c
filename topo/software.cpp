// Versions and kernel modules: what software the host runs.
#include "topo/topology.hpp"

namespace p5::topo {

const std::vector<std::string>& interesting_modules() {
  static const std::vector<std::string> names{"efa",     "efa_nv_peermem", "gdrdrv",         "ib_uverbs",
                                              "mlx5_ib", "nvidia",         "nvidia_peermem", "nvidia_uvm"};
  return names;
}

}  // namespace p5::topo
