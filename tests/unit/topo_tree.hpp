// A recorded machine in a temporary folder, written file by file as /proc and /sys show it.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace p5::topo {

class Tree {
 public:
  Tree() {
    std::string name = (std::filesystem::temp_directory_path() / "p5bench-tree-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
    root_ = name;
  }
  ~Tree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  std::string root() const { return root_.string(); }

  Tree& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
    return *this;
  }

  // Relative, as sysfs has them.
  Tree& link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::create_directories(root_ / target);
    std::filesystem::create_directory_symlink(std::filesystem::relative(root_ / target, (root_ / path).parent_path()),
                                              root_ / path);
    return *this;
  }

  // A network device on a bus; `device` "" makes it a virtual one.
  Tree& network(const std::string& name, const std::string& device, const std::string& speed,
                const std::string& state = "up") {
    const std::string folder = "sys/class/net/" + name;
    file(folder + "/operstate", state).file(folder + "/speed", speed).file(folder + "/type", "1");
    return device.empty() ? *this : link(folder + "/device", device);
  }

  Tree& driver(const std::string& device, const std::string& name) {
    return link(device + "/driver", "sys/bus/pci/drivers/" + name);
  }

  Tree& rdma(const std::string& name, const std::string& device, const std::string& rate,
             const std::string& state = "4: ACTIVE") {
    const std::string folder = "sys/class/infiniband/" + name;
    file(folder + "/ports/1/rate", rate)
        .file(folder + "/ports/1/state", state)
        .file(folder + "/ports/1/link_layer", "InfiniBand");
    return link(folder + "/device", device);
  }

  // Processors 0 .. count-1, `threads` of them to a core, in one package and one NUMA node.
  Tree& processors(int count, int threads = 1) {
    const std::string folder = "sys/devices/system/cpu";
    const std::string all = fmt::format("0-{}", count - 1);
    file(folder + "/online", all).file(folder + "/possible", all).file(folder + "/present", all);
    for (int cpu = 0; cpu < count; ++cpu) {
      const std::string topology = fmt::format("{}/cpu{}/topology", folder, cpu);
      const int core = cpu / threads;
      file(topology + "/physical_package_id", "0").file(topology + "/core_id", std::to_string(core));
      file(topology + "/core_cpus", fmt::format("{:x}", ((1u << threads) - 1) << (core * threads)));
      file(topology + "/thread_siblings", fmt::format("{:x}", ((1u << threads) - 1) << (core * threads)));
      file(topology + "/package_cpus", fmt::format("{:x}", (1u << count) - 1));
      file(topology + "/core_siblings", fmt::format("{:x}", (1u << count) - 1));
    }
    return *this;
  }

  Tree& memory(long total_kib, long available_kib) {
    return file("proc/meminfo",
                fmt::format("MemTotal:       {} kB\nMemFree:  1 kB\nMemAvailable:   {} kB", total_kib, available_kib));
  }

 private:
  std::filesystem::path root_;
};

}  // namespace p5::topo
