// Reports on disk: unchanged by writing and reading, complete or absent; and a journal that only grows.
#include "reports/report.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <limits>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/base/thread.hpp"
#include "reports/atomic_file.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/nccl_tests.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5::reports {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Files : public InFolder {
 protected:
  static std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
};

using AtomicFile = Files;
using Journal = Files;

Report everything() {
  Report report;
  report.status = "complete";
  report.grade = Grade::wrong;
  report.exit_code = ExitCode::wrong_data;
  report.run = {.version = "1.2.3",
                .command = {"--sizes", "8"},
                .started = "2026-11-20T12:00:00Z",
                .ended = "2026-11-20T12:01:00Z",
                .wall_s = 60.25,
                .budget_s = 600,
                .seed = ~std::uint64_t{0},
                .cluster = "lab",
                .ranks = 2,
                .nodes = 1,
                .backend = "mpi",
                .remarks = {"one"},
                .ended_by = "SIGTERM"};
  report.context = {{"mpi", "x"}};
  Result pair;
  Measurement& m = pair.measurement;
  m.measured_case.backend = "mpi";
  m.measured_case.collective = &p2p;
  m.measured_case.pattern = "one_way";
  m.measured_case.bytes = {1};
  m.measured_case.ranks = 2;
  m.throughput = Series{
      .operations_per_sample = 3, .samples = {1e-6 / 3, 2e-6 / 3}, .summary = {}, .stopped_because = "250 samples"};
  m.throughput->summary = summarize({1e-6 / 3, 2e-6 / 3, 1e-6, 1.1e-6, 1.2e-6, 1.3e-6 / 7});
  m.latency = m.throughput;
  m.measured_case.pair = "other_node";
  m.groups = {{{0, 1}, {1e-6 / 3}}};
  m.slowest_group = {0, 1};
  m.slowest_rank = 1;
  m.launches_s = {1e-6 / 3};
  m.host_s = 2.5e-6;
  m.wrong_elements = 1;
  m.first_wrong = WrongElement{.rank = 1, .offset = 5, .wanted = "1", .got = "\"<2>\"", .guard = true};
  m.selection = Selection{"ring", "simple", 24, "log"};
  pair.verdict = {.grade = Grade::wrong,
                  .level = "wire",
                  .limit = GBps{3 * bus_bandwidth(m.measured_case, Seconds{m.throughput->summary.median}).count},
                  .fraction = 1.0 / 3,
                  .binding = "nic",
                  .because = "so"};
  Result failed;
  failed.measurement.measured_case.collective = &all_reduce;
  failed.measurement.measured_case.op = ReduceOp::max;
  failed.measurement.measured_case.calls = {.cuda_graph = true, .registration = "local", .aggregate = 4, .unalign = 5};
  failed.measurement.measured_case.every_root = true;
  failed.measurement.roots = {{0, {1e-6}}, {1, {3e-6}}, {2, {2e-6}}};
  failed.measurement.outcome = Outcome::failed;
  failed.measurement.failed_in = Phase::warm_up;
  failed.measurement.failed_rank = 3;
  report.results = {pair, failed};
  report.decision = decide(report);
  return report;
}

TEST(ReportJson, is_the_same_after_it_was_read) {
  const nlohmann::json written = to_json(everything());
  EXPECT_EQ(to_json(report_from_json(written)).dump(1), written.dump(1));
}

TEST(ReportJson, of_wrong_data_in_a_case_that_also_failed_can_be_read) {
  Report report = everything();
  report.results.resize(1);
  Measurement& m = report.results[0].measurement;
  m.outcome = Outcome::failed;
  m.failed_in = Phase::sample;
  m.because = "rank 1 in sample: it died";
  report.results[0].verdict = judge(m, {}, report.topology, {});
  report.exit_code = exit_code(report);
  report.decision = decide(report);
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
  EXPECT_EQ(report_from_json(to_json(report)).results[0].verdict.grade, Grade::wrong);
}

