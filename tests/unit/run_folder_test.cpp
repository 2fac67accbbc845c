// The folder of a run: the owner of its link, and files that others have put there.
#include "bench/app/run/run_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/model/collective.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5 {
namespace {

namespace fs = std::filesystem;

class RunFolders : public InFolder {};

TEST_F(RunFolders, latest_is_the_last_of_its_second_and_any_run_of_another) {
  RunFolder first(folder, "c");
  first.become_latest();
  const fs::path run = fs::read_symlink(folder / "c" / "latest");
  const auto points_to = [&](const fs::path& target) {
    fs::remove(folder / "c" / "latest");
    fs::create_symlink(target, folder / "c" / "latest");
  };
  // A run of the same second that began after all others; one whose name is in the future.
  for (const std::string& stamp : {std::string("20000101T000000Z"), std::string("29990101T000000Z-7")}) {
    points_to(stamp);
    RunFolder later(folder, "c");
    later.become_latest();
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest"), later.path().filename()) << stamp;
    EXPECT_EQ(folder / later.within_out(), later.path());
    points_to(later.path().filename().string().substr(0, 16) + "-1000");
    RunFolder another(folder, "c");
    another.become_latest();
    const bool same_second =
        another.path().filename().string().starts_with(later.path().filename().string().substr(0, 16));
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest") == another.path().filename(), !same_second);
  }
}

TEST_F(RunFolders, latest_of_all_clusters_is_the_one_that_began_last) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    RunFolder first(folder, "c"), second(folder, "c"), third(folder, "c"), other(folder, "d");
    for (RunFolder* each : {&first, &second, &third, &other}) each->become_latest();
    EXPECT_EQ(fs::read_symlink(folder / "latest"), fs::path("d") / other.path().filename());
    EXPECT_EQ(fs::read_symlink(folder / "c" / "latest"), third.path().filename());
  }
}

TEST(FileWriter, waits_once_for_a_file_system_that_does_not_answer) {
  const auto goes_on = std::make_shared<std::promise<void>>();
  FileWriter files([held = goes_on->get_future().share()](const fs::path&, const std::string&, bool) { held.wait(); });
  files.write("a", "");
  files.write("b", "");
  const Seconds timeout{3600};
  EXPECT_THROW(files.flush({0.05}), EnvironmentError);
  EXPECT_THROW(files.flush(timeout), EnvironmentError);  // an hour later if it waited again
  goes_on->set_value();
  files.flush(timeout);  // nothing is lost where it answers again
}

TEST(FileWriter, does_not_take_lack_of_memory_for_a_fault_of_the_disk) {
  FileWriter files([](const fs::path& path, const std::string&, bool) {
    if (path == "a") throw std::bad_alloc();
    throw std::runtime_error("no space left on device");
  });
  files.write("a", "");
  EXPECT_THROW(files.flush({60}), std::bad_alloc);
  files.write("b", "");
  EXPECT_THROW(files.flush({60}), EnvironmentError);
}

TEST_F(RunFolders, files_that_are_written_again_are_there_and_those_that_cannot_be_are_not) {
  FileWriter files;
  for (int attempt = 0; attempt < 20; ++attempt) {
    files.write(folder / "a", "before");
    files.remove(folder / "a");
    files.write(folder / "a", "after");
    files.write(folder / "b", "before");
    files.remove(folder / "b");
    files.flush({60});
    EXPECT_EQ(fs::file_size(folder / "a"), 5U);
    EXPECT_FALSE(fs::exists(folder / "b"));
  }
}

