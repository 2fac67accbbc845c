// Files that ranks on all hosts read at the same path: which hosts have them, and a copy where one has not. Hosts may
// share a file system or none; only what they find tells.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/control_plane.hpp"
#include "topo/topology.hpp"
#include "tuner/files.hpp"

namespace p5 {

// How a rank takes part in it. The first rank of each host looks and writes.
struct HostRole {
  std::string host;                  // as the user knows it
  bool first = false;                // of its ranks
  std::filesystem::path root = "/";  // what absolute paths begin at (tests)
};
HostRole role_on_host(const ControlPlane& control, const topo::Topology& topology);

// A host that does not have what it should.
struct HostProblem {
  std::string host, why;
};

// All that follows on all ranks together; what comes back is complete at the leader and empty elsewhere.

// The hosts whose file at the leader's path is not the leader's, byte for byte; none where the leader has none itself.
std::vector<HostProblem> hosts_without(ControlPlane& control, const HostRole& place, const std::string& path);

// The leader's files in the leader's folder, an absolute path, on every host. First on the leader's, so that those that
// share its file system find them; what is there already and the same stays as it is. The hosts where that failed.
std::vector<HostProblem> put_on_hosts(ControlPlane& control, const HostRole& place, const std::string& folder,
                                      const std::vector<tuner::NamedFile>& files);

// The leader's files on every host, in a folder that goes with this object.
class TemporaryOnHosts {
 public:
  TemporaryOnHosts(ControlPlane& control, const HostRole& place);
  ~TemporaryOnHosts();
  TemporaryOnHosts(const TemporaryOnHosts&) = delete;
  TemporaryOnHosts& operator=(const TemporaryOnHosts&) = delete;

  const std::string& folder() const { return folder_; }  // the same on all hosts
  std::vector<HostProblem> put(const std::vector<tuner::NamedFile>& files);

 private:
  ControlPlane& control_;
  const HostRole& place_;
  std::string folder_;
};

// Null where it cannot be read.
std::optional<std::string> bytes_of(const std::filesystem::path& path);

// "n1: cannot write ...; n2: ..."
std::string to_text(const std::vector<HostProblem>& problems);

}  // namespace p5
