// Decision and exit code agree for any report.
#include "reports/decision.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "bench/base/text.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"

namespace p5::reports {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Situation {
  std::string backend = "nccl", status = "complete", provenance = "measured";
  std::vector<Grade> grades = {};
  std::vector<Suspect> suspects = {};
  std::vector<OpenQuestion> questions = {};
  std::vector<topo::Finding> findings = {};
};

Suspect suspect(const std::string& kind, const std::string& name, const std::string& host,
                const std::string& fault = "slow") {
  return {.kind = kind,
          .name = name,
          .host = host,
          .instance = "",
          .evidence = "seen",
          .action = "replace it",
          .fault = fault};
}

topo::Finding broken(const std::string& host) {
  return {.id = "gpu.xid",
          .severity = topo::Severity::error,
          .subject = {.host = host, .instance = {}, .gpu = {}, .nic = {}},
          .evidence = "it fell off the bus",
          .action = "replace the instance",
          .about = topo::About::hardware};
}

// Three nodes of two ranks.
Report report_of(const Situation& situation) {
  Report report;
  report.status = situation.status;
  report.provenance = situation.provenance;
  report.run.backend = situation.backend;
  report.run.command = {"--backend", situation.backend, "--out", "my runs"};
  report.run.nodes = 3;
  if (situation.status == "partial") report.run.ended_by = "ended by SIGTERM while measuring";
  for (const char* const name : {"h0", "h1", "h2"}) report.topology.hosts.emplace_back().name = name;
  report.topology.host_of_rank = {0, 0, 1, 1, 2, 2};
  for (const Grade grade : situation.grades) {
    Result& result = report.results.emplace_back();
    Measurement& m = result.measurement;
    m.measured_case.backend = situation.backend;
    m.measured_case.collective = &all_gather;
    m.measured_case.bytes = GiB(1);
    m.measured_case.ranks = 6;
    m.measured_case.nodes = 3;
    m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
    m.throughput->summary.median = 0.003;
    m.outcome = grade == Grade::failed ? Outcome::failed : Outcome::measured;
    m.because = grade == Grade::failed ? "no progress within 30 s" : "";
    result.verdict.grade = grade;
    result.verdict.fraction = 0.5;
    result.verdict.because = grade == Grade::unknown ? "not judged: nobody has shown it" : "because";
  }
  report.suspects = situation.suspects;
  report.open_questions = situation.questions;
  report.findings = situation.findings;
  report.grade = overall(report);
  report.exit_code = exit_code(report, true);
  if (situation.status == "partial") report.exit_code = worse(report.exit_code, ExitCode::unfinished);
  report.decision = decide(report);
  return report;
}

std::vector<Situation> all_situations() {
  std::vector<Situation> all;
  const std::vector<std::vector<Grade>> grades{
      {}, {Grade::unknown}, {Grade::ok}, {Grade::ok, Grade::slow}, {Grade::unknown, Grade::failed}, {Grade::wrong}};
  const std::vector<std::vector<Suspect>> suspects{
      {},
      {suspect("nic", "n1r5", "h1")},
      {suspect("link", "n0-n2", "h0"), suspect("gpu", "n2g0", "h2", "silent")},
      {suspect("rail", "5", "")}};
  const std::vector<std::vector<OpenQuestion>> questions{
      {},
      {{.candidates = {"nic n1r5", "gpu n1g1"}, .host = "h1", .evidence = "seen", .next = "measure it"}},
      {{.candidates = {"nic n1r5", "link n0-n1"}, .evidence = "seen", .next = "measure it", .fault = "silent"}}};
  const std::vector<std::vector<topo::Finding>> findings{{}, {broken("h2")}, {broken("")}};
  for (const std::string backend : {"nccl", "sim", "mpi", "ofi"})
    for (const std::string status : {"complete", "partial"})
      for (const auto& of_results : grades)
        for (const auto& of_suspects : suspects)
          for (const auto& of_questions : questions)
            for (const auto& of_findings : findings)
              all.push_back({.backend = backend,
                             .status = status,
                             .provenance = backend == "sim" ? "simulated" : "measured",
                             .grades = of_results,
                             .suspects = of_suspects,
                             .questions = of_questions,
                             .findings = of_findings});
  return all;
}

TEST(Decision, names_parts_in_the_order_of_their_hosts) {
  const Report report = report_of({.backend = "sim",
                                   .status = "complete",
                                   .provenance = "simulated",
                                   .grades = {Grade::slow},
                                   .suspects = {suspect("node", "n2", "h2"), suspect("node", "n0", "h0")}});
  EXPECT_THAT(report.decision.sentence, testing::HasSubstr("REJECT h0, h2: node n0, node n2 are slow"));
}

TEST(Decision, names_the_host_of_what_failed_before_a_long_reason) {
  Report report = report_of({.grades = {Grade::failed, Grade::failed}});
  Measurement& second = report.results[1].measurement;
  second.failed_rank = 5;
  for (const char* const prefix : {"rank 5 in warm_up: ", ""}) {
    second.because = prefix + std::string(300, 'x');
    EXPECT_THAT(decide(report).sentence, HasSubstr("2 of 2 measurements failed, first at rank 5 on h2"));
  }
}

// A report whose measurements are of pairs between nodes, each with these groups, in GPU memory or by a NIC.
Report report_of_pairs(const std::vector<std::pair<std::optional<int>, std::vector<Group>>>& measurements) {
  Report report = report_of({.grades = {Grade::ok}});
  report.topology.nics_of_rank = {{"a0"}, {"a1"}, {"a0"}, {"a1"}, {"a0"}, {"a1"}};
  for (const auto& [nic, groups] : measurements) {
    Result& result = report.results.emplace_back(report.results.front());
    Case& c = result.measurement.measured_case;
    c.collective = &find_collective("p2p");
    c.pattern = "one_way";
    c.pair = "other_node";
    c.ranks = c.nodes = 2;
    c.nic = nic;
    for (const Group& group : groups) result.measurement.groups.push_back({group, Seconds{0.001}});
  }
  report.exit_code = exit_code(report, true);
  report.decision = decide(report);
  return report;
}

TEST(Decision, says_which_nics_and_hosts_no_measurement_tested) {
  const std::vector<Group> all{{0, 2}, {1, 3}, {2, 4}, {3, 5}};
  EXPECT_THAT(report_of_pairs({{std::nullopt, all}}).decision.sentence, Not(HasSubstr("but")));
  EXPECT_THAT(report_of_pairs({{std::nullopt, all}, {0, all}}).decision.sentence, Not(HasSubstr("but")));
  EXPECT_THAT(report_of_pairs({{std::nullopt, all}, {0, {{0, 2}, {1, 3}, {2, 4}}}}).decision.sentence,
              HasSubstr("ACCEPT: but 1 of 2 NICs of h2 not tested: "));
  EXPECT_THAT(report_of_pairs({{std::nullopt, all}, {0, {{0, 2}, {1, 3}}}}).decision.sentence,
              HasSubstr("ACCEPT: but 2 of 2 NICs of h2 not tested: "));
  EXPECT_THAT(report_of_pairs({{std::nullopt, {{0, 2}, {1, 3}}}}).decision.sentence,
              HasSubstr("ACCEPT: but h2 in no pair between nodes: "));
  // Measurements of all single NICs that failed beside NCCL's.
  Report failed = report_of_pairs({{std::nullopt, all}, {0, {}}});
  failed.results.back().measurement.outcome = Outcome::skipped;
  failed.results.back().measurement.because = "failed: no memory was registered";
  failed.results.back().verdict = {};
  EXPECT_THAT(decide(failed).sentence, HasSubstr("ACCEPT: but no single NIC tested: "));
  EXPECT_THAT(decide(failed).sentence, Not(HasSubstr("nothing slow")));
  // A run that measured no single NIC says nothing about them.
  Report report = report_of_pairs({{std::nullopt, all}});
  report.topology.nics_of_rank.clear();
  EXPECT_THAT(decide(report).sentence, Not(HasSubstr("but")));
  // A host that lacks a NIC of the others has an empty place there.
  Report lacking = report_of_pairs({{std::nullopt, all}, {0, {{0, 2}, {1, 3}, {2, 4}}}});
  lacking.topology.nics_of_rank.back() = {""};
  EXPECT_THAT(decide(lacking).sentence, Not(HasSubstr("but")));
}

TEST(Decision, says_which_gpus_no_rank_used) {
  Report report = report_of_pairs({{std::nullopt, {{0, 2}, {1, 3}, {2, 4}, {3, 5}}}});
  report.topology.gpu_of_rank = {"a", "b", "c", "d", "e", "f"};
  for (topo::Host& host : report.topology.hosts) host.gpu_devices.resize(2);
  EXPECT_THAT(decide(report).sentence, Not(HasSubstr("but")));
  report.topology.hosts[1].gpu_devices.resize(8);
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but 6 of 8 GPUs of h1 not tested: "));
  report.topology.hosts[1].gpu_devices.resize(2);
  report.topology.hosts[1].gpus = 3;  // one that only PCI shows
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but 1 of 3 GPUs of h1 not tested: "));
}

// A setting or a version of one host slows it as a broken part does.
TEST(Decision, to_reject_a_host_names_the_errors_that_only_it_has) {
  const auto error = [](const std::string& id, const std::string& host, topo::About about) {
    topo::Finding finding = broken(host);
    finding.id = id;
    finding.about = about;
    finding.action = "mend it";
    return finding;
  };
  for (const auto& [id, about] :
       {std::pair("settings.differ", topo::About::settings), std::pair("version.mixed", topo::About::software),
        std::pair("host.shared_memory", topo::About::host)}) {
    const Situation situation{
        .grades = {Grade::slow}, .suspects = {suspect("node", "n1", "h1")}, .findings = {error(id, "h1", about)}};
    const Decision decision = report_of(situation).decision;
    EXPECT_EQ(decision.sentence, fmt::format("REJECT h1: node n1 is slow; errors to fix first: {} on h1", id));
    EXPECT_EQ(decision.next.at(0), fmt::format("first, as it may be why: {} on h1: mend it", id));
    EXPECT_EQ(decision.next.at(1), "node n1: replace it");
  }
  // A setting of all hosts, or of another host, slows no single one.
  Situation all{.grades = {Grade::slow}, .suspects = {suspect("node", "n1", "h1")}};
  all.findings = {error("host.memlock", "h2", topo::About::host)};
  EXPECT_EQ(report_of(all).decision.sentence, "REJECT h1: node n1 is slow");
  for (const char* const host : {"h0", "h1"}) all.findings.push_back(error("host.memlock", host, topo::About::host));
  EXPECT_EQ(report_of(all).decision.sentence, "REJECT h1: node n1 is slow");
}

TEST(Decision, agrees_with_the_exit_code_in_all_situations) {
  std::map<std::string, int> words;
  for (const Situation& situation : all_situations()) {
    const Report report = report_of(situation);
    const Decision& decision = report.decision;
    SCOPED_TRACE(fmt::format("{} {}", decision.sentence, static_cast<int>(report.exit_code)));
    ++words[decision.word];
    EXPECT_EQ(decision.word == accept, report.exit_code == ExitCode::ok && was_judged(report));
    if (report.exit_code == ExitCode::slow || report.exit_code == ExitCode::wrong_data) {
      EXPECT_EQ(decision.word, reject);
    }
    if (report.exit_code == ExitCode::inconclusive) {
      EXPECT_EQ(decision.word, cannot_tell);
    }
    if (decision.word == reject) {
      EXPECT_NE(report.exit_code, ExitCode::ok);
    }
    const bool of_gpus = situation.backend == "nccl" || situation.backend == "sim";
    if (of_gpus) {
      EXPECT_EQ(report.exit_code == ExitCode::ok, decision.word == accept);
    }
    EXPECT_EQ(decision.parts.empty(), decision.word != reject || decision.sentence.starts_with("REJECT: "));
    EXPECT_LE(decision.sentence.size(), longest_sentence);
    EXPECT_TRUE(decision.sentence.starts_with(decision.word));
    EXPECT_EQ(decision.command.empty(), decision.word != reject || healthy_hosts(report).empty());
    EXPECT_EQ(situation.backend == "sim",
              decision.sentence.ends_with("SIMULATED") || decision.sentence.ends_with("SIMULATED, PARTIAL"));
    if (!situation.suspects.empty() || !situation.findings.empty()) {
      EXPECT_EQ(decision.word, reject);
    }
    if (decision.word == reject && !situation.suspects.empty()) {
      EXPECT_FALSE(decision.next.empty());
    }
  }
  EXPECT_EQ(words.size(), 3U);
}

TEST(Decision, rejects_the_hosts_on_which_parts_are_at_fault) {
  Situation situation{.grades = {Grade::ok, Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}};
  Decision decision = report_of(situation).decision;
  EXPECT_EQ(decision.sentence, "REJECT h1: nic n1r5 is slow");
  EXPECT_EQ(decision.parts, std::vector<std::string>{"h1"});
  EXPECT_EQ(decision.command,
            "mpirun -np 4 --hostfile 'my runs/latest/hosts.healthy' p5bench --backend nccl --out 'my runs'");
  Report with_folder = report_of(situation);
  with_folder.run.cluster = "c";
  EXPECT_THAT(decide(with_folder).command, HasSubstr("--hostfile 'my runs/c/latest/hosts.healthy' "));
  with_folder.run.folder = "c/20261128T120000Z";
  EXPECT_THAT(decide(with_folder).command, HasSubstr("--hostfile 'my runs/c/20261128T120000Z/hosts.healthy' "));
  situation.suspects = {suspect("link", "n0-n2", "h0")};
  decision = report_of(situation).decision;
  EXPECT_EQ(decision.sentence, "REJECT link n0-n2: link n0-n2 is slow");
  EXPECT_THAT(decision.command, StartsWith("mpirun -np 4 "));
  situation.suspects = {};
  situation.questions = {
      {.candidates = {"nic n2r5", "gpu n2g1"}, .host = "h2", .evidence = "seen", .next = "measure it"}};
  decision = report_of(situation).decision;
  EXPECT_EQ(decision.sentence, "REJECT h2: nic n2r5 or gpu n2g1 is slow");
  EXPECT_EQ(decision.next, std::vector<std::string>{"measure it"});
  situation.questions.front().candidates = {"nic n2r5", "link n1-n2"};
  situation.questions.front().host = "";
  decision = report_of(situation).decision;
  EXPECT_EQ(decision.sentence, "REJECT: nic n2r5 or link n1-n2 is slow");
  EXPECT_TRUE(decision.parts.empty());
}

TEST(Decision, has_a_reason_for_each_rejected_host) {
  const auto question = [](const std::string& nic, const std::string& host) {
    return OpenQuestion{.candidates = {"nic " + nic, "node"}, .host = host, .evidence = "seen", .next = "measure it"};
  };
  EXPECT_EQ(report_of({.grades = {Grade::slow}, .questions = {question("n1r0", "h1"), question("n0r0", "h0")}})
                .decision.sentence,
            "REJECT h0, h1: nic n1r0 or node is slow, nic n0r0 or node is slow");
  EXPECT_EQ(report_of({.grades = {Grade::slow},
                       .suspects = {suspect("gpu", "n1g1", "h1")},
                       .questions = {question("n1r0", "h1"), question("n0r0", "h0"), question("n0r0", "")},
                       .findings = {broken("h2"), broken("h1"), broken("")}})
                .decision.sentence,
            "REJECT h0, h1, h2: gpu n1g1 is slow, gpu.xid (it fell off the bus), nic n0r0 or node is slow");
}

TEST(Decision, keeps_no_host_that_may_corrupt_data_or_be_silent_among_the_healthy) {
  Situation situation{.grades = {Grade::wrong}, .suspects = {suspect("nic", "n0r3", "h0", "silent")}};
  situation.questions = {{.candidates = {"link n0-n1", "nic n1r0", "node n1", "node n0"},
                          .host = "",
                          .evidence = "seen",
                          .next = "measure it",
                          .fault = "wrong"}};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h2 slots=2\n");
  situation.questions.front().fault = "silent";
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h2 slots=2\n");
  situation.questions.front().candidates = {"nic n1r0", "nic n0r0"};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h2 slots=2\n");
  situation.questions.front().fault = "slow";
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h1 slots=2\nh2 slots=2\n");
}

TEST(Decision, leaves_out_all_hosts_of_which_one_is_silent_or_corrupts_data_and_an_end_of_each_link_that_may) {
  topo::Finding either = broken("");
  either.id = "gpu.corrupt";
  either.hosts = {"h0", "h1"};
  Report report = report_of({.grades = {Grade::ok}, .findings = {either}});
  EXPECT_EQ(healthy_hosts(report), "h2 slots=2\n");
  EXPECT_THAT(report.decision.sentence, testing::StartsWith("REJECT: gpu.corrupt"));
  report.findings.front().id = "gpu.slow_under_load";
  EXPECT_EQ(healthy_hosts(report), "") << "slow ones may be used";
  Situation situation{.grades = {Grade::wrong}};
  situation.questions = {
      {.candidates = {"link n0-n1", "link n1-n2"}, .evidence = "seen", .next = "measure it", .fault = "wrong"}};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h0 slots=2\nh2 slots=2\n") << "h1 is an end of both";
  situation.questions.front().candidates = {"nic n2r0", "domain d0"};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h1 slots=2\n") << "hosts without NVLink are domains of their own";
  situation.questions.front().fault = "slow";
  EXPECT_EQ(healthy_hosts(report_of(situation)), "");
}

TEST(Decision, says_what_corrupts_data_before_what_is_slow) {
  topo::Finding wrong = broken("h2");
  wrong.id = "gpu.corrupt";
  const Report report =
      report_of({.grades = {Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}, .findings = {wrong}});
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
  EXPECT_EQ(report.decision.sentence, "REJECT h1, h2: gpu.corrupt (it fell off the bus), nic n1r5 is slow");
}

TEST(Decision, has_a_reason_for_a_host_at_whose_link_another_part_is_broken) {
  EXPECT_EQ(
      report_of({.grades = {Grade::slow}, .suspects = {suspect("link", "n0-n2", "h0")}, .findings = {broken("h0")}})
          .decision.sentence,
      "REJECT h0, link n0-n2: link n0-n2 is slow, gpu.xid (it fell off the bus)");
}

TEST(Decision, has_no_suspected_link_between_the_healthy_hosts) {
  Situation situation{.grades = {Grade::slow}};
  for (const char* const fault : {"wrong", "silent", "slow"}) {
    situation.suspects = {suspect("link", "n0-n1", "h0", fault), suspect("link", "n1-n2", "h1", fault)};
    EXPECT_EQ(healthy_hosts(report_of(situation)), "h0 slots=2\nh2 slots=2\n") << "h1 is an end of both";
    EXPECT_THAT(report_of(situation).decision.command, HasSubstr("mpirun -np 4 "));
  }
  situation.suspects = {suspect("link", "n0-n1", "h0", "silent"), suspect("node", "n0", "h0")};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h1 slots=2\nh2 slots=2\n") << "the link has an end left out";
  situation.suspects = {suspect("link", "n0-n1", "h0"), suspect("nic", "n2r5", "h2")};
  EXPECT_EQ(healthy_hosts(report_of(situation)), "h0 slots=2\n");
}

TEST(Decision, says_of_single_gpus_only_what_pairs_can_show) {
  Report report = report_of({.grades = {Grade::slow}});
  report.topology.hosts.resize(1);
  report.topology.host_of_rank = {0, 0};
  report.results[0].measurement.measured_case.nodes = 1;
  const Decision without = decide(report);
  EXPECT_THAT(without.sentence, HasSubstr("no pairs of its GPUs were measured, so none can be named"));
  EXPECT_THAT(without.next.front(), HasSubstr("p2p among the --collectives"));
  Result pairs = report.results[0];
  pairs.measurement.measured_case.collective = &p2p;
  pairs.verdict.grade = Grade::ok;
  report.results.push_back(pairs);
  EXPECT_THAT(decide(report).sentence, HasSubstr("and no single GPU stands out"));
}

TEST(Decision, to_reject_a_part_also_names_gpus_that_are_slow_alone_elsewhere) {
  topo::Finding slow = broken("h2");
  slow.id = "gpu.slow_alone";
  slow.severity = topo::Severity::warning;
  slow.subject.gpu = 3;
  Situation situation{.grades = {Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}, .findings = {slow}};
  Decision decision = report_of(situation).decision;
  EXPECT_EQ(decision.sentence, "REJECT h1: nic n1r5 is slow; a GPU is slow alone on h2");
  EXPECT_THAT(decision.next, Contains("gpu.slow_alone on h2, GPU 3: replace the instance"));
  situation.findings[0].subject.host = "h1";
  EXPECT_EQ(report_of(situation).decision.sentence, "REJECT h1: nic n1r5 is slow") << "it is replaced anyway";
}

TEST(Decision, of_a_silent_part_names_it_though_the_run_is_unfinished) {
  const Report report = report_of({.grades = {Grade::failed}, .suspects = {suspect("nic", "n2r31", "h2", "silent")}});
  EXPECT_EQ(report.exit_code, ExitCode::unfinished);
  EXPECT_EQ(report.decision.sentence, "REJECT h2: nic n2r31 is silent");
  const Report nobody = report_of({.grades = {Grade::ok, Grade::failed}});
  EXPECT_EQ(nobody.decision.sentence, "CANNOT TELL: 1 of 2 measurements failed: no progress within 30 s");
}

TEST(Decision, of_a_slow_part_says_that_it_does_not_explain_what_failed) {
  Situation situation{.grades = {Grade::slow, Grade::failed}, .suspects = {suspect("gpu", "n0g1", "h0")}};
  Report report = report_of(situation);
  EXPECT_EQ(report.exit_code, ExitCode::unfinished);
  EXPECT_EQ(report.decision.sentence,
            "REJECT h0: gpu n0g1 is slow; 1 of 2 measurements failed: no progress within 30 s");
  EXPECT_THAT(report.decision.next, testing::Contains(HasSubstr("does not explain what failed")));
  // A question about what is slow does not explain it either; a part that is silent, corrupts data or is broken does.
  situation.suspects.clear();
  situation.questions = {{.candidates = {"nic n1r5", "node n1"}, .host = "h1", .evidence = "seen", .next = "swap"}};
  EXPECT_THAT(report_of(situation).decision.sentence, HasSubstr("is slow; 1 of 2 measurements failed"));
  situation.findings = {broken("h2")};
  EXPECT_THAT(report_of(situation).decision.sentence, Not(HasSubstr("failed")));
  situation.findings.clear();
  for (const char* const fault : {"silent", "wrong"}) {
    situation.suspects = {suspect("nic", "n2r3", "h2", fault)};
    report = report_of(situation);
    EXPECT_THAT(report.decision.sentence, Not(HasSubstr("failed")));
    EXPECT_THAT(report.decision.next, testing::Each(Not(HasSubstr("does not explain"))));
  }
}

// A slow part anywhere slows a collective of all: only pairs, or what each node does by itself, tell that all are
// alike.
TEST(Decision, says_that_all_nodes_are_slow_only_where_each_was_seen_to_be) {
  const auto sentence = [](const std::vector<std::pair<Group, double>>& pairs, std::optional<int> nic) {
    Report report = report_of_pairs({{nic, {}}});
    Result& of_pairs = report.results.back();
    of_pairs.measurement.measured_case.nodes_per_domain = 1;
    for (const auto& [group, time] : pairs) of_pairs.measurement.groups.push_back({group, Seconds{time}});
    report.results.front().verdict.grade = Grade::slow;
    of_pairs.verdict.grade = Grade::unknown;
    report.exit_code = exit_code(report, true);
    const Decision decision = decide(report);
    EXPECT_EQ(decision.word, "REJECT");
    const bool all = decision.sentence.find("equally slow") != std::string::npos;
    EXPECT_EQ(std::ranges::any_of(decision.next, [](const auto& step) { return step.starts_with("placement"); }), all);
    EXPECT_EQ(std::ranges::any_of(decision.next, [](const auto& step) { return step.starts_with("run p5bench with"); }),
              !all);
    return decision.sentence;
  };
  const std::vector<std::pair<Group, double>> alike{{{0, 2}, 1e-3}, {{2, 4}, 1e-3}, {{0, 4}, 1e-3}},
      one_apart{{{0, 2}, 1e-3}, {{2, 4}, 2e-3}, {{0, 4}, 2e-3}, {{1, 3}, 1e-3}, {{1, 5}, 2e-3}, {{3, 5}, 2e-3}};
  EXPECT_THAT(sentence(alike, std::nullopt), HasSubstr("all 3 nodes are equally slow to each other"));
  EXPECT_THAT(sentence(one_apart, std::nullopt),
              HasSubstr("the cluster is slow (all_gather 50 % of limit), and no part stands out"));
  EXPECT_THAT(sentence(alike, 0), HasSubstr("the cluster is slow (all_gather 50 % of limit), and no part stands out"));
}

TEST(Decision, names_slow_launches_of_a_machine_that_is_accepted) {
  Report report = report_of({.grades = {Grade::ok}});
  EXPECT_THAT(decide(report).sentence, HasSubstr("nothing slow"));
  topo::Finding slow;
  slow.id = "run.slow_launch";
  slow.severity = topo::Severity::warning;
  for (const char* const words : {"ACCEPT: but a launch was slow: ", "ACCEPT: but 2 launches were slow: "}) {
    report.findings.push_back(slow);
    EXPECT_THAT(decide(report).sentence, AllOf(StartsWith(words), Not(HasSubstr("nothing slow"))));
  }
}

TEST(Decision, names_slow_samples_where_nothing_can_be_judged) {
  Report report = report_of({.grades = {Grade::unknown}});
  Summary& times = report.results.front().measurement.throughput->summary;
  times.trimmed_mean = 1.2 * times.median;
  EXPECT_EQ(
      decide(report).sentence,
      "CANNOT TELL: some samples are slow (all_gather of 1 GiB: mean 20 % above the median); nobody has shown it");
  times.trimmed_mean = 1.04 * times.median;
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: nobody has shown it");
}

TEST(Decision, names_slow_samples_of_large_messages_beside_a_largest_one_that_has_none) {
  Report report = report_of({.grades = {Grade::ok, Grade::unknown}});
  Measurement& smaller = report.results[1].measurement;
  smaller.throughput->summary.trimmed_mean = 1.2 * smaller.throughput->summary.median;
  const auto names_it = [&](Bytes size) {
    smaller.measured_case.bytes = size;
    return decide(report).sentence.starts_with("ACCEPT: but some samples of " + to_text(size) +
                                               " are slow: all_gather");
  };
  EXPECT_TRUE(names_it(MiB(256)));
  EXPECT_FALSE(names_it(MiB(32))) << "wanders on healthy machines too";
  smaller.measured_case.for_parts = true;
  EXPECT_FALSE(names_it(MiB(256)));
}

TEST(Decision, names_what_interrupted_measurements_and_blames_no_host_for_it) {
  const std::string full =
      "No space left on device: cannot write '" + std::string(200, 'x') + "'. Make room, and continue with --resume";
  Report report = report_of({.status = "partial", .grades = {Grade::ok, Grade::failed, Grade::failed}});
  report.run.ended_by = full;
  for (Result& each : report.results) each.measurement.because = full;
  Decision decision = decide(report);
  EXPECT_THAT(decision.sentence, HasSubstr("CANNOT TELL: the run did not finish: No space left on device: cannot"));
  EXPECT_THAT(decision.next, testing::ElementsAre("make room, and continue with --resume"));
  report.results[1].measurement.because = "rank 3 in sample: it died";
  report.results[1].measurement.failed_rank = 3;
  decision = decide(report);
  EXPECT_EQ(decision.sentence, "CANNOT TELL: 1 of 3 measurements failed, first at rank 3 on h1 in sample: it died");
  report.results[1].measurement.measured_case.arm = "b";
  EXPECT_THAT(decide(report).sentence, HasSubstr("1 of 3 measurements failed, all of arm b, first at rank 3 on h1"));
  report.results[1].measurement.measured_case.arm = "default";
  EXPECT_THAT(decision.next, testing::ElementsAre(StartsWith("make room"), HasSubstr("that rank's host is at fault")));
}

TEST(Decision, says_what_the_budget_left_out_and_which_gpus_are_slow_alone) {
  Report report = report_of({.grades = {Grade::ok, Grade::ok, Grade::unknown}});
  report.results[2].measurement.outcome = Outcome::skipped;
  report.results[2].measurement.because = "budget";
  EXPECT_THAT(decide(report).sentence,
              HasSubstr("ACCEPT: but 1 of 3 measurements skipped for lack of time: all_gather"));
  Report sampled = report_of({.grades = {Grade::ok, Grade::ok}});
  sampled.results[1].measurement.measured_case.pairs_sampled = true;
  EXPECT_THAT(decide(sampled).sentence, HasSubstr("ACCEPT: but not all pairs measured: all_gather"));
  topo::Finding slow = broken("h1");
  slow.id = "gpu.slow_alone";
  slow.severity = topo::Severity::warning;
  report.findings = {slow};
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but a GPU is slow alone on h1 and"));
  report.findings[0].evidence = "all 8 GPUs of h1, alone, device copy: 1 GB/s";
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but all GPUs are slow alone on h1 and"));
  slow.subject.gpu = 3;
  report.findings = {slow};
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but a GPU is slow alone on h1 and 1 of 3 measurements"));
  const Report unknown = report_of({.grades = {Grade::unknown}, .findings = {slow}});
  EXPECT_EQ(unknown.decision.sentence, "CANNOT TELL: a GPU is slow alone on h1; nobody has shown it");
  topo::Finding either = slow;  // of two hosts
  either.subject = {};
  EXPECT_EQ(report_of({.grades = {Grade::unknown}, .findings = {slow, either}}).decision.sentence,
            "CANNOT TELL: a GPU is slow alone on h1; nobody has shown it");
  EXPECT_EQ(report_of({.grades = {Grade::unknown}, .findings = {either}}).decision.sentence,
            "CANNOT TELL: a GPU is slow alone; nobody has shown it");
  EXPECT_THAT(unknown.decision.next, testing::Contains(HasSubstr("gpu.slow_alone on h1, GPU 3: replace the instance")));
}

TEST(Decision, of_wrong_data_says_so_before_what_is_slow) {
  Report report = report_of({.grades = {Grade::ok, Grade::wrong}, .suspects = {suspect("gpu", "n0g1", "h0")}});
  report.results.back().measurement.first_wrong = WrongElement{.rank = 3, .offset = 7, .wanted = "1", .got = "2"};
  EXPECT_EQ(decide(report).sentence,
            "REJECT h0: wrong data in 1 of 2 measurements, first at rank 3 on h1, gpu n0g1 is slow");
  report.suspects = {suspect("gpu", "n1g1", "h1", "wrong")};
  EXPECT_EQ(decide(report).sentence, "REJECT h1: gpu n1g1 corrupts data");
}

TEST(Decision, errors_that_do_not_change_it_are_named) {
  const auto about_software = [](const std::string& id, const std::string& host) {
    topo::Finding finding = broken(host);
    finding.id = id;
    finding.about = topo::About::software;
    return finding;
  };
  const std::vector<topo::Finding> findings{about_software("efa.provider", "h0"), about_software("efa.provider", "h2"),
                                            about_software("efa.plugin", "h1"), about_software("nccl.sockets", "")};
  EXPECT_EQ(
      report_of({.grades = {Grade::unknown}, .findings = findings}).decision.sentence,
      "CANNOT TELL: errors to fix first: efa.provider on 2 hosts, efa.plugin on h1, nccl.sockets; nobody has shown "
      "it");
  EXPECT_THAT(report_of({.grades = {Grade::ok}, .findings = findings}).decision.sentence,
              AllOf(HasSubstr("ACCEPT: "), HasSubstr("; errors to fix first: efa.provider on 2 hosts")));
  std::vector<topo::Finding> more = findings;
  more.push_back(about_software("host.memlock", "h0"));
  EXPECT_THAT(report_of({.grades = {Grade::unknown}, .findings = more}).decision.sentence,
              HasSubstr("nccl.sockets and 1 more; nobody"));
  topo::Finding warning = about_software("host.huge_pages", "h0");
  warning.severity = topo::Severity::warning;
  EXPECT_EQ(report_of({.grades = {Grade::unknown}, .findings = {warning}}).decision.sentence,
            "CANNOT TELL: nobody has shown it");
}

TEST(Decision, cannot_tell_where_nothing_was_judged) {
  EXPECT_EQ(report_of({.grades = {Grade::unknown}}).decision.sentence, "CANNOT TELL: nobody has shown it");
  EXPECT_EQ(report_of({.grades = {Grade::unknown}}).exit_code, ExitCode::inconclusive);
  EXPECT_THAT(report_of({.backend = "mpi", .grades = {Grade::ok}}).decision.sentence,
              HasSubstr("CANNOT TELL: host memory was measured"));
  EXPECT_EQ(report_of({.backend = "mpi", .grades = {Grade::ok}}).exit_code, ExitCode::ok);
  EXPECT_THAT(report_of({.provenance = "imported", .grades = {Grade::unknown}}).decision.sentence,
              HasSubstr("imported figures are not judged"));
}

TEST(Decision, cannot_tell_where_nothing_was_measured_and_names_the_budget) {
  for (const char* const backend : {"mpi", "nccl"}) {
    Report report = report_of({.backend = backend, .grades = {Grade::unknown}});
    report.results[0].measurement.outcome = Outcome::skipped;
    report.results[0].measurement.because = "budget";
    report.exit_code = exit_code(report, true);
    EXPECT_EQ(report.exit_code, ExitCode::inconclusive) << backend;
    const Decision decision = decide(report);
    EXPECT_EQ(decision.sentence, "CANNOT TELL: nothing was measured: 1 of 1 measurement skipped for lack of time");
    EXPECT_THAT(decision.next, testing::ElementsAre(HasSubstr("--budget")));
  }
}

TEST(Decision, tells_why_nothing_was_measured) {
  Report report = report_of({.grades = {Grade::unknown, Grade::unknown, Grade::unknown}});
  for (Result& each : report.results) {
    each.measurement.outcome = Outcome::skipped;
    each.measurement.because = "CTA policy zero needs NCCL 2.28";
  }
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: nothing was measured: CTA policy zero needs NCCL 2.28");
  report.results[0].measurement.because = "budget";
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: nothing was measured: CTA policy zero needs NCCL 2.28");
  report.results[1].measurement.because = "budget";
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: nothing was measured: 2 of 3 measurements skipped for lack of time");
}

// Measurements within nodes prove nothing about transfers between them.
TEST(Decision, accepts_nodes_only_by_what_goes_between_them) {
  Report report = report_of({.grades = {Grade::ok, Grade::unknown}});
  report.results.front().measurement.measured_case.nodes = 1;
  EXPECT_FALSE(was_judged(report));
  EXPECT_EQ(exit_code(report, true), ExitCode::inconclusive);
  report.results.pop_back();  // and no transfers between nodes were requested
  EXPECT_TRUE(was_judged(report));
}

TEST(Decision, says_where_nothing_went_between_nodes) {
  Report report = report_of({.grades = {Grade::ok, Grade::ok}});
  EXPECT_THAT(decide(report).sentence, Not(HasSubstr("nothing measured between")));
  for (Result& each : report.results) each.measurement.measured_case.nodes = 1;
  EXPECT_THAT(decide(report).sentence, HasSubstr("ACCEPT: but nothing measured between nodes: "));
  for (Result& each : report.results) each.measurement.measured_case.collective = &p2p;
  EXPECT_THAT(decide(report).sentence, HasSubstr("but nothing measured between nodes")) << "pairs of each node only";
  report.topology = {};
  EXPECT_THAT(decide(report).sentence, Not(HasSubstr("nothing measured between"))) << "as of an import";
}

TEST(Decision, accepts_what_is_no_slower_than_its_baseline) {
  Report report = report_of({.grades = {Grade::unknown}});
  report.results.front().baseline = BaselineTimes{.latency_s = {}, .throughput_s = 0.003};
  EXPECT_EQ(decide(report).word, cannot_tell) << "the comparison may have said anything";
  report.exit_code = ExitCode::ok;
  EXPECT_EQ(decide(report).sentence, "ACCEPT: no slower than the baseline, 3 nodes, nothing slow");
  report.exit_code = ExitCode::slow;
  EXPECT_EQ(decide(report).sentence, "REJECT: it is slower than the baseline");
  report.comparison = "REGRESSION: all_gather >= 64 MiB +75 %";
  EXPECT_EQ(decide(report).sentence, "REJECT: it is slower than the baseline: all_gather >= 64 MiB +75 %");
}

TEST(Decision, accepts_an_arm_that_is_no_slower_than_the_other) {
  Report report = report_of({.grades = {Grade::unknown, Grade::unknown}});
  report.arms.resize(2);
  report.exit_code = ExitCode::ok;
  report.comparison = "NO REGRESSION in 8 bands; 1 single size is slower";
  EXPECT_EQ(decide(report).sentence, "ACCEPT: arm b is no slower than arm a in 8 bands; 1 single size is slower");
  report.exit_code = ExitCode::inconclusive;
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: it is not known whether arm b is slower than arm a");
}

TEST(Decision, accepts_the_nodes_of_a_check_by_what_is_within_them) {
  Report report = report_of({.grades = {Grade::unknown, Grade::ok}});
  report.results.back().measurement.measured_case.nodes = 1;
  report.exit_code = ExitCode::ok;
  EXPECT_EQ(decide(report).word, cannot_tell);
  report.run.subcommand = "check";
  EXPECT_THAT(decide(report).sentence, StartsWith("ACCEPT: but nothing judged between nodes: all_gather "));
  report.results.pop_back();
  EXPECT_EQ(decide(report).word, cannot_tell) << "nothing was judged";
}

TEST(Decision, of_an_inconclusive_comparison_with_its_baseline_says_so) {
  for (const Grade grade : {Grade::ok, Grade::unknown}) {
    Report report = report_of({.grades = {grade}});
    report.exit_code = ExitCode::inconclusive;
    report.comparison = "INCONCLUSIVE in 1 of 3 bands; about 5 launches per side would settle it";
    const Decision decision = decide(report);
    EXPECT_EQ(
        decision.sentence,
        "CANNOT TELL: it may be slower than the baseline in 1 of 3 bands; about 5 launches per side would settle it");
    EXPECT_THAT(decision.next, testing::ElementsAre(HasSubstr("--launches")));
    for (const auto& [headline, step] :
         {std::pair("INCONCLUSIVE in 1 of 3 bands; about 4 runs per side would settle it", "run again, as often as"),
          std::pair("INCONCLUSIVE in 1 of 3 bands; more launches alone would not settle all of them", "what disturbs"),
          std::pair("INCONCLUSIVE: NEW skipped all of all_reduce", "measure what the baseline has")}) {
      report.comparison = headline;
      EXPECT_THAT(decide(report).next,
                  testing::ElementsAre(testing::AllOf(HasSubstr(step), Not(HasSubstr("--launches")))));
    }
    report.comparison = "NO REGRESSION in 3 bands";
    EXPECT_THAT(decide(report).sentence, Not(HasSubstr("baseline")));
  }
}

TEST(Decision, to_reject_one_node_by_its_baseline_alone_names_no_host) {
  Report report = report_of({.grades = {Grade::ok}});
  report.topology.hosts.resize(1);
  report.topology.host_of_rank = {0, 0};
  report.run.nodes = 1;
  report.results.front().measurement.measured_case.nodes = 1;
  report.exit_code = ExitCode::slow;
  report.comparison = "REGRESSION: all_gather >= 64 MiB +6 %";
  const Decision decision = decide(report);
  EXPECT_EQ(decision.sentence, "REJECT: it is slower than the baseline: all_gather >= 64 MiB +6 %");
  EXPECT_THAT(decision.parts, IsEmpty());
  EXPECT_THAT(decision.next, testing::ElementsAre(HasSubstr("what else differs from the baseline")));
  report.results.front().verdict.grade = Grade::slow;
  EXPECT_THAT(decide(report).parts, testing::ElementsAre("h0"));
}

TEST(Decision, of_a_report_that_is_compared_again_is_by_the_new_baseline) {
  for (const bool before : {false, true}) {
    Report report = report_of({.grades = {Grade::ok}});
    if (before) report.exit_code = ExitCode::slow;  // by its own baseline
    withdraw_baseline_answer(report);
    EXPECT_EQ(report.exit_code, ExitCode::ok);
    Report slower = report;
    add_baseline_answer("REGRESSION: all_gather >= 64 MiB +6 %", ExitCode::slow, slower);
    EXPECT_EQ(slower.exit_code, ExitCode::slow);
    EXPECT_EQ(slower.decision.sentence, "REJECT: it is slower than the baseline: all_gather >= 64 MiB +6 %");
    add_baseline_answer("NO REGRESSION in 3 bands", ExitCode::ok, report);
    EXPECT_EQ(report.exit_code, ExitCode::ok);
    EXPECT_EQ(report.decision.word, accept);
  }
  Report slow = report_of({.grades = {Grade::slow}});
  withdraw_baseline_answer(slow);
  add_baseline_answer("NO REGRESSION in 3 bands", ExitCode::ok, slow);
  EXPECT_EQ(slow.exit_code, ExitCode::slow) << "it is slow without a baseline";
  Report unjudged = report_of({.grades = {Grade::unknown}});
  EXPECT_EQ(unjudged.exit_code, ExitCode::inconclusive);
  unjudged.results.front().baseline.emplace();
  add_baseline_answer("NO REGRESSION in 3 bands", ExitCode::ok, unjudged);
  EXPECT_EQ(unjudged.decision.word, accept);
}

TEST(Decision, shows_a_share_apart_from_the_one_that_would_be_good) {
  Report report = report_of({.grades = {Grade::slow}});
  report.results.front().verdict.fraction = 0.758;
  EXPECT_THAT(decide(report).sentence, HasSubstr("all_gather 76 % of limit"));
  report.results.front().verdict.least_fraction = 0.76;
  EXPECT_THAT(decide(report).sentence, HasSubstr("all_gather 75.8 % of limit"));
}

TEST(Decision, names_hosts_to_go_on_with_as_launchers_know_them) {
  Report report = report_of({.grades = {Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}});
  for (topo::Host& host : report.topology.hosts) {
    host.host_name = "worker-" + host.name;
    host.pretended = true;
  }
  EXPECT_EQ(healthy_hosts(report), "worker-h0 slots=2\nworker-h2 slots=2\n");
  EXPECT_THAT(decide(report).command, HasSubstr("hosts.healthy"));
  report.topology.hosts[2].host_name = "worker-h0";
  EXPECT_EQ(healthy_hosts(report), "worker-h0 slots=4\n") << "two nodes of one machine";
  report.topology.hosts[2].boot_id = "another";
  EXPECT_EQ(healthy_hosts(report), "") << "two machines of one name";
  report.topology.hosts[2].host_name = "worker-h1";
  EXPECT_EQ(healthy_hosts(report), "") << "the unfit host has that name too";
  EXPECT_EQ(decide(report).command, "");
}

TEST(Decision, leaves_options_of_the_simulation_out_of_the_next_job) {
  Report report = report_of({.backend = "sim",
                             .provenance = "simulated",
                             .grades = {Grade::slow},
                             .suspects = {suspect("nic", "n1r5", "h1")}});
  report.run.command = {"--backend=sim", "--platform", "p5.48xlarge", "--fault",
                        "nic:n1r5:0.5",  "--resume",   "--min",       "1MiB"};
  EXPECT_EQ(decide(report).command, "mpirun -np 4 --hostfile p5bench-out/latest/hosts.healthy p5bench --min 1MiB");
}

TEST(Decision, repeats_no_command_on_the_other_hosts_that_their_ranks_are_too_few_for) {
  Report report = report_of({.grades = {Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}});
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--root", "3"}, Words{"--group", "stride:2"}, Words{"--collectives", "p2p,hypercube"},
        Words{"--traffic", "uniform"}, Words{"--traffic=expert:8,12,2"}, Words{"--root", "all"},
        Words{"--group", "node", "--root", "3"}, Words{"--group", "node", "--beside", "all_gather@rail:64MiB"},
        Words{"--root", "1", "--group", "rail", "--beside", "all_gather@stride:3:64MiB"}}) {
    report.run.command = words;
    EXPECT_THAT(decide(report).command, HasSubstr("-np 4 ")) << testing::PrintToString(words);
    EXPECT_EQ(decide(report).next.size(), 1U);
  }
  for (const auto& [words, what] : std::vector<std::pair<Words, std::string>>{
           {{"--root", "4"}, "--root 4"},
           {{"--root=1", "--group", "rail", "--root=2"}, "--root 2"},
           {{"--group", "stride:5"}, "--group stride:5"},
           {{"--group", "stride:4"}, "--group stride:4: its groups would have one rank"},
           {{"--group", "node", "--root", "5"}, "--root 5"},
           {{"--group", "node", "--beside", "all_gather@stride:4:64MiB"},
            "--beside all_gather@stride:4:64MiB: its groups would have one rank"},
           {{"--collectives=hypercube", "--group", "stride:1", "--root", "0"}, ""},
           {{"--traffic", "matrix.csv"}, "--traffic: its matrix is of all ranks"},
           {{"--traffic", "expert:8,6,2"}, "--traffic: its experts do not divide among them"},
           {{"--baseline", "runs"}, "--baseline: it is of all nodes"},
           {{"--job", "job.json"}, "--job: its step is of all ranks"}}) {
    report.run.command = words;
    const Decision decision = decide(report);
    EXPECT_EQ(decision.command.empty(), !what.empty()) << testing::PrintToString(words);
    if (what.empty()) continue;
    EXPECT_EQ(decision.next.back(), "run on the other hosts (hosts.healthy, 4 ranks) without " + what);
  }
  // On the one host that is left, rails have one rank each.
  report.suspects.push_back(suspect("nic", "n2r5", "h2"));
  for (const auto& [words, what] :
       std::vector<std::pair<Words, std::string>>{{{"--group", "rail"}, "--group rail: its groups would have one rank"},
                                                  {{"--group", "domain", "--beside", "all_gather@rail:64MiB"},
                                                   "--beside all_gather@rail:64MiB: its groups would have one rank"}}) {
    report.run.command = words;
    EXPECT_EQ(decide(report).command, "") << testing::PrintToString(words);
    EXPECT_EQ(decide(report).next.back(), "run on the other hosts (hosts.healthy, 2 ranks) without " + what);
  }
  report.suspects.pop_back();
  report.topology.host_of_rank = {0, 0, 1, 1, 2};
  report.run.command = {"--collectives", "hypercube"};
  EXPECT_THAT(decide(report).next.back(), HasSubstr("3 ranks) without hypercube, which takes 1, 2, 4"));
  // Groups of the other three ranks: of strides of 2 they have two ranks and one.
  for (const auto& [words, what] : std::vector<std::pair<Words, std::string>>{
           {{"--traffic", "zipf:1"}, "--traffic: its matrix is for groups of one size"},
           {{"--collectives", "p2p,broadcast", "--root", "all"}, "--root all: it is for groups of one size"},
           {{"--collectives", "dispatch"}, "dispatch, which takes groups of one size"},
           {{"--collectives", "broadcast", "--root", "1"}, "--root 1"},
           {{"--collectives", "all_gather", "--root", "all"}, ""},
           {{"--root", "all"}, ""}}) {
    for (const char* const group : {"stride:2", "rail"}) {
      report.run.command = words;
      report.run.command.insert(report.run.command.end(), {"--group", group});
      const Decision decision = decide(report);
      EXPECT_EQ(decision.command.empty(), !what.empty()) << testing::PrintToString(report.run.command);
      if (what.empty()) continue;
      EXPECT_THAT(decision.next.back(), testing::EndsWith("3 ranks) without " + what));
    }
  }
  report.run.command = {"--beside", "dispatch@stride:2:8MiB"};
  EXPECT_THAT(decide(report).next.back(), testing::EndsWith("without --beside dispatch@stride:2:8MiB: dispatch, which "
                                                            "takes groups of one size"));
  report.run.command = {"--beside", "all_gather@stride:2:8MiB", "--beside", "gemm"};
  EXPECT_THAT(decide(report).command, HasSubstr("--beside gemm"));
}

