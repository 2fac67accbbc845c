#include "bench/backends/worker_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

namespace p5 {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string version = "h:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\n";
const std::string info = "h:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n";
const std::string choice = "h:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n";
const std::string warning = "[2026-11-20 10:00:00] h:1:1 [0] init.cc:7 NCCL WARN Duplicate GPU detected\n";
const std::string call = "h:1:1 NCCL CALL ncclAllReduce(1)\n";
const std::string other = "a plugin says hello\n";
const std::string all = version + info + choice + "\n" + warning + call + other;

OperatorsLog::Lines sorted(const Environment& environment) { return OperatorsLog(environment).sort(all); }

TEST(OperatorsLog, has_what_the_level_asks_for) {
  EXPECT_EQ(sorted({}).asked_for, "");
  EXPECT_EQ(sorted({{"NCCL_DEBUG", "VERSION"}}).asked_for, "NCCL version 2.28.9+cuda13.0\n");
  EXPECT_EQ(sorted({{"NCCL_DEBUG", "warn"}}).asked_for, "NCCL version 2.28.9+cuda13.0\n" + warning);
  EXPECT_EQ(sorted({{"NCCL_DEBUG", "INFO"}}).asked_for, version + info + warning);
  EXPECT_EQ(sorted({{"NCCL_DEBUG", "TRACE"}}).asked_for, version + info + warning + call);
}

TEST(OperatorsLog, has_what_nccl_2_32_says_between_warnings_and_information) {
  const std::string attention = "h:1:1 [0] tuner.cc:99 (load) NCCL ATTN External tuner plugin x is unsupported\n";
  for (const auto& [level, wanted] :
       std::map<std::string, bool>{{"", false}, {"WARN", false}, {"ATTN", true}, {"INFO", true}}) {
    const OperatorsLog::Lines lines = OperatorsLog({{"NCCL_DEBUG", level}}).sort(attention);
    EXPECT_EQ(lines.asked_for, wanted ? attention : "") << level;
    EXPECT_EQ(lines.others, "");
  }
}

TEST(OperatorsLog, has_choices_only_where_the_operators_subsystems_do) {
  const auto with = [](const char* subsystems) {
    return sorted({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", subsystems}}).asked_for.find(choice) !=
           std::string::npos;
  };
  EXPECT_TRUE(with("TUNING"));
  EXPECT_TRUE(with("INIT,all"));
  EXPECT_TRUE(with("^COLL"));
  EXPECT_FALSE(with("INIT"));
  EXPECT_FALSE(with("^COLL,TUNING"));
}

TEST(OperatorsLog, leaves_lines_that_are_not_nccls_where_they_were_to_go) {
  EXPECT_EQ(sorted({}).others, other);
  EXPECT_EQ(sorted({{"NCCL_DEBUG", "TRACE"}}).others, other);
}

TEST(OperatorsLog, knows_the_patterns_of_nccls_file) {
  const auto file = [](const char* level, const char* pattern) {
    return OperatorsLog({{"NCCL_DEBUG", level}, {"NCCL_DEBUG_FILE", pattern}}).file("n1", 42);
  };
  EXPECT_EQ(file("INFO", "/x/%h.%p.log"), "/x/n1.42.log");
  EXPECT_EQ(file("WARN", "%%p%q%"), "%p%q%");
  EXPECT_EQ(file("VERSION", "/x"), "") << "NCCL writes its version to standard output";
  EXPECT_EQ(file("INFO", ""), "");
}

TEST(LastWarnings, are_the_newest_in_their_order_each_once_and_without_their_place) {
  const auto warn = [](const std::string& what) { return "\nh:1:1 [0] x.cc:1 NCCL WARN " + what + "\n"; };
  EXPECT_THAT(last_warnings(all, 3), ElementsAre("Duplicate GPU detected"));
  EXPECT_THAT(last_warnings(warn("a") + warn("b") + info + warn("c") + warn("c"), 2), ElementsAre("b", "c"));
  EXPECT_THAT(last_warnings(info, 3), IsEmpty());
  EXPECT_THAT(last_warnings("", 3), IsEmpty());
}

class File {
 public:
  File() {
    std::string name = "/tmp/p5bench-log-XXXXXX";
    const int made = mkstemp(name.data());
    close(made);
    path_ = name;
  }
  ~File() { unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }
  std::string text() const {
    std::string all_of_it;
    FILE* const file = std::fopen(path_.c_str(), "r");
    for (int c; (c = std::fgetc(file)) != EOF;) all_of_it += static_cast<char>(c);
    std::fclose(file);
    return all_of_it;
  }

 private:
  std::string path_;
};

void put(const WorkerLog& log, const std::string& text) {
  ASSERT_EQ(write(log.descriptor(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

TEST(WorkerLog, passes_on_whole_lines_once_and_the_rest_when_the_worker_has_ended) {
  const File file;
  WorkerLog log({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", file.path()}});
  put(log, info + "h:1:1 [0] NCCL INFO half");
  log.pass_on(1, false);
  log.pass_on(1, false);
  EXPECT_EQ(file.text(), info);
  log.pass_on(1, true);
  EXPECT_EQ(file.text(), info + "h:1:1 [0] NCCL INFO half");
}

TEST(WorkerLog, passes_on_more_than_is_read_at_a_time) {
  const File file;
  WorkerLog log({{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", file.path()}});
  std::string much;
  while (much.size() < 300'000) much += info;
  put(log, much);
  log.pass_on(1, false);
  EXPECT_EQ(file.text(), much);
}

// A supervisor whose terminal is slow looks at its worker between two parts.
TEST(ErrorLog, passes_on_a_few_megabytes_at_a_time_without_control_characters) {
  ErrorLog log;
  const std::string words = "a\x1b[2J\n\tb\xff";
  ASSERT_EQ(write(log.descriptor(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
  ASSERT_EQ(ftruncate(log.descriptor(), off_t{100} << 20), 0);
  EXPECT_TRUE(log.flooded());
  testing::internal::CaptureStderr();
  log.pass_on(false);
  const std::string passed_on = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(passed_on.starts_with("a?[2J\n\tb??")) << passed_on.substr(0, 20);
  EXPECT_LE(passed_on.size(), std::size_t{8} << 20);
}

TEST(WorkerLog, is_read_from_anywhere_in_ascii) {
  const WorkerLog log({});
  put(log,
      "abc\xc3\xa4"
      "def");
  EXPECT_EQ(log.size(), 8);
  EXPECT_EQ(log.text(1, 100), "bc??def");
  EXPECT_EQ(log.text(5, 2), "de");
  EXPECT_EQ(log.text(8, 2), "");
}

}  // namespace
}  // namespace p5
