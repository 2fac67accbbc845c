#include "bench/commands/table_on_hosts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bench/commands/leader.hpp"
#include "bench/error.hpp"

namespace p5 {

namespace fs = std::filesystem;

TableOnHosts::TableOnHosts(World& world, const Machine& machine, const std::string& text) {
  folder_ = from_leader(world, [] {
    return (fs::temp_directory_path() / fmt::format("p5bench-tuner-{}-{}", ::getuid(), ::getpid())).string();
  });
  const std::vector<int>& host_of_rank = machine.topology.host_of_rank;
  const int me = world.participant();
  mine_ = std::ranges::find(host_of_rank, host_of_rank[static_cast<std::size_t>(me)]) - host_of_rank.begin() == me;
  std::string problem;
  if (mine_) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!(std::ofstream(file()) << text)) problem = fmt::format("rank {}: '{}' cannot be written", me, file());
  }
  const std::vector<std::string> problems = world.gather(problem);
  from_leader(world, [&]() -> std::string {
    for (const std::string& each : problems)
      if (!each.empty()) throw EnvironmentError(each + "; set TMPDIR to a folder that every host has");
    return "";
  });
}

TableOnHosts::~TableOnHosts() {
  std::error_code error;
  if (mine_) fs::remove_all(folder_, error);
}

}  // namespace p5
