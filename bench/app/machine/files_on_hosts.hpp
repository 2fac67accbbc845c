// Files that ranks on all hosts read at the same path: which hosts lack them, and copies for those. Hosts may or may
// not share file systems, so each host checks its own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/run/shutdown.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/topology.hpp"
#include "tuner/files.hpp"

namespace p5 {

// A rank's role in it. Only the first rank of each host reads and writes.
struct HostRole {
  std::string host;                  // the name that the user knows
  bool first = false;                // first rank of its host
  std::filesystem::path root = "/";  // prefix of absolute paths (for tests)
};
HostRole role_on_host(const ControlPlane& control, const topo::Topology& topology);

// A host without the right file.
struct HostProblem {
  std::string host, why;
};

// All of the following are collective; results are complete at the leader and empty elsewhere.

// Hosts whose file at the leader's path differs from the leader's; none if the leader has no such file.
std::vector<HostProblem> hosts_without(ControlPlane& control, const HostRole& place, const std::string& path);

// Writes the leader's files to the leader's folder, an absolute path, on every host: first on the leader's, so that
// hosts sharing its file system find them. Identical files are kept. Returns the hosts where that failed.
std::vector<HostProblem> put_on_hosts(ControlPlane& control, const HostRole& place, const std::string& folder,
                                      const std::vector<tuner::NamedFile>& files);

// A folder on every host for the leader's files; removed with this object, or with `folders` at the end of the process.
class TemporaryOnHosts {
 public:
  TemporaryOnHosts(ControlPlane& control, const HostRole& place, TemporaryFolders& folders);
  ~TemporaryOnHosts();
  TemporaryOnHosts(const TemporaryOnHosts&) = delete;
  TemporaryOnHosts& operator=(const TemporaryOnHosts&) = delete;

  const std::string& folder() const { return folder_; }  // same on all hosts
  std::vector<HostProblem> put(const std::vector<tuner::NamedFile>& files);

 private:
  ControlPlane& control_;
  const HostRole& place_;
  TemporaryFolders& folders_;
  std::string folder_;
};

// The file's content; null if it cannot be read.
std::optional<std::string> bytes_of(const std::filesystem::path& path);

// "n1: cannot write ...; n2: ..."
std::string to_text(const std::vector<HostProblem>& problems);

}  // namespace p5