TEST(Decision, takes_no_value_of_an_option_for_the_command) {
  Report report = report_of({.grades = {Grade::slow}, .suspects = {suspect("nic", "n1r5", "h1")}});
  report.run.folder = "check/20261128T120000Z";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--out", "check"}, {"run", "--cluster", "check"}, {"--cluster=c", "--out", "check"}}) {
    report.run.command = words;
    EXPECT_FALSE(is_check(report)) << testing::PrintToString(words);
    EXPECT_THAT(decide(report).command, HasSubstr("/check/20261128T120000Z/hosts.healthy"));
  }
  report.run.command = {"--quiet", "check"};
  report.run.subcommand = "check";
  EXPECT_TRUE(is_check(report));
  EXPECT_EQ(decide(report).command, "") << "a check writes no files by default";
}

TEST(Decision, offers_to_resume_only_what_can_be_resumed) {
  Report report = report_of({.status = "partial", .grades = {Grade::failed}});
  const auto offers = [&](std::vector<std::string> command) {
    report.run.command = std::move(command);
    for (const std::string& step : decide(report).next)
      if (step.starts_with("run again")) return step.find("--resume") != std::string::npos;
    ADD_FAILURE() << "no step to run again";
    return false;
  };
  EXPECT_TRUE(offers({"--min", "8"}));
  EXPECT_TRUE(offers({"ab", "--b", "NCCL_PROTO=Simple"}));
  EXPECT_FALSE(offers({"tune"}));
  EXPECT_FALSE(offers({"check", "--out", "x"}));
  EXPECT_FALSE(offers({"--soak", "1h"}));
  EXPECT_FALSE(offers({"--soak=1h"}));
  EXPECT_TRUE(offers({"--out", "tune"})) << "a folder of this name";
  report.status = "complete";
  EXPECT_FALSE(offers({"--min", "8"})) << "nothing is left to measure";
  report.results.push_back(report.results.front());
  report.results[1].measurement.outcome = Outcome::skipped;
  report.results[1].verdict.grade = Grade::unknown;
  EXPECT_TRUE(offers({"--min", "8"}));
  report.results[1].measurement.measured_case.nic = 0;
  EXPECT_FALSE(offers({"--min", "8"})) << "single NICs are no part of the plan";
  report.status = "partial";
  EXPECT_TRUE(offers({"--min", "8"}));
  report.run.subcommand = "tune";
  EXPECT_FALSE(offers({"--quiet", "tune"}));
  report.run.subcommand.clear();
  report.provenance = "imported";
  EXPECT_FALSE(offers({"import", "nccl-tests", "log"}));
}

