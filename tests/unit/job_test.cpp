// What repeats in a sequence, and the records of single lines that the tests of the whole program do not have.
#include "bench/job/analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/job/formats.hpp"
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
                            std::to_string(ranks) + " cudaDev 0 nvmlDev " + std::to_string(rank) +
                            " busId 1000 commId 0x" + id + " - Init START");
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

TEST(JobTraces, HostsThatShareANameHaveAnUnknownNumber) {
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    text += log_line(rank, "ncclCommInitRank comm 0xca rank " + std::to_string(rank) + " nranks 4 cudaDev 0 nvmlDev " +
                               std::to_string(rank % 2) + " busId " + std::to_string(1000 + 1000 * (rank % 2)) +
                               " commId 0xa - Init START");
  for (int rank = 0; rank < 4; ++rank) text += call_line(rank, "AllReduce", "a", 8);
  const job::Analysis unknown = analyse(trace_of({text}), 0);
  EXPECT_TRUE(unknown.job.node_of_rank.empty());
  EXPECT_NE(to_json(unknown.job).dump().find("hosts share this name"), std::string::npos);
  EXPECT_EQ(analyse(trace_of({text}), 2).job.node_of_rank, (NodeOfRank{0, 0, 1, 1}));
  const std::string one_host = start_line(0, 2, "a") + start_line(1, 2, "a") + call_line(0, "AllReduce", "a", 8) +
                               call_line(1, "AllReduce", "a", 8);
  EXPECT_EQ(analyse(trace_of({one_host}), 0).job.node_of_rank, (NodeOfRank{0, 0}));
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

// The rows and the columns of a grid of ranks; NCCL before 2.24 logs no number of a split.
TEST(JobTraces, GroupsThatOneColorNamesAreRefusedWithARemedy) {
  const auto split = [](int rank, const std::string& id, int color, int member) {
    return log_line(rank, "ncclCommSplit comm 0xc" + id + " rank " + std::to_string(member) +
                              " nranks 2 cudaDev 0 busId 1 parent 0xca color " + std::to_string(color) +
                              " key 0- Init START");
  };
  std::string text;
  for (int rank = 0; rank < 4; ++rank)
    text += start_line(rank, 4, "a") + split(rank, "b", rank / 2, rank % 2) + split(rank, "c", rank % 2, rank / 2);
  try {
    trace_of({text});
    FAIL() << "read";
  } catch (const UsageError& problem) {
    EXPECT_NE(std::string(problem.what()).find("record with NCCL 2.24 or later"), std::string::npos) << problem.what();
  }
}

TEST(JobTraces, AreNotOfAnotherNumberOfHostsThanTheyName) {
  std::string text = start_line(0, 2, "a") + start_line(1, 2, "a");
  for (int rank = 0; rank < 2; ++rank) text += call_line(rank, "AllReduce", "a", 8);
  EXPECT_EQ(analyse(trace_of({text}), 1).job.node_of_rank, (NodeOfRank{0, 0}));
  try {
    analyse(trace_of({text}), 2);
    FAIL() << "analysed";
  } catch (const UsageError& problem) {
    EXPECT_STREQ(problem.what(), "--hosts 2: the records name 1 host: leave --hosts out");
  }
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

// Times of the last step's operations, in us.
std::vector<double> gaps_of(const Job& job) {
  std::vector<double> gaps;
  for (const JobOperation& each : job.operations) gaps.push_back(each.gap ? std::round(each.gap->count * 1e6) : -1);
  return gaps;
}

// Two ranks of one communicator and what they recorded.
struct TwoRanks {
  explicit TwoRanks(const std::vector<int>& members = {0, 1}) {
    trace.set_size(2);
    communicator = trace.communicator("c", 2);
    for (int rank = 0; rank < 2; ++rank) {
      process[rank] = trace.process("rank " + std::to_string(rank), "host", rank);
      trace.set_member(communicator, members[static_cast<std::size_t>(rank)], process[rank]);
    }
    trace.set_ranks(communicator, members, "c");
  }
  // Times in us.
  void add(int rank, std::uint32_t call, double start, double time, std::vector<std::uint64_t> sent = {}) {
    trace.add(process[rank], {.communicator = communicator,
                              .call = call,
                              .start = start * 1e-6,
                              .seconds = static_cast<float>(time * 1e-6),
                              .sent = sent.empty() ? 0 : trace.sent_bytes(std::move(sent))});
  }
  Job job() {
    trace.finish();
    return analyse(std::move(trace), 1).job;
  }
  job::Trace trace;
  std::uint32_t communicator = 0, process[2] = {};
};

// Each rank computes for 1 ms and sends the other one the result, which has waited for it.
TEST(JobTimes, AGapLastsUntilTheLastMemberArrives) {
  TwoRanks ranks;
  const std::uint32_t forward = ranks.trace.call({.collective = &p2p, .bytes = {1 << 20}, .source = 0, .target = 1}),
                      back = ranks.trace.call({.collective = &p2p, .bytes = {1 << 20}, .source = 1, .target = 0});
  for (int step = 0; step < 6; ++step) {
    const double start = step * 2200;
    ranks.add(0, forward, start + 1000, 100);
    ranks.add(1, forward, start, 1100);
    ranks.add(0, back, start + 1100, 1100);
    ranks.add(1, back, start + 2100, 100);
  }
  const Job job = ranks.job();
  EXPECT_EQ(gaps_of(job), (std::vector<double>{1000, 1000}));
  EXPECT_EQ(job.remarks, std::vector<std::string>{});
  EXPECT_NEAR(job.step->count, 2200e-6, 1e-6);
}

// The ranks of four stages share one communicator, and only neighbours send each other messages.
TEST(JobTimes, StagesOfAPipelineHaveOneStep) {
  constexpr int stages = 4;
  job::Trace trace;
  trace.set_size(stages);
  const std::uint32_t all = trace.communicator("c", stages);
  const auto message = [&](int from, int to) {
    return trace.call({.collective = &p2p, .bytes = {1 << 20}, .source = from, .target = to});
  };
  for (int stage = 0; stage < stages; ++stage) {
    const std::uint32_t process = trace.process("rank " + std::to_string(stage), "host", stage);
    trace.set_member(all, stage, process);
    for (int step = 0; step < 6; ++step) {
      // Each message takes 100 us, and each stage 1000 us before it sends.
      const auto at = [&](int messages) { return (step * 6600 + messages * 1100) * 1e-6; };
      const auto add = [&](std::uint32_t call, int messages, bool sends) {
        trace.add(process, {.communicator = all,
                            .call = call,
                            .start = at(messages) + (sends ? 1000e-6 : 900e-6),
                            .seconds = sends ? 100e-6f : 200e-6f});
      };
      if (stage > 0) add(message(stage - 1, stage), stage - 1, false);
      if (stage + 1 < stages) add(message(stage, stage + 1), stage, true);
      if (stage + 1 < stages) add(message(stage + 1, stage), 5 - stage, false);
      if (stage > 0) add(message(stage, stage - 1), 6 - stage, true);
    }
  }
  trace.finish();
  const Job job = analyse(std::move(trace), 1).job;
  EXPECT_EQ(job.operations.size(), 6u);
  EXPECT_EQ(job.steps, 6);
  EXPECT_EQ(job.remarks, std::vector<std::string>{});
  for (const double gap : gaps_of(job)) EXPECT_NEAR(gap, 1000, 1) << to_json(job).dump();
}

TEST(JobTimes, GapsThatAlternateKeepTheTimeOfTheStep) {
  TwoRanks ranks;
  const std::uint32_t call = ranks.trace.call({.collective = &all_reduce, .bytes = {1 << 20}});
  double now = 0;
  for (int i = 0; i < 21; ++i) {
    now += i == 12 ? 1e6 : i % 2 == 0 ? 100 : 500;  // once the job writes a checkpoint
    for (int rank = 0; rank < 2; ++rank) ranks.add(rank, call, now, 50);
    now += 50;
  }
  const Job job = ranks.job();
  ASSERT_EQ(job.operations.size(), 1u);
  EXPECT_NEAR(job.operations[0].gap->count, 300e-6, 50e-6);
  EXPECT_NEAR(job.step->count, 350e-6, 50e-6);
}

// A long operation runs beside a short one, and the next begins when the long one has ended.
TEST(JobTimes, AGapBeginsWhenAllThatRanBeforeHasEnded) {
  TwoRanks ranks;
  const std::uint32_t two[] = {ranks.trace.call({.collective = &all_reduce, .bytes = {1 << 20}}),
                               ranks.trace.call({.collective = &all_gather, .bytes = {1 << 20}})};
  for (int step = 0; step < 6; ++step)
    for (int rank = 0; rank < 2; ++rank) {
      ranks.add(rank, two[0], step * 1200 + 100, 1000);
      ranks.add(rank, two[1], step * 1200 + 200, 100);
    }
  EXPECT_EQ(gaps_of(ranks.job()), (std::vector<double>{200, 0}));
}

TEST(JobTimes, PausesOfMoreThanElevenDaysAreNoGaps) {
  TwoRanks ranks;
  const std::uint32_t call = ranks.trace.call({.collective = &all_reduce, .bytes = {1 << 20}});
  for (int step = 0; step < 6; ++step)
    for (int rank = 0; rank < 2; ++rank) ranks.add(rank, call, step * 2e12, 50);
  const Job job = ranks.job();
  EXPECT_EQ(gaps_of(job), std::vector<double>{-1});
  EXPECT_FALSE(job.step.has_value());
  EXPECT_EQ(job_from_json(to_json(job)), job);
}

TEST(JobTimes, WhoSendsWhatIsThatOfTheLastStepInTheOrderOfRanks) {
  TwoRanks ranks({1, 0});
  const std::uint32_t call = ranks.trace.call({.collective = &all_to_allv, .bytes = {30}});
  for (int step = 0; step < 6; ++step) {  // rank 1 is member 0
    ranks.add(1, call, step * 100, 50, {1, 20u + static_cast<unsigned>(step)});
    ranks.add(0, call, step * 100, 50, {3, 4});
  }
  const Job job = ranks.job();
  ASSERT_EQ(job.operations.size(), 1u);
  EXPECT_EQ(job.operations[0].sends, (std::vector<std::vector<std::uint64_t>>{{4, 3}, {25, 1}}));
  EXPECT_EQ(job_from_json(to_json(job)).operations[0].sends, job.operations[0].sends);
  nlohmann::json broken = to_json(job);
  broken["operations"][0]["sends"][1].push_back(1);
  EXPECT_THROW(job_from_json(broken), std::exception);
  broken["operations"][0]["sends"] = {{1, 2}, {3, (std::uint64_t{1} << 50) + 1}};
  EXPECT_THROW(job_from_json(broken), std::exception);
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

// 16 ranks on 2 hosts: tensor-parallel groups within a host, and groups of as many ranks across both.
TEST(JobUses, AreOfGroupsThatHaveAsManyRanksOnTheirHosts) {
  const Round within{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
      also_within{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}},
      across{{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}};
  Job job;
  job.ranks = 16;
  for (int rank = 0; rank < 16; ++rank) job.node_of_rank.push_back(rank / 8);
  for (const Round& groups : {within, across, also_within}) {
    JobOperation each;
    each.collective = &all_gather;
    each.bytes = {64 << 20};
    each.groups = groups;
    each.ranks = 4;
    each.time = each.fastest = Seconds{groups == across ? 4e-3 : 1e-3};
    job.operations.push_back(each);
  }
  const std::vector<JobUse> uses = uses_of(job);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].group, "4 groups of 4 ranks on 2 hosts");
  EXPECT_EQ(uses[0].operation.groups, across);
  EXPECT_DOUBLE_EQ(uses[0].fastest.value().count, 4e-3);
  EXPECT_EQ(uses[1].group, "4 groups of 4 ranks on 1 host");
  EXPECT_EQ(uses[1].count, 2);
  EXPECT_DOUBLE_EQ(uses[1].fastest.value().count, 2e-3);
  EXPECT_EQ(uses_of(job, DomainOfRank(16, 0)).size(), 2u);
  // Messages between two hosts, which share an NVLink domain or do not.
  job.operations.clear();
  job.node_of_rank = {0, 1, 2, 3};
  job.ranks = 4;
  for (const Group& pair : {Group{0, 1}, Group{1, 2}, Group{2, 3}}) {
    JobOperation each;
    each.collective = &p2p;
    each.bytes = {1 << 20};
    each.groups = {pair};
    each.ranks = 2;
    job.operations.push_back(each);
  }
  ASSERT_EQ(uses_of(job).size(), 1u);
  EXPECT_EQ(uses_of(job).front().group, "2 ranks");
  EXPECT_EQ(uses_of(job, {0, 0, 1, 1}).size(), 2u);
}

// 8 ranks on 2 hosts; pairs of neighbours, and an operation of each node.
TEST(JobReplays, SayWhereTheJobHadItsRanksOnTheHostsInAnotherOrder) {
  const NodeOfRank blocks{0, 0, 0, 0, 1, 1, 1, 1}, turns{0, 1, 0, 1, 0, 1, 0, 1};
  const auto remarks = [](const NodeOfRank& recorded, const NodeOfRank& here, const std::string& group) {
    Job job;
    job.ranks = 8;
    job.node_of_rank = recorded;
    JobOperation& operation = job.operations.emplace_back();
    operation.collective = &all_gather;
    operation.bytes = MiB(8);
    operation.type = DataType::float32;
    operation.group = group;
    operation.ranks = group == "node" ? 4 : group == "world" ? 8 : 2;
    if (group.empty()) operation.groups = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
    std::string all;
    for (const std::string& each : plan_replay(job, "job", here, DataType::float32, std::nullopt).remarks)
      all += each + "\n";
    return all;
  };
  using testing::HasSubstr;
  EXPECT_THAT(remarks(turns, blocks, ""), HasSubstr("--map-by node"));
  EXPECT_THAT(remarks(blocks, turns, ""), HasSubstr("--map-by slot"));
  EXPECT_THAT(remarks({0, 1, 1, 0, 0, 1, 1, 0}, blocks, ""), HasSubstr("rankfile"));
  EXPECT_THAT(remarks(turns, blocks, "stride:4"), HasSubstr("all_gather of stride:4 goes between other GPUs"));
  EXPECT_EQ(remarks(blocks, blocks, ""), "");
  EXPECT_EQ(remarks({1, 1, 1, 1, 0, 0, 0, 0}, blocks, ""), "") << "hosts have other numbers only";
  for (const char* const group : {"node", "world"}) EXPECT_EQ(remarks(turns, blocks, group), "") << group;
  EXPECT_THAT(remarks({0, 0, 0, 0, 0, 1, 1, 1}, blocks, "world"), HasSubstr("in another order"));
}

// At the rate of a guess a step of many bytes would fit no budget.
TEST(JobReplays, TakeNoLongerThanTheRecordedStepWhereThatIsKnown) {
  Job job;
  job.ranks = 4;
  JobOperation& operation = job.operations.emplace_back();
  operation.collective = &all_gather;
  operation.bytes = GiB(4);
  operation.type = DataType::float32;
  operation.groups = {{0, 1}, {2, 3}};
  operation.ranks = 2;
  const CostModel cost{.latency = {0}, .bandwidth = {20}, .burst = {0}, .repetition = {0}, .communicator = {0}};
  const auto planned = [&](std::optional<Seconds> step) {
    job.step = step;
    Case c;
    c.collective = &job_step;
    c.ranks = 4;
    c.replay = std::make_shared<const Replay>(
        plan_replay(job, "job", NodeOfRank{0, 1, 0, 0}, DataType::float32, std::nullopt).replay);
    return c;
  };
  const double by_bytes = predict_round(planned(std::nullopt), cost).count;
  EXPECT_GT(by_bytes, 1);
  EXPECT_DOUBLE_EQ(predict_round(planned(Seconds{0.01}), cost).count, 20 * 0.01);
  EXPECT_DOUBLE_EQ(predict_round(planned(Seconds{100}), cost).count, by_bytes);
  EXPECT_DOUBLE_EQ(predict_step(planned(Seconds{0.01}), cost).count, by_bytes) << "a hang is not told by the record";
  const Case c = planned(std::nullopt);
  EXPECT_EQ(c.replay->works.at(0).planned->nodes, 2) << "of the group that spans most";
}

}  // namespace p5
