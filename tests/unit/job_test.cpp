// What repeats in a sequence, and the records of single lines that the tests of the whole program do not have.
#include "bench/job/analysis.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/job/formats.hpp"
#include "bench/job/text.hpp"
#include "bench/model/job.hpp"
#include "tuner/arms.hpp"

namespace p5 {

namespace {

std::vector<std::uint64_t> sequence(const std::string& letters) { return {letters.begin(), letters.end()}; }

job::Trace trace_of(const std::vector<std::string>& records) {
  job::Trace trace;
  for (const std::string& text : records) {
    job::TraceFile file("rank_" + std::to_string(&text - records.data()), text);
    read_trace(file, trace);
  }
  join_messages(trace);
  trace.finish();
  return trace;
}

std::string log_line(int rank, const std::string& text) {
  return "[pod] host:" + std::to_string(100 + rank) + ":7 [0] NCCL INFO " + text + "\n";
}
std::string start_line(int rank, int ranks, const std::string& id) {
  return log_line(rank, "ncclCommInitRank comm 0xc" + id + " rank " + std::to_string(rank) + " nranks " +
                            std::to_string(ranks) + " cudaDev 0 nvmlDev 0 busId 1000 commId 0x" + id + " - Init START");
}
std::string call_line(int rank, const std::string& name, const std::string& id, int count, int root = 0) {
  return log_line(rank, name + ": opCount 0 sendbuff 0x1 recvbuff 0x2 count " + std::to_string(count) +
                            " datatype 7 op 2 root " + std::to_string(root) + " comm 0xc" + id +
                            " [nranks=2] stream 0x3");
}

}  // namespace

TEST(JobSteps, TheShortestRepetitionThatCoversHalf) {
  const auto expect = [](const std::string& letters, std::size_t length, std::size_t covers) {
    const job::Period found = job::period_of(sequence(letters));
    EXPECT_EQ(found.length, length) << letters;
    EXPECT_EQ(found.covers, covers) << letters;
  };
  expect("xyabcabcabc", 3, 9);
  expect("aaaa", 1, 4);
  expect("aabaabaab", 3, 9);
  expect("cabcabcab", 3, 9);
  expect("xyzuvwaa", 8, 8);  // two calls at the end are no step
  expect("abc", 3, 3);
  expect("", 0, 0);
}

TEST(JobTraces, ARootIsOneOfItsGroupInAscendingOrder) {
  // Communicator b has the ranks 1 and 0, in this order.
  std::string text = start_line(0, 2, "a") + start_line(1, 2, "a");
  for (int rank = 0; rank < 2; ++rank)
    text += log_line(rank, "ncclCommSplit comm 0xcb rank " + std::to_string(1 - rank) +
                               " nranks 2 cudaDev 0 busId 1 parent 0xca splitCount 1 color 7 key 0- Init START");
  for (int rank = 0; rank < 2; ++rank) text += call_line(rank, "Broadcast", "b", 8, 0);
  const job::Analysis found = analyse(trace_of({text}), 0);
  ASSERT_EQ(found.job.operations.size(), 1U);
  EXPECT_EQ(found.job.operations[0].root, 1);
  EXPECT_EQ(found.job.operations[0].group, "world");
}

TEST(JobTraces, MessagesInBothDirectionsAtOnceAreNoContradiction) {
  std::string text = start_line(0, 2, "a") + start_line(1, 2, "a");
  for (int rank = 0; rank < 2; ++rank)
    text += call_line(rank, "Recv", "a", 4, 1 - rank) + call_line(rank, "Send", "a", 4, 1 - rank);
  const job::Analysis found = analyse(trace_of({text}), 0);
  ASSERT_EQ(found.job.operations.size(), 2U);
  EXPECT_EQ(found.job.operations[0].groups, Round({{0, 1}}));
  EXPECT_EQ(found.job.operations[1].groups, Round({{1, 0}}));
}

TEST(JobTraces, MessagesOfARankToItselfAreNoCommunication) {
  std::string text = start_line(0, 3, "a") + start_line(1, 3, "a") + start_line(2, 3, "a");
  for (const char* const call : {"Send", "Recv"}) text += call_line(0, call, "a", 4, 0);
  text += call_line(0, "Send", "a", 8, 1) + call_line(1, "Recv", "a", 8, 0);
  const job::Analysis found = analyse(trace_of({text}), 0);
  ASSERT_EQ(found.job.operations.size(), 1U);
  EXPECT_EQ(found.job.operations[0].groups, Round({{0, 1}}));
  EXPECT_NE(to_json(found.job).dump().find("a rank to itself"), std::string::npos);
}

TEST(JobTraces, RecordsThatContradictEachOtherGiveTheStepOfOneRank) {
  std::string text = start_line(0, 2, "a") + start_line(1, 2, "a") + start_line(0, 2, "b") + start_line(1, 2, "b");
  text += call_line(0, "AllReduce", "a", 1) + call_line(0, "AllReduce", "b", 2);
  text += call_line(1, "AllReduce", "b", 2) + call_line(1, "AllReduce", "a", 1);
  const job::Analysis found = analyse(trace_of({text}), 0);
  EXPECT_EQ(found.job.operations.size(), 2U);
  EXPECT_NE(to_json(found.job).dump().find("contradict"), std::string::npos);
}

TEST(JobTraces, ExchangedMessagesOfAStepThatNotAllFinishedAreLeftOut) {
  // Two ranks exchange messages, then all reduce; rank 1 has not called its last calls yet.
  for (std::size_t behind = 0; behind < 5; ++behind) {
    std::string text = start_line(0, 2, "a") + start_line(1, 2, "a");
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> calls;
      for (int step = 0; step < 5; ++step)
        for (const char* const name : {"Recv", "Send", "AllReduce"})
          calls.push_back(call_line(rank, name, "a", 4, name[0] == 'A' ? 0 : 1 - rank));
      if (rank == 1) calls.resize(calls.size() - behind);
      for (const std::string& call : calls) text += call;
    }
    const job::Analysis found = analyse(trace_of({text}), 0);
    EXPECT_EQ(found.job.operations.size(), 3U) << behind;
    EXPECT_EQ(found.job.steps, (15 - static_cast<int>(behind)) / 3) << behind;
    EXPECT_TRUE(found.job.remarks.empty()) << behind << ": " << found.job.remarks.front();
  }
}