TEST_F(RunFolders, notes_are_read_from_files_alone) {
  const RunFolder run(folder, "c");
  write_note_for_leader(run.path(), 3, "rank 3: lost");
  ASSERT_EQ(::mkfifo((run.path() / "lost-rank-4").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", run.path() / "lost-rank-5");
  EXPECT_EQ(run.take_notes(), "rank 3: lost");
  EXPECT_FALSE(fs::exists(run.path() / "lost-rank-3"));
}

class KeptResults : public InFolder {
 protected:
  static Case planned(const Collective& collective, const std::vector<Round>& rounds) {
    Case c;
    c.backend = "nccl";
    c.collective = &collective;
    if (collective.reduces) c.op = ReduceOp::sum;
    c.bytes = MiB(1);
    c.ranks = 2;
    c.rounds = std::make_shared<const std::vector<Round>>(rounds);
    return c;
  }
  // The result as it is kept of a run of 16 ranks with it in its journal.
  std::vector<KeptLine> kept(const Measurement& m, const topo::Topology& then = {},
                             const topo::Topology& now = {}) const {
    std::ofstream(folder / "measurements.jsonl") << to_json(reports::Result{m, {}}, true).dump() << "\n";
    reports::Report earlier, fresh;
    earlier.run.ranks = fresh.run.ranks = 16;
    earlier.topology = then;
    fresh.topology = now;
    EarlierRun run{.folder = folder, .report = earlier};
    return keep_results(run, fresh, {m.measured_case}, {Arm{}});
  }
};

TEST_F(KeptResults, have_the_mean_that_a_slow_verdict_needs) {
  Measurement m;
  m.measured_case = planned(all_reduce, {{{0, 1}}});
  m.throughput = Series{};
  m.throughput->samples = std::vector<double>(80, 1e-3);
  m.throughput->samples.resize(100, 2e-3);
  m.throughput->summary = summarize(m.throughput->samples);
  m.throughput->summary.interval = Interval{0.5e-3, 3e-3};  // of repetitions
  const std::vector<KeptLine> lines = kept(m);
  ASSERT_EQ(lines.size(), 1u);
  const Summary& its = lines[0].result.measurement.throughput->summary;
  ASSERT_TRUE(its.trimmed_mean);
  EXPECT_NEAR(*its.trimmed_mean, (80 + 15 * 2) / 95.0 * 1e-3, 1e-12) << "without the slowest twentieth";
  EXPECT_NEAR(its.interval->high, 3e-3, 1e-12);
}

TEST_F(KeptResults, have_their_groups_without_progress_or_with_wrong_data) {
  Measurement m;
  m.measured_case = planned(p2p, {{{3, 11}, {4, 12}}});
  m.groups = {{{3, 11}, {1e-3}, {1e-3f, 2e-3f}}, {{4, 12}, {1e-3}, {1e-3f}}};
  m.wrong_elements = 4;
  m.wrong_groups = {{3, 11}};
  m.silent_groups = {{4, 12}};
  const std::vector<KeptLine> pairs = kept(m);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].result.measurement.wrong_groups, m.wrong_groups);
  EXPECT_EQ(pairs[0].result.measurement.silent_groups, m.silent_groups);
  EXPECT_EQ(pairs[0].result.measurement.groups.at(0).samples.size(), 2u);
  m.silent_groups = {{4, 16}};
  EXPECT_TRUE(kept(m).empty()) << "a rank that the job does not have";
  m.measured_case = planned(all_reduce, {{{0, 1}, {2, 3}}, {{0, 1}, {2, 3}}});
  m.groups = {{{0, 1}, {1e-3}, {}}, {{2, 3}, {1e-3}, {}}};
  m.wrong_groups = {{2, 3}};
  m.silent_groups.clear();
  const std::vector<KeptLine> groups = kept(m);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].result.measurement.wrong_groups, m.wrong_groups) << "completed from the plan";
  EXPECT_EQ(groups[0].result.measurement.groups.at(0).group, (Group{0, 1}));
}

TEST_F(KeptResults, have_the_wrong_data_of_cases_beside_the_plan) {
  Measurement m;
  m.measured_case = planned(p2p, {{{3, 11}}});
  m.measured_case.nic = 3;
  m.wrong_groups = {{3, 11}};
  EXPECT_TRUE(kept(m).empty()) << "measured again";
  m.wrong_elements = 4;
  for (const Outcome outcome : {Outcome::measured, Outcome::skipped}) {
    m.outcome = outcome;
    const std::vector<KeptLine> of_nic = kept(m);
    ASSERT_EQ(of_nic.size(), 1u);
    EXPECT_TRUE(of_nic[0].beside);
    EXPECT_EQ(of_nic[0].result.measurement.wrong_groups, m.wrong_groups);
  }
  m.outcome = Outcome::measured;
  m.measured_case = planned(all_reduce, {{{0, 1}, {2, 3}}});
  m.measured_case.for_parts = true;
  m.groups = {{{0, 1}, {1e-3}, {}}, {{2, 3}, {1e-3}, {}}};
  m.wrong_groups = {{2, 3}};
  const std::vector<KeptLine> of_half = kept(m);
  ASSERT_EQ(of_half.size(), 1u);
  EXPECT_EQ(of_half[0].result.measurement.wrong_elements, 4u);
  EXPECT_TRUE(of_half[0].result.measurement.groups.empty()) << "their other ranks are not known";
  EXPECT_TRUE(of_half[0].result.measurement.wrong_groups.empty());
  m.measured_case.for_parts = false;
  const std::vector<KeptLine> of_plan = kept(m);
  ASSERT_EQ(of_plan.size(), 1u);
  EXPECT_FALSE(of_plan[0].beside);
}

