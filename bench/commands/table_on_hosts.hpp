// nccl-tuner.csv on every host of the job, in a folder of its own, for as long as it is being confirmed.
#pragma once

#include <string>

#include "bench/commands/machine.hpp"
#include "bench/world.hpp"

namespace p5 {

class TableOnHosts {
 public:
  // On all ranks together, with the leader's text. Throws EnvironmentError on all when a host cannot have it.
  TableOnHosts(World& world, const Machine& machine, const std::string& text);
  ~TableOnHosts();
  TableOnHosts(const TableOnHosts&) = delete;
  TableOnHosts& operator=(const TableOnHosts&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  std::string file() const { return folder_ + "/nccl-tuner.csv"; }

  std::string folder_;
  bool mine_ = false;  // the first rank of each host writes and removes it
};

}  // namespace p5