TEST(ReportJson, tells_the_decision_that_follows_from_its_content) {
  const nlohmann::json written = to_json(everything());
  nlohmann::json j = written;
  j["decision"]["sentence"] = "ACCEPT: all good";
  EXPECT_THROW(report_from_json(j), UsageError);
  j["decision"] = nullptr;
  EXPECT_EQ(to_json(report_from_json(j)), written);
  Report good;
  good.status = "complete";
  good.exit_code = ExitCode::ok;
  j = to_json(good);
  EXPECT_NO_THROW(report_from_json(j));
  j["measurements"].push_back(written["measurements"][1]);
  EXPECT_THROW(report_from_json(j), UsageError) << "a measurement failed, though its grade does not tell";
}

TEST(ReportJson, is_read_from_before_findings_said_what_they_are_about) {
  Report report = everything();
  report.findings.push_back({"gpu.links", topo::Severity::error, {}, "3 links are down", "", topo::About::fabric});
  nlohmann::json j = to_json(report);
  EXPECT_EQ(j.at("findings").back().at("about"), "fabric");
  EXPECT_EQ(report_from_json(j).findings.back().about, topo::About::fabric);
  j.at("findings").back().erase("about");
  const Report old = report_from_json(j);
  EXPECT_EQ(old.findings.back().about, std::nullopt);
  EXPECT_TRUE(to_json(old).at("findings").back().at("about").is_null());
  j.at("findings").back()["about"] = "weather";
  EXPECT_THROW(report_from_json(j), UsageError);
}

TEST(ReportJson, knows_faulty_as_the_grade_of_a_report_alone) {
  Report report;
  report.findings.push_back({"gpu.links", topo::Severity::error, {}, "3 links are down", "", topo::About::fabric});
  report.grade = overall(report);
  report.exit_code = exit_code(report);
  report.decision = decide(report);
  EXPECT_EQ(report_from_json(to_json(report)).grade, Grade::faulty);
  nlohmann::json j = to_json(everything());
  j.at("measurements").at(0).at("verdict")["grade"] = "faulty";
  EXPECT_THROW(report_from_json(j), UsageError);
}

TEST(ReportJson, is_refused_if_its_grade_or_figures_contradict_its_content) {
  const nlohmann::json written = to_json(everything());
  const auto problem_of = [&](const char* pointer, const nlohmann::json& value) -> std::string {
    nlohmann::json j = written;
    j[nlohmann::json::json_pointer(pointer)] = value;
    try {
      report_from_json(j);
    } catch (const UsageError& problem) {
      return problem.what();
    }
    return "read";
  };
  for (const char* const grade : {"ok", "slow", "faulty", "failed", "unknown"})
    EXPECT_THAT(problem_of("/grade", grade), HasSubstr(std::string("suspects are wrong, and its grade is ") + grade));
  EXPECT_THAT(problem_of("/measurements/0/throughput/busbw_gb_per_s", 400), HasSubstr("busbw_gb_per_s is 400, but"));
  for (const char* const time : {"/measurements/0/throughput/min_us", "/measurements/0/latency/min_us"})
    EXPECT_THAT(problem_of(time, 1e9), HasSubstr("took 1e+09 us at least"));
  EXPECT_THAT(problem_of("/measurements/0/throughput/max_us", 1e-3), HasSubstr("and 0.001 us at most"));
  const auto verdict = [&](double fraction, const nlohmann::json& of_mean = nullptr) {
    const double rate = written["/measurements/0/throughput/busbw_gb_per_s"_json_pointer];
    return nlohmann::json{{"grade", "ok"},
                          {"level", "wire"},
                          {"limit_gb_per_s", 2 * rate},
                          {"binding", "nic"},
                          {"because", "so"},
                          {"fraction_of_limit", fraction},
                          {"mean_fraction_of_limit", of_mean},
                          {"least_fraction_of_limit", 0.8}};
  };
  EXPECT_THAT(problem_of("/measurements/0/verdict", verdict(0.5)),
              HasSubstr("fraction_of_limit is 0.5, but ok begins at 0.8"));
  for (const double fraction : {0.97, 0.51, 0.49, 0.0, 1e308})
    EXPECT_THAT(problem_of("/measurements/0/verdict", verdict(fraction)),
                HasSubstr("but 0.5 by the limit and the median time"))
        << fraction;
  EXPECT_THAT(problem_of("/measurements/0/verdict", verdict(0.5, 0.6)),
              HasSubstr("mean_fraction_of_limit is 0.6, but no more than 0.5, the median's"));
  // A group's share, where others are not judged, and the newest run's share in a baseline contradict nothing.
  nlohmann::json of_group = verdict(0.97);
  of_group["not_judged_hosts"] = {"h0"};
  EXPECT_THAT(problem_of("/measurements/0/verdict", of_group), testing::Not(HasSubstr("by the limit")));
  nlohmann::json baseline = written["/measurements/0"_json_pointer];
  baseline["verdict"] = verdict(0.97);
  baseline["throughput"]["stopped_because"] = "a baseline of 3 launches";
  EXPECT_THAT(problem_of("/measurements/0", baseline), testing::Not(HasSubstr("by the limit")));
}