TEST(Decision, names_the_host_that_does_not_join_whatever_else_was_measured) {
  topo::Finding finding = broken("h2");
  finding.id = "join.host", finding.evidence = "the ranks of h2 do not join", finding.action = "look at that host";
  finding.about = topo::About::host;
  const std::string step = "join.host on h2: look at that host";
  Report report = report_of({.grades = {Grade::failed, Grade::ok}, .findings = {finding}});
  report.results[0].measurement.failed_rank = 0;
  report.decision = decide(report);
  EXPECT_EQ(report.exit_code, ExitCode::unfinished);
  EXPECT_THAT(report.decision.sentence, StartsWith("CANNOT TELL: errors to fix first: join.host on h2; 1 of 2 "));
  EXPECT_THAT(report.decision.next, testing::ElementsAre(step));
  report.results[1].measurement.measured_case.backend = "ofi";  // single NICs
  report.exit_code = exit_code(report, true);
  report.decision = decide(report);
  EXPECT_EQ(report.exit_code, ExitCode::environment);
  EXPECT_EQ(report.decision.sentence, "CANNOT TELL: ranks did not join: the ranks of h2 do not join");
  EXPECT_THAT(report.decision.next, testing::ElementsAre(step));
  report.suspects = {suspect("nic", "n1r5", "h1")};
  report.decision = decide(report);
  EXPECT_EQ(report.decision.sentence, "REJECT h1: nic n1r5 is slow; ranks did not join: the ranks of h2 do not join");
  EXPECT_THAT(report.decision.next, testing::Contains(step));
}

