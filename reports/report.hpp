// The report as a value: everything a run leaves, judged. From here on nothing needs MPI, a GPU or the machine.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/model/measurement.hpp"
#include "reports/tuning.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"
#include "topo/watch.hpp"

namespace p5::reports {

enum class Grade { ok, slow, faulty, wrong, failed, unknown };  // faulty: of reports, not of measurements
std::string_view name_of(Grade grade);

struct Verdict {
  Grade grade = Grade::unknown;
  std::string level;  // of the limit, "" when there is none
  std::optional<GBps> limit;
  std::optional<double> fraction;  // bus bandwidth over the limit
  std::string binding;             // the part that limits
  std::string because;             // one sentence
};

// What the same case took in the runs that this one is compared with.
struct BaselineTimes {
  std::optional<double> latency_s, throughput_s;  // of one operation
};

struct Result {
  Measurement measurement;
  Verdict verdict;
  std::optional<topo::CaseWatch> during = {};  // what GPUs and NICs did meanwhile; null: nobody looked
  std::optional<BaselineTimes> baseline = {};  // null: compared with none, or it does not have the case
};

struct Suspect {
  std::string kind;            // gpu, nic, node, link, rail
  std::string name;            // "n3g2", as in --fault
  std::string host, instance;  // "" of a rail
  std::string device = {};     // the UUID of a GPU, the name of a NIC; "" where that is not known
  double confidence = 0;
  std::string evidence;
  int partners_tested = 0;
  std::string action;
  std::string fault = "slow";  // slow, silent (nothing passes it), wrong (it falsifies data)
};

// Something is slow, silent or wrong, and the measurements do not tell which of several parts it is.
struct OpenQuestion {
  std::vector<std::string> candidates;     // "nic n1r5", "link n0-n1"; the likeliest first
  std::vector<double> probabilities = {};  // of each candidate, given what was measured
  std::string host = {};                   // where all candidates are parts of one; "" else
  std::string evidence;
  std::string next;            // the measurement that would separate them
  std::string fault = "slow";  // as in Suspect
};

// The verdict in one word, what it rests on, and what to do. Every output prints these texts, none makes its own.
struct Decision {
  std::string word = "CANNOT TELL";  // ACCEPT, REJECT, CANNOT TELL
  std::vector<std::string> parts;    // what to reject: "n1", or "nic n1r5" where the node is not known by it
  std::string sentence;              // "REJECT n1: ...", at most 120 characters
  std::vector<std::string> next;     // what to do, in order; empty where nothing is to be done
  std::string command;               // for a shell: the next job on the healthy hosts; "" where there are none
};

// One of the arms of an `ab`; its measurements have its name as Case::arm.
struct ArmInfo {
  std::string name;
  std::map<std::string, std::string> settings;  // as given
  std::map<std::string, std::string> context;   // what rank 0 ran on: library, plugins, variables after its start
  int launches = 0;                             // that came together
  std::string problem;                          // why a launch did not come together; "" when all did
};

// More than any run comes to.
inline constexpr int most_launches = 1'000'000;

struct RunInfo {
  std::string version;
  std::vector<std::string> command;  // arguments as given
  std::string started, ended;        // UTC, ISO 8601; ended is "" while the run goes on
  double wall_s = 0;
  double budget_s = 0;
  std::uint64_t seed = 0;
  std::string cluster;
  int ranks = 0, nodes = 0;
  std::string backend;
  int launches = 1;  // of each case, as planned
  std::vector<std::string> remarks;
  std::string ended_by;  // "" unless something ended the run before its plan: a signal, a lost rank
};

struct Report {
  std::string status = "partial";       // complete, partial
  std::string provenance = "measured";  // measured, simulated, imported
  Grade grade = Grade::unknown;         // the worst judged band, and what was found
  Decision decision;
  ExitCode exit_code = ExitCode::unfinished;
  RunInfo run;
  std::map<std::string, std::string> context;  // software and environment, allow-listed
  topo::Topology topology;
  topo::Limits limits;
  std::vector<Result> results;             // "measurements" in JSON
  std::vector<LocalFigures> local_checks;    // of each rank's GPU alone; empty: not checked
  std::vector<ComputeCheck> compute_checks;  // the same
  std::vector<topo::Finding> findings;
  std::vector<Suspect> suspects;
  std::vector<OpenQuestion> open_questions;
  std::vector<ArmInfo> arms;     // of an `ab`
  std::optional<Tuning> tuning;  // null: nothing was tuned
};

inline constexpr std::string_view schema_name = "p5bench.report/1";

nlohmann::json to_json(const Report& report);
nlohmann::json to_json(const Case& c);
// With the samples of each series, for the journal.
nlohmann::json to_json(const Result& result, bool with_samples);
// Throws UsageError naming what is missing or wrong.
Report report_from_json(const nlohmann::json& j);
// Throws nlohmann::json::exception or UsageError.
Case case_from_json(const nlohmann::json& j);
// As to_json() writes it, with or without samples.
Result result_from_json(const nlohmann::json& j);
// Without members of the names `left_out`, none of which a report has to have.
Report read_report(const std::string& path, std::span<const std::string_view> left_out = {});

}  // namespace p5::reports
