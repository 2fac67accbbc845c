// Files on every host of a job: ranks as threads, each host with a file system of its own or one that it shares.
#include "bench/app/machine/files_on_hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include "bench/control/control_planes.hpp"
#include "tests/unit/topo_tree.hpp"

namespace p5 {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two ranks on each of two hosts.
topo::Topology two_hosts() {
  topo::Topology topology;
  topology.hosts.resize(2);
  topology.hosts[0].name = "alpha";
  topology.hosts[1].name = "beta";
  topology.host_of_rank = {0, 0, 1, 1};
  return topology;
}

class FilesOnHosts : public testing::Test {
 protected:
  using Body = std::function<std::vector<HostProblem>(ControlPlane&, const HostRole&)>;

  // The answers that the leader receives.
  std::vector<HostProblem> run(const Body& body, bool shared = false) {
    const topo::Topology topology = two_hosts();
    std::vector<HostProblem> heard;
    run_threads(4, [&](ControlPlane& control) {
      HostRole place = role_on_host(control, topology);
      place.root = control.participant() < 2 || shared ? alpha.root() : beta.root();
      std::vector<HostProblem> mine = body(control, place);
      if (control.is_leader())
        heard = std::move(mine);
      else
        EXPECT_EQ(mine.size(), 0u);
    });
    return heard;
  }

  // Only the leader has the files and their places.
  static Body put(const std::string& folder, const std::vector<tuner::NamedFile>& files) {
    return [=](ControlPlane& control, const HostRole& place) {
      return control.is_leader() ? put_on_hosts(control, place, folder, files) : put_on_hosts(control, place, "", {});
    };
  }
  static Body without(const std::string& path) {
    return [=](ControlPlane& control, const HostRole& place) {
      return hosts_without(control, place, control.is_leader() ? path : "");
    };
  }

  static fs::path at(const topo::Tree& host, const std::string& path) {
    return fs::path(host.root()) / fs::path(path).relative_path();
  }
  static void write(const topo::Tree& host, const std::string& path, const std::string& text) {
    fs::create_directories(at(host, path).parent_path());
    std::ofstream(at(host, path), std::ios::binary) << text;
  }
  std::optional<std::string> there(const topo::Tree& host, const std::string& path) const {
    return bytes_of(at(host, path));
  }

  topo::Tree alpha, beta;
  const std::vector<tuner::NamedFile> files{{"nccl-tuner.csv", "a table\n"},
                                            {"plugin.so", std::string("\x7f\0\xff", 3)}};
};

TEST_F(FilesOnHosts, are_written_byte_for_byte_where_they_are_missing) {
  EXPECT_THAT(run(put("/home/me/out", files)), IsEmpty());
  for (const topo::Tree* host : {&alpha, &beta})
    for (const tuner::NamedFile& file : files) EXPECT_EQ(there(*host, "/home/me/out/" + file.name), file.text);
}

TEST_F(FilesOnHosts, replace_others_and_leave_the_same_alone) {
  write(beta, "/out/nccl-tuner.csv", "another table\n");
  write(beta, "/out/plugin.so", files[1].text);
  const auto untouched = fs::last_write_time(at(beta, "/out/plugin.so")) - std::chrono::hours(1);
  fs::last_write_time(at(beta, "/out/plugin.so"), untouched);
  EXPECT_THAT(run(put("/out", files)), IsEmpty());
  EXPECT_EQ(there(beta, "/out/nccl-tuner.csv"), files[0].text);
  EXPECT_EQ(fs::last_write_time(at(beta, "/out/plugin.so")), untouched);
}

TEST_F(FilesOnHosts, are_written_once_where_hosts_share_a_file_system) {
  const Body write = put("/out", files);
  EXPECT_THAT(run(write, true), IsEmpty());
  const auto written = fs::last_write_time(at(alpha, "/out/plugin.so"));
  EXPECT_THAT(run(write, true), IsEmpty());
  EXPECT_EQ(fs::last_write_time(at(alpha, "/out/plugin.so")), written);
}

TEST_F(FilesOnHosts, name_the_host_where_they_cannot_be_and_stay_on_the_others) {
  write(beta, "/home/me", "a file, where a folder would have to be");
  const std::vector<HostProblem> problems = run(put("/home/me/out", files));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].host, "beta");
  EXPECT_THAT(problems[0].why, HasSubstr("/home/me"));
  EXPECT_THAT(to_text(problems), HasSubstr("beta: "));
  EXPECT_EQ(there(alpha, "/home/me/out/nccl-tuner.csv"), files[0].text);
}

TEST_F(FilesOnHosts, that_are_missing_or_others_are_told_with_the_host) {
  const auto hosts = [&](const std::string& path) {
    std::vector<std::string> told;
    for (const HostProblem& each : run(without(path))) told.push_back(each.host + ": " + each.why);
    return told;
  };
  write(alpha, "/lib/plugin.so", "one build");
  EXPECT_THAT(hosts("/lib/plugin.so"), ElementsAre("beta: '/lib/plugin.so' cannot be read there"));
  write(beta, "/lib/plugin.so", "another build");
  EXPECT_THAT(hosts("/lib/plugin.so"), ElementsAre("beta: '/lib/plugin.so' is another file there"));
  write(beta, "/lib/plugin.so", "one build");
  EXPECT_THAT(hosts("/lib/plugin.so"), IsEmpty());
  EXPECT_THAT(hosts("/lib/none.so"), IsEmpty()) << "the leader has none to compare with";
}

TEST_F(FilesOnHosts, for_a_while_go_with_what_holds_them) {
  std::mutex mutex;
  TemporaryFolders folders;
  std::string folder;
  EXPECT_THAT(
      run([&](ControlPlane& control, const HostRole& place) {
        TemporaryOnHosts there(control, place, folders);
        std::vector<HostProblem> problems = there.put(control.is_leader() ? files : std::vector<tuner::NamedFile>());
        {
          const std::scoped_lock lock(mutex);
          EXPECT_TRUE(folder.empty() || folder == there.folder());
          folder = there.folder();
        }
        EXPECT_EQ(bytes_of(place.root / fs::path(there.folder() + "/nccl-tuner.csv").relative_path()), files[0].text);
        control.barrier();
        return problems;
      }),
      IsEmpty());
  for (const topo::Tree* host : {&alpha, &beta}) EXPECT_FALSE(fs::exists(at(*host, folder)));
}

}  // namespace
}  // namespace p5