TEST_F(KeptResults, are_of_the_same_instances_and_gpus) {
  Measurement m;
  m.measured_case = planned(all_reduce, {{{0, 1}}});
  topo::Topology machine;
  machine.hosts.resize(2);
  machine.hosts[0].name = "worker-0";
  machine.hosts[1].name = "worker-1";
  machine.hosts[1].instance = "i-old";
  machine.host_of_rank = {0, 1};
  machine.gpu_of_rank = {"GPU-a", "GPU-old"};
  const auto refused = [&](const topo::Topology& now) -> std::string {
    try {
      EXPECT_EQ(kept(m, machine, now).size(), 1u);
      return "";
    } catch (const UsageError& refusal) {
      return refusal.what();
    }
  };
  EXPECT_EQ(refused(machine), "");
  topo::Topology unknown = machine;
  unknown.hosts[1].instance.clear();
  unknown.gpu_of_rank.clear();
  EXPECT_EQ(refused(unknown), "");
  topo::Topology another = machine;
  another.hosts[1].instance = "i-new";
  EXPECT_NE(refused(another).find("the instance of worker-1 was 'i-old', now it is 'i-new'"), std::string::npos);
  another = machine;
  another.gpu_of_rank[1] = "GPU-new";
  EXPECT_NE(refused(another).find("the GPU of rank 1 on worker-1 was 'GPU-old'"), std::string::npos);
  another = machine;
  another.host_of_rank = {1, 0};
  EXPECT_NE(refused(another).find("its ranks were on the hosts in another order"), std::string::npos);
}

TEST_F(KeptResults, are_none_of_a_run_that_ended_before_its_first_whatever_has_changed_since) {
  reports::Report before, fresh;
  before.status = "partial";
  before.run.version = "0.0.9";
  fresh.run.version = "0.2.0";
  before.topology.hosts.resize(3);
  for (std::size_t host = 0; host < 3; ++host) {
    before.topology.hosts[host].name = "worker-" + std::to_string(host);
    before.topology.hosts[host].instance = "i-" + std::to_string(host);
    before.topology.host_of_rank.push_back(static_cast<int>(host));
    before.topology.gpu_of_rank.push_back("GPU-" + std::to_string(host));
    before.findings.emplace_back().subject.host = before.topology.hosts[host].name;
  }
  before.findings.emplace_back().hosts = {"worker-0", "worker-1"};
  before.findings.emplace_back();
  before.arms.resize(1);
  EarlierRun earlier{.folder = folder, .report = before};
  fresh.topology = before.topology;
  EXPECT_TRUE(keep_results(earlier, fresh, {}, {}).empty());
  EXPECT_EQ(earlier.report.findings.size(), 5u) << "of the same machines, whatever software found them";
  EXPECT_TRUE(earlier.report.arms.empty()) << "of other software";
  earlier.report = before;
  fresh.topology.hosts[1].instance = "i-new";
  fresh.topology.gpu_of_rank[2] = "GPU-new";
  EXPECT_TRUE(keep_results(earlier, fresh, {}, {}).empty());
  ASSERT_EQ(earlier.report.findings.size(), 1u) << "of the host that is the same";
  EXPECT_EQ(earlier.report.findings[0].subject.host, "worker-0");
  earlier.report = before;
  fresh.topology.hosts.clear();
  EXPECT_TRUE(keep_results(earlier, fresh, {}, {}).empty());
  EXPECT_TRUE(earlier.report.findings.empty()) << "of other hosts";
  earlier.report = before;
  fresh = before;
  EXPECT_TRUE(keep_results(earlier, fresh, {}, {}).empty());
  EXPECT_EQ(earlier.report.findings.size(), 5u) << "of the same";
  fresh.run.version = "0.2.0";
  earlier.report.status = "complete";
  EXPECT_THROW((void)keep_results(earlier, fresh, {}, {}), UsageError);
}

}  // namespace
}  // namespace p5
