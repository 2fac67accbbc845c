#include "bench/app/machine/files_on_hosts.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "bench/app/machine/workers.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/model/agreement.hpp"
#include "reports/atomic_file.hpp"

namespace p5 {

void fields(auto& archive, Is<HostProblem> auto& problem) {
  archive.must("host", problem.host);
  archive.must("why", problem.why);
}

namespace {

// Libraries may be among the files.
constexpr Bytes largest_cached_file = GiB(4);

namespace fs = std::filesystem;

fs::path at(const HostRole& place, const fs::path& path) { return place.root / path.relative_path(); }

// "" or the reason that the file was not written.
std::string write_if_different(const fs::path& path, const std::string& text) try {
  if (bytes_of(path) == text) return "";
  fs::create_directories(path.parent_path());
  reports::write_atomically(path, text);
  return bytes_of(path) == text ? "" : fmt::format("'{}' does not hold what was written to it", path.string());
} catch (const std::exception& problem) {  // any error of the file system
  return problem.what();
}

// Gathers the problem of the first rank of each host; other ranks contribute none.
std::vector<HostProblem> gather_problems(ControlPlane& control, const HostRole& place, const std::string& mine) {
  std::vector<HostProblem> problems = gather_at_leader(control, HostProblem{place.host, place.first ? mine : ""});
  std::erase_if(problems, [](const HostProblem& each) { return each.why.empty(); });
  return problems;
}

std::vector<tuner::NamedFile> files_of_leader(ControlPlane& control, const std::vector<tuner::NamedFile>& files) {
  std::vector<std::string> names;
  for (const tuner::NamedFile& file : files) names.push_back(file.name);
  names = shared_by_leader(control, names);
  std::vector<tuner::NamedFile> all;
  for (std::size_t i = 0; i < names.size(); ++i)
    all.push_back({names[i], control.broadcast(control.is_leader() ? files[i].text : "")});
  return all;
}

}  // namespace

std::optional<std::string> bytes_of(const fs::path& path) try {
  return read_input(path, largest_cached_file, "");
} catch (const UsageError&) {
  return std::nullopt;
}

HostRole role_on_host(const ControlPlane& control, const topo::Topology& topology) {
  return {.host = host_of_rank(topology, static_cast<std::size_t>(control.participant())).name,
          .first = is_first_on_host(control, topology)};
}

std::vector<HostProblem> hosts_without(ControlPlane& control, const HostRole& place, const std::string& path) {
  const std::string leaders_path = control.broadcast(path);
  std::optional<std::string> content;
  if (place.first) content = bytes_of(at(place, leaders_path));
  const std::string hash = content ? tuner::fingerprint(*content) : "";
  const std::string leaders = control.broadcast(hash);
  std::string why;
  if (!leaders.empty() && hash != leaders)
    why = content ? fmt::format("'{}' is another file there", leaders_path)
                  : fmt::format("'{}' cannot be read there", leaders_path);
  return gather_problems(control, place, why);
}

std::vector<HostProblem> put_on_hosts(ControlPlane& control, const HostRole& place, const std::string& folder,
                                      const std::vector<tuner::NamedFile>& files) {
  const std::string leaders_folder = control.broadcast(folder);
  const std::vector<tuner::NamedFile> all = files_of_leader(control, files);
  std::string why;
  const auto write_all = [&] {
    for (const tuner::NamedFile& file : all)
      if (why.empty()) why = write_if_different(at(place, leaders_folder) / file.name, file.text);
  };
  if (control.is_leader()) write_all();
  control.barrier();
  if (place.first && !control.is_leader()) write_all();
  std::vector<HostProblem> problems = gather_problems(control, place, why);
  control.broadcast("");  // no rank reads the files before all are written
  return problems;
}

TemporaryOnHosts::TemporaryOnHosts(ControlPlane& control, const HostRole& place, TemporaryFolders& folders)
    : control_(control), place_(place), folders_(folders) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  const std::string name = "p5bench-tuner-" + reports::random_name();
  folder_ = control.broadcast(((error ? fs::path("/tmp") : parent) / name).string());
  if (!place.first) return;
  const fs::path mine = at(place, folder_);
  fs::create_directories(mine.parent_path(), error);
  folders_.add(mine);
  ::mkdir(mine.c_str(), S_IRWXU);  // the parent folder may be writable by other users
}

TemporaryOnHosts::~TemporaryOnHosts() {
  if (place_.first) folders_.remove(at(place_, folder_));
}

std::vector<HostProblem> TemporaryOnHosts::put(const std::vector<tuner::NamedFile>& files) {
  return put_on_hosts(control_, place_, folder_, files);
}

std::string to_text(const std::vector<HostProblem>& problems) {
  std::vector<std::string> parts;
  for (const HostProblem& each : problems) parts.push_back(fmt::format("{}: {}", each.host, each.why));
  return join(parts, "; ");
}

}  // namespace p5
