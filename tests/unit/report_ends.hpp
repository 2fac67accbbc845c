// Ways in which a run or a check can end, for tests that combine them.
#pragma once

#include "bench/model/collective.hpp"
#include "reports/report.hpp"

namespace p5::reports {

// Two nodes of two ranks each.
inline Report two_nodes() {
  Report report;
  report.status = "complete";
  report.exit_code = ExitCode::ok;
  report.topology.hosts.resize(2);
  report.topology.hosts[0].name = "n0";
  report.topology.hosts[1].name = "n1";
  report.topology.hosts[1].instance = "i-0abc";
  for (topo::Host& host : report.topology.hosts) host.gpu_devices.resize(2);
  report.topology.hosts[1].gpu_devices[1].uuid = "GPU-b";
  report.topology.host_of_rank = {0, 0, 1, 1};
  report.topology.gpu_of_rank = {"GPU-x", "GPU-y", "GPU-a", "GPU-b"};
  return report;
}

inline Result& add(Report& report, const char* collective, int nodes, Grade grade) {
  Result& result = report.results.emplace_back();
  result.measurement.measured_case.collective = &find_collective(collective);
  result.measurement.measured_case.ranks = 2 * nodes;
  result.measurement.measured_case.nodes = nodes;
  result.verdict.grade = grade;
  return result;
}

// A way in which a run or a check can end: its effect on the report, and the additional exit code.
struct End {
  const char* name;
  void (*leave)(Report& report);
  ExitCode code = ExitCode::ok;
};

inline void find(Report& report, const char* id, topo::About about) {
  report.findings.push_back({id, topo::Severity::error, {"n1", "", {}, {}}, "evidence", "action", about});
}

inline void skip(Result& result) {
  Measurement& m = result.measurement;
  m.outcome = Outcome::skipped;
  m.because = "budget";
  m.throughput.reset();
  m.latency.reset();
  m.launches_s.clear();
  result.verdict = {};
}

inline constexpr End all_ends[] = {
    {"sound", [](Report&) {}},
    {"the budget is spent before the first case",
     [](Report& r) {
       for (Result& each : r.results) skip(each);
     }},
    {"a GPU is lost", [](Report& r) { find(r, "gpu.lost", topo::About::hardware); }},
    {"NVLinks are down", [](Report& r) { find(r, "gpu.links", topo::About::fabric); }},
    {"a part is suspected", [](Report& r) { r.suspects.emplace_back().host = "n1"; }},
    {"a part of a node is in question",
     [](Report& r) {
       r.open_questions.push_back(
           {.candidates = {"nic n1r5", "gpu n1g1"}, .host = "n1", .evidence = "seen", .next = "swap"});
     }},
    {"one of two nodes or their link is in question",
     [](Report& r) {
       r.open_questions.push_back(
           {.candidates = {"node n0", "node n1", "link n0-n1"}, .evidence = "seen", .next = "swap"});
     }},
    {"a rail is in question",
     [](Report& r) {
       r.open_questions.push_back({.candidates = {"rail 3", "node n1"}, .evidence = "seen", .next = "swap"});
     }},
    {"the page is not written", [](Report&) {}, ExitCode::unfinished},
    {"a baseline was faster", [](Report&) {}, ExitCode::slow},
    {"the host is set up wrong", [](Report& r) { find(r, "host.memlock", topo::About::host); }},
    {"slow", [](Report& r) { add(r, "p2p", 1, Grade::slow); }},
    {"wrong data", [](Report& r) { add(r, "all_reduce", 1, Grade::wrong); }},
    {"a case failed", [](Report& r) { add(r, "p2p", 1, Grade::failed).measurement.outcome = Outcome::failed; }},
    {"GPUs alone failed", [](Report& r) { find(r, "gpu.check_failed", topo::About::hardware); }},
    {"the burn is left out", [](Report& r) { find(r, "gpu.not_burnt", topo::About::software); }},
    {"NVML does not answer", [](Report& r) { find(r, "gpu.nvml", topo::About::software); }, ExitCode::unfinished},
    {"the ranks do not join", [](Report& r) { find(r, "join.host", topo::About::host); }},
    {"workers do not start", [](Report&) {}, ExitCode::environment},
    {"ended by a signal", [](Report& r) { r.run.ended_by = "ended by SIGTERM"; }, ExitCode::unfinished},
    {"time is over", [](Report& r) { r.run.ended_by = "no answer"; }, ExitCode::unfinished}};

}  // namespace p5::reports