TEST(Decision, names_what_failed_with_nccls_own_settings_while_tuning) {
  Report report = report_of({});
  report.exit_code = ExitCode::unfinished;
  report.tuning.emplace().failures = {
      {.collective = "all_reduce", .bytes = 8, .setting = "ring/ll", .because = "rank 3 in verify: its own fault"},
      {.collective = "all_reduce", .bytes = 8, .setting = "default", .because = "no answer"},
      {.collective = "all_reduce", .bytes = 64, .setting = "default", .because = "rank 1 in sample: no answer"},
      {.collective = "all_reduce", .bytes = 64, .setting = "default", .because = "rank 2 in sample: no answer"}};
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: tuning: NCCL's own settings failed at 2 sizes, first at " +
                                         name_of_rank(report.topology, 1) + " in sample: no answer");
  EXPECT_THAT(decide(report).next, Contains(HasSubstr("if it fails twice at the same rank")));
  report.tuning->failures.resize(2);
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: tuning: NCCL's own settings failed at 1 size: no answer");
  EXPECT_THAT(decide(report).next, Not(Contains(HasSubstr("at the same rank"))));
}

TEST(Decision, names_wrong_data_of_nccls_own_settings_while_tuning_before_what_is_slow) {
  for (const bool suspected : {true, false}) {
    Report report = report_of({.grades = {suspected ? Grade::slow : Grade::ok}});
    if (suspected) report.suspects = {suspect("nic", "n1r5", "h1")};
    report.tuning.emplace().failures = {
        {.collective = "all_gather", .bytes = 8, .setting = "ring/ll", .wrong_data = true, .because = "its own"}};
    EXPECT_EQ(overall(report), suspected ? Grade::slow : Grade::ok);
    report.tuning->failures.push_back(
        {.collective = "all_reduce", .bytes = 1 << 20, .setting = "default", .wrong_data = true, .because = ""});
    report.exit_code = exit_code(report, true);
    EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
    EXPECT_EQ(overall(report), Grade::wrong);
    const Decision decision = decide(report);
    EXPECT_EQ(decision.sentence, std::string(suspected ? "REJECT h1: " : "REJECT: ") +
                                     "tuning: wrong data with NCCL's own settings, all_reduce 1 MiB" +
                                     (suspected ? ", nic n1r5 is slow" : ""));
    EXPECT_THAT(decision.next, Contains(HasSubstr("measure halves of the hosts")));
    report.tuning->failures.back().wrong_data = false;
    EXPECT_EQ(exit_code(report, true), ExitCode::unfinished);
    EXPECT_EQ(overall(report), Grade::failed);
  }
}