// Release 0.2.0 wrote the algorithm bandwidth as the bus bandwidth of one rank, which is 0 since.
TEST(ReportJson, of_one_rank_is_read_whatever_its_bus_bandwidth_is) {
  Report report = everything();
  report.run.ranks = 1;
  report.results.resize(1);
  Measurement& m = report.results[0].measurement;
  m.measured_case.collective = &all_reduce;
  m.measured_case.pattern = m.measured_case.pair = "";
  m.measured_case.ranks = 1;
  m.groups.clear();
  m.slowest_group.clear();
  m.slowest_rank = 0;
  const nlohmann::json now = to_json(report);
  nlohmann::json j = now;
  nlohmann::json& series = j.at("measurements").at(0).at("throughput");
  EXPECT_EQ(series.at("busbw_gb_per_s"), 0);
  series["busbw_gb_per_s"] = series.at("algbw_gb_per_s").get<double>() + 40;
  EXPECT_EQ(to_json(report_from_json(j)), now);
  series["algbw_gb_per_s"] = 40;
  EXPECT_THROW(report_from_json(j), UsageError);
}

// Reports of 0.2.0 have no decision, and the grade of a killed run, of wrong data that only a finding tells and of a
// failure of NCCL's own settings while tuning is not that of their content.
TEST(ReportJson, from_before_decisions_has_the_grade_of_its_content) {
  const auto with_result = [](Grade grade) {
    Report report;
    report.status = "complete";
    Result& result = report.results.emplace_back();
    result.measurement.measured_case.collective = &all_reduce;
    result.verdict.grade = grade;
    return report;
  };
  Report killed = with_result(Grade::slow), wrong = with_result(Grade::ok), failed = with_result(Grade::ok);
  killed.status = "partial";
  wrong.findings.push_back(
      {std::string(nccl_tests::out_of_bounds), topo::Severity::error, {}, "", "", topo::About::hardware});
  failed.tuning.emplace().mode = "quick";
  failed.tuning->outcome = "nothing";
  failed.tuning->failures.push_back(
      {.collective = "all_reduce", .bytes = 8, .setting = "default", .wrong_data = false, .because = "rank 1 died"});
  for (const auto& [report, told, grade, code, word] :
       {std::tuple(killed, Grade::unknown, Grade::slow, ExitCode::unfinished, "CANNOT TELL"),
        std::tuple(wrong, Grade::faulty, Grade::wrong, ExitCode::wrong_data, "REJECT"),
        std::tuple(failed, Grade::ok, Grade::failed, ExitCode::unfinished, "CANNOT TELL")}) {
    Report old = report;
    old.run.ranks = 2;
    old.grade = told;
    old.exit_code = code;
    const Report back = report_from_json(to_json(old));
    EXPECT_EQ(back.grade, grade);
    EXPECT_EQ(back.exit_code, code);
    EXPECT_EQ(back.decision.word, word);
    old.decision = back.decision;
    EXPECT_THROW(report_from_json(to_json(old)), UsageError) << "its grade is that of its content since";
  }
  killed.run.ranks = 2;
  killed.grade = Grade::wrong;
  EXPECT_THROW(report_from_json(to_json(killed)), UsageError) << "worse than its content";
}