TEST(JobTraces, ARankWhoseRecordEndsBeforeItsFirstCallOfTheWholeJobIsTheOneThatIsMissing) {
  std::string text = start_line(0, 3, "a") + start_line(1, 3, "a");
  for (int rank = 1; rank < 3; ++rank)
    text += log_line(rank, "ncclCommInitRank comm 0xcb rank " + std::to_string(rank - 1) +
                               " nranks 2 cudaDev 0 commId 0xb - Init START") +
            call_line(rank, "AllReduce", "b", 1);
  for (int rank = 0; rank < 2; ++rank) text += call_line(rank, "AllReduce", "a", 8);
  EXPECT_EQ(trace_of({text}).processes.back().rank, 2);
}

TEST(JobTraces, RemarksOfHostileRecordsStayFew) {
  std::string text = start_line(0, 2, "a") + call_line(0, "AllReduce", "a", 8);
  for (int i = 0; i < 1000; ++i) text += call_line(0, "Op" + std::to_string(i), "a", 8);
  EXPECT_LE(trace_of({text}).remarks().size(), 41U);
}

TEST(JobTraces, CallsOfAnUnknownCommunicatorAreSaid) {
  EXPECT_THROW(trace_of({call_line(0, "AllReduce", "a", 1)}), UsageError);
  try {
    trace_of({call_line(0, "AllReduce", "a", 1)});
  } catch (const UsageError& problem) {
    EXPECT_NE(std::string(problem.what()).find("log INIT beside COLL"), std::string::npos) << problem.what();
  }
}

TEST(JobFiles, AJobIsReadAsItWasWrittenAndItsWeightsAreTheTuners) {
  std::string text = start_line(0, 2, "a") + start_line(1, 2, "a");
  for (int rank = 0; rank < 2; ++rank)
    text += call_line(rank, "AllReduce", "a", 1024) + call_line(rank, "AllGather", "a", 512);
  const job::Analysis found = analyse(trace_of({text}), 0);
  EXPECT_EQ(job_from_json(to_json(found.job)), found.job);
  EXPECT_EQ(found.job.operations[0].op, ReduceOp::max);
  const std::vector<tuner::Weight> weights = tuner::parse_weights("weights", job::weights_of(found.job));
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0].collective, "all_reduce");
  EXPECT_EQ(weights[0].bytes, 4096U);
  EXPECT_NEAR(weights[0].share, 2. / 3, 1e-5);  // half of all_gather's bytes pass each link
  nlohmann::json wrong = to_json(found.job);
  wrong["operations"][1]["ranks"] = 3;
  EXPECT_THROW(job_from_json(wrong), UsageError);
}

}  // namespace p5