// A host that is slow by itself, and a measurement of all that failed.
TEST(Decision, rejects_a_host_that_is_slow_by_itself_though_something_else_failed) {
  Report report = report_of({.grades = {Grade::slow, Grade::failed}});
  report.topology.platform = "p5.48xlarge";
  report.limits = {
      {std::string(topo::gpu_link), topo::Level::achievable, {370}, "nvlink", "18 NVLinks x 20.6 GB/s = 370 GB/s"}};
  Measurement& m = report.results.front().measurement;
  m.measured_case.group = "node";
  m.measured_case.ranks = 2;
  m.measured_case.nodes = 1;
  m.measured_case.collective = &p2p;
  m.measured_case.pattern = "both_ways";
  const auto times = [](float time) { return std::vector<float>(7, time); };
  m.groups = {
      {{0, 1}, {0.0029F}, times(0.0029F)}, {{2, 3}, {0.009F}, times(0.009F)}, {{4, 5}, {0.0029F}, times(0.0029F)}};
  ASSERT_THAT(hosts_slow_alone(report), testing::ElementsAre("h1"));
  report.exit_code = exit_code(report, true);
  EXPECT_EQ(report.exit_code, ExitCode::unfinished);
  const Decision decision = decide(report);
  EXPECT_THAT(decision.sentence, testing::StartsWith("REJECT h1: slow without the other nodes (p2p 50 % of limit)"));
  EXPECT_THAT(decision.next, Contains(HasSubstr("does not explain what failed")));
  EXPECT_EQ(healthy_hosts(report), "h0 slots=2\nh2 slots=2\n");
  // What another host has is no reason for this one.
  const auto rejects = [&](const std::string& why) {
    report.exit_code = exit_code(report, true);
    const Decision now = decide(report);
    EXPECT_THAT(now.sentence, StartsWith("REJECT h1, h2: " + why + ", h1 is slow without the other nodes"));
    EXPECT_THAT(now.next, Contains(StartsWith("h1: check its fabric manager")));
    EXPECT_EQ(healthy_hosts(report), "h0 slots=2\n");
  };
  report.suspects = {suspect("nic", "n2r5", "h2")};
  rejects("nic n2r5 is slow");
  report.suspects.clear();
  report.open_questions = {
      {.candidates = {"nic n2r5", "gpu n2g1"}, .host = "h2", .evidence = "seen", .next = "measure it"}};
  rejects("nic n2r5 or gpu n2g1 is slow");
  report.open_questions.clear();
  report.findings = {broken("h2")};
  rejects("gpu.xid (it fell off the bus)");
  report.findings.front().id = "gpu.corrupt";
  rejects("gpu.corrupt (it fell off the bus)");
  report.findings.clear();
  report.suspects = {suspect("link", "n1-n2", "h1")};
  EXPECT_THAT(decide(report).sentence, StartsWith("REJECT h1, link n1-n2: link n1-n2 is slow, h1 is slow without"));
  // Its own reason is enough.
  report.suspects = {suspect("gpu", "n1g1", "h1")};
  EXPECT_THAT(decide(report).sentence, StartsWith("REJECT h1: gpu n1g1 is slow;"));
  report.suspects = {suspect("domain", "d1", "")};
  EXPECT_EQ(decide(report).parts, (std::vector<std::string>{"domain d1"}));
}