TEST(ReportJson, tells_rates_of_the_times_beside_them) {
  const nlohmann::json series = to_json(everything()).at("measurements").at(0).at("throughput");
  EXPECT_DOUBLE_EQ(series.at("algbw_gb_per_s").get<double>(), 1e-3 / series.at("median_us").get<double>());
}

TEST(ReportJson, has_samples_in_the_journal_only) {
  const Report report = everything();
  EXPECT_EQ(to_json(report.results[0], true).at("throughput").at("samples_us").size(), 2u);
  EXPECT_FALSE(to_json(report.results[0], false).at("throughput").contains("samples_us"));
}

TEST(ReportJson, never_holds_what_is_no_number) {
  Report report = everything();
  report.results[0].measurement.throughput->summary.median = 0;  // a rate would be infinite
  report.results[0].measurement.wall_s = std::numeric_limits<double>::quiet_NaN();
  const nlohmann::json j = to_json(report).at("measurements").at(0);
  EXPECT_TRUE(j.at("throughput").at("busbw_gb_per_s").is_null());
  EXPECT_TRUE(j.at("wall_s").is_null());
}

TEST_F(AtomicFile, replaces_a_file_and_leaves_nothing_else) {
  write_atomically(folder / "report.json", "old");
  write_atomically(folder / "report.json", "new");
  EXPECT_EQ(content(folder / "report.json"), "new");
  EXPECT_EQ(entries(), 1u);
}

// Readers of the old or new file see a complete file.
TEST_F(AtomicFile, does_not_touch_the_file_that_it_replaces) {
  write_atomically(folder / "report.json", "old");
  fs::create_hard_link(folder / "report.json", folder / "the same");
  write_atomically(folder / "report.json", "new");
  EXPECT_EQ(content(folder / "the same"), "old");
}

TEST_F(AtomicFile, names_the_file_that_cannot_be_written) {
  try {
    write_atomically(folder / "missing" / "report.json", "text");
    FAIL() << "it was written";
  } catch (const EnvironmentError& problem) {
    EXPECT_NE(std::string(problem.what()).find("missing"), std::string::npos);
  }
}

TEST_F(AtomicFile, leaves_nothing_beside_a_file_that_cannot_be_written) {
  fs::create_directory(folder / "report.json");
  EXPECT_THROW(write_atomically(folder / "report.json", "text"), UsageError);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFile, keeps_the_permissions_of_the_file_that_it_replaces) {
  write_atomically(folder / "report.json", "old");
  fs::permissions(folder / "report.json", fs::perms::owner_read | fs::perms::owner_write);
  write_atomically(folder / "report.json", "new");
  EXPECT_EQ(fs::status(folder / "report.json").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// Holds for root too, who may write everything.
TEST_F(AtomicFile, refuses_what_is_no_file_to_write_and_leaves_it_as_it_is) {
  write_atomically(folder / "read-only", "old");
  fs::permissions(folder / "read-only", fs::perms::owner_read);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("missing", folder / "dangling");
  fs::create_symlink("read-only", folder / "to read-only");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = (folder / "socket").string();
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const std::string each : {"read-only", "pipe", "dangling", "to read-only", "socket"}) {
    const fs::file_type before = fs::symlink_status(folder / each).type();
    if (each.ends_with("read-only"))
      EXPECT_THROW(check_writable(folder / each), UsageError) << each;
    else
      EXPECT_THROW(write_atomically(folder / each, "new"), UsageError) << each;
    EXPECT_EQ(fs::symlink_status(folder / each).type(), before) << each;
  }
  EXPECT_EQ(content(folder / "read-only"), "old");
  EXPECT_EQ(entries(), 5u);
  ::close(socket);
}

TEST_F(AtomicFile, writes_through_a_link_a_device_and_a_pipe_that_is_read) {
  write_atomically(folder / "file", "an old and longer text");
  fs::create_symlink("file", folder / "link");
  write_atomically(folder / "link", "new");
  EXPECT_EQ(content(folder / "file"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));

  fs::create_symlink("/dev/null", folder / "null");
  write_atomically(folder / "null", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "null"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));

  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_atomically(folder / "pipe", "new");
  std::array<char, 8> got{};
  EXPECT_EQ(::read(reader, got.data(), got.size()), 3);
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
}