TEST(Decision, of_a_tuning_that_tried_nothing_says_why) {
  Report report = report_of({});
  report.exit_code = ExitCode::inconclusive;
  report.tuning.emplace().outcome = "refused";
  report.tuning->because = "NCCL_TUNER_PLUGIN is set.";
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: nothing was tuned: NCCL_TUNER_PLUGIN is set");
  EXPECT_THAT(decide(report).next, IsEmpty()) << "no baseline helps";
}

TEST(Decision, of_a_tuning_says_what_was_found_and_judges_no_hardware) {
  Report report = report_of({});
  report.tuning.emplace().outcome = "settings";
  report.tuning->because = "NCCL_MIN_CTAS=32 for all sizes.";
  EXPECT_EQ(decide(report).sentence, "CANNOT TELL: tuning judges no hardware; NCCL_MIN_CTAS=32 for all sizes");
}

TEST(Decision, cuts_long_texts_between_characters) {
  Report report = report_of({.grades = {Grade::ok}, .findings = {broken("h2")}});
  for (std::string name = "\u00e4"; name.size() < 200; name += "\u00e4") {
    report.findings.front().subject.host = report.topology.hosts[2].name = report.findings.front().evidence = name;
    const Decision decision = decide(report);
    EXPECT_LE(decision.sentence.size(), longest_sentence);
    EXPECT_TRUE(is_utf8(decision.sentence)) << decision.sentence;
    EXPECT_THAT(decision.sentence, Not(HasSubstr("\\x")));
  }
}

}  // namespace
}  // namespace p5::reports