TEST_F(AtomicFile, says_before_anything_is_done_what_cannot_be_written) {
  fs::create_directory(folder / "folder");
  fs::create_symlink("missing", folder / "dangling");
  write_atomically(folder / "file", "old");
  for (const char* const each : {"folder", "dangling", "missing/file", "folder/"})
    EXPECT_THROW(check_writable(folder / each), UsageError) << each;
  for (const char* const each : {"file", "new"}) EXPECT_NO_THROW(check_writable(folder / each)) << each;
  EXPECT_NO_THROW(check_writable("/dev/null"));
  EXPECT_EQ(entries(), 3u);
  EXPECT_EQ(content(folder / "file"), "old");
}

// Root in a folder where others may write: predictable names would be under their control.
TEST_F(AtomicFile, writes_beside_a_file_under_names_that_nobody_foresees) {
  std::set<std::string> words;
  for (int i = 0; i < 100; ++i) words.insert(random_name());
  EXPECT_EQ(words.size(), 100u);
  // A link planted under the earlier predictable name is neither followed nor removed.
  write_atomically(folder / "victim", "mine");
  const std::string number = std::to_string(::getpid());
  for (const std::string& name : {".report.json." + number, ".latest." + number, ".probe." + number})
    fs::create_symlink("victim", folder / name);
  make_folder(folder);
  write_atomically(folder / "report.json", "new");
  replace_link(folder / "latest", "one");
  EXPECT_EQ(content(folder / "victim"), "mine");
  EXPECT_EQ(entries(), 6u);
}

TEST_F(Journal, goes_into_a_regular_file_only) {
  write_atomically(folder / "victim", "mine");
  fs::create_symlink("victim", folder / "journal");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* const each : {"journal", "pipe"})
    EXPECT_THROW(append_line(folder / each, "{}"), EnvironmentError) << each;
  EXPECT_EQ(content(folder / "victim"), "mine");
}

TEST_F(AtomicFile, refuses_a_folder_where_a_file_is_in_the_way) {
  write_atomically(folder / "file", "");
  EXPECT_THROW(make_folder(folder / "file"), UsageError);
  EXPECT_THROW(make_folder(folder / "file" / "below"), UsageError);
  make_folder(folder / "a" / "b");
  EXPECT_TRUE(fs::is_empty(folder / "a" / "b"));
}

TEST_F(AtomicFile, moves_a_link) {
  replace_link(folder / "latest", "one");
  replace_link(folder / "latest", "two");
  EXPECT_EQ(fs::read_symlink(folder / "latest"), "two");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Journal, grows_by_lines) {
  append_line(folder / "journal", "{}");
  append_line(folder / "journal", "[]");
  EXPECT_EQ(content(folder / "journal"), "{}\n[]\n");
}

// Limits the size of this process's files, like a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, ignored_before_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*ignored_before_)(int) = ::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(Journal, has_whole_lines_where_one_does_not_fit) {
  append_line(folder / "journal", "{}");
  {
    const FullDisk disk(10);
    EXPECT_THROW(append_line(folder / "journal", std::string(20, 'x')), EnvironmentError);
  }
  EXPECT_EQ(content(folder / "journal"), "{}\n");
}

}  // namespace
}  // namespace p5::reports
