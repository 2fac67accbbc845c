#include "bench/app/run/acceptance.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/machine/leader.hpp"
#include "bench/app/machine/preflight.hpp"
#include "bench/app/run/arms.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/app/run/resuming.hpp"
#include "bench/app/run/sides.hpp"
#include "bench/app/run/watching.hpp"
#include "bench/app/tuning/clock.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/base/clock.hpp"
#include "bench/base/names.hpp"
#include "bench/base/version.hpp"
#include "bench/measure/agreement.hpp"
#include "bench/measure/local_checks.hpp"
#include "reports/local_checks.hpp"
#include "topo/finding.hpp"

namespace p5 {

namespace {

// Of the budget, what stays for judging and writing.
constexpr double finishing_share = 0.1;
constexpr double longest_finishing_s = 60;

// How long ranks other than the leader wait before they leave, so that its report is written first: the launcher ends
// the leader with them. After a signal it does so within a second anyway; after a hang nothing presses, and a busy
// machine or file system may need long.
constexpr std::chrono::milliseconds grace{700};
constexpr std::chrono::seconds grace_after_hang{10};

// `earlier`: what the leader finds where the run goes on with another one, whose seed it takes.
std::uint64_t agree_on_seed(World& world, const Options& options, std::optional<EarlierRun>& earlier) {
  return std::stoull(from_leader(world, [&] {
    if (options.resume) earlier = find_earlier_run(options);
    if (earlier) return std::to_string(earlier->report.run.seed);
    return std::to_string(options.seed ? *options.seed : std::random_device{}() % 1'000'000);
  }));
}

// The same on all ranks: what the leader's indices say.
std::vector<Case> chosen(std::vector<Case> planned, const std::string& indices) {
  std::vector<Case> cases;
  for (const std::size_t at : nlohmann::json::parse(indices).get<std::vector<std::size_t>>())
    cases.push_back(std::move(planned[at]));
  return cases;
}

struct ClusterName {
  std::string name;
  std::string remark;  // "" or why it is not the scheduler's
};

ClusterName name_cluster(const Options& options, const Machine& machine) {
  if (!options.cluster.empty()) return {options.cluster, ""};
  const bool sim = machine.backend_info().simulated();
  const std::string platform = machine.platform ? machine.platform->name : "hosts";
  ClusterName own{fmt::format("{}{}-{}n", sim ? "sim-" : "", platform, machine.topology.hosts.size()), ""};
  const char* scheduler = std::getenv("SLURM_CLUSTER_NAME");
  if (sim || !scheduler || !*scheduler) return own;
  const std::string objection = objection_to_folder_name(scheduler);
  if (objection.empty()) return {scheduler, ""};
  // Who starts a job seldom chose its scheduler's name: no reason to refuse the run.
  own.remark =
      fmt::format("SLURM_CLUSTER_NAME: {}; the run is kept as {}, --cluster names it otherwise", objection, own.name);
  return own;
}

reports::Report new_report(const Request& request, const Machine& machine, const Plan& plan, std::uint64_t seed) {
  reports::Report report;
  report.provenance = machine.backend->provenance();
  report.topology = machine.topology;
  report.context = find_context();
  report.context.insert(machine.software.begin(), machine.software.end());
  report.run.version = version();
  report.run.command = request.arguments;
  report.run.budget_s = request.options.budget.count;
  report.run.seed = seed;
  const ClusterName cluster = name_cluster(request.options, machine);
  report.run.cluster = cluster.name;
  report.run.ranks = static_cast<int>(machine.topology.host_of_rank.size());
  report.run.nodes = static_cast<int>(machine.topology.hosts.size());
  report.run.backend = machine.backend_name;
  report.run.launches = request.options.launches;
  report.run.remarks = plan.remarks;
  if (!cluster.remark.empty()) report.run.remarks.push_back(cluster.remark);
  report.arms = describe_arms(request.options);
  return report;
}

// What makes figures unfit for judging.
reports::Fitness fitness_of(const Options& options, const Machine& machine,
                            const std::vector<topo::Finding>& findings) {
  if (options.command == "ab") return {false, "arms are compared with each other, not with what the hardware can do"};
  if (!machine.why_not_judged.empty()) return {false, machine.why_not_judged};
  for (const topo::Finding& finding : findings) {
    // Ranks on GPUs wait more than they work: sharing hardware threads is no good, but does not spoil their figures.
    if (finding.id == "host.oversubscribed" && !machine.backend_info().on_gpus())
      return {false, "ranks share hardware threads (" + finding.evidence + ")"};
    if (finding.id == "host.pretended") return {false, "nodes are pretended"};
  }
  return {};
}

// Leaves word and goes: others wait for this rank in calls that nothing ends.
[[noreturn]] void leave_job(const std::filesystem::path& folder, int rank, const std::string& why, Recorder* recorder) {
  if (recorder) {
    recorder->end_early(why);
  } else {
    fmt::print(stderr, "p5bench: {}\n", why);
    std::ofstream(note_of_rank(folder, rank)) << why;
  }
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

// What to do when a signal or a hang ends the run; the leader writes, the others give it the time to.
void prepare_for_the_worst(const Request& request, RunnerOptions& options, Recorder* recorder) {
  if (recorder) {
    request.signals.on_end([recorder](const std::string& signal) { recorder->end_early("ended by " + signal); });
    options.on_hang = [recorder, timeout = options.timeout](const std::string& step) {
      recorder->end_early(fmt::format("no progress in the {} within {}", step, to_text(timeout)));
      std::_Exit(static_cast<int>(ExitCode::unfinished));
    };
  } else {
    request.signals.on_end([](const std::string&) { std::this_thread::sleep_for(grace); });
    options.on_hang = [](const std::string&) {
      std::this_thread::sleep_for(grace_after_hang);
      std::_Exit(static_cast<int>(ExitCode::unfinished));
    };
  }
}

class Silent final : public Observer {
 public:
  void visit_started(const Case&, const Standing&) override {}
  void visit_finished(const Measurement&, bool) override {}
  void case_finished(const Measurement&, bool) override {}
};

std::string tuning_mode(const Options& options) {
  if (!options.tune.empty()) return options.tune;
  return options.command == "tune" ? "full" : "quick";
}

// In the workers that measured the last case; where that failed they are gone, and a GPU that hangs would hang again.
void check_gpus_alone(World& world, const Machine& machine, Backend& backend, Recorder* recorder) {
  if (!machine.backend_info().on_gpus() || !machine.why_not_judged.empty() || !backend.joined()) return;
  try {
    std::vector<LocalFigures> of_ranks = check_locally(world, backend);
    if (recorder) recorder->add_local_checks(std::move(of_ranks));
  } catch (const PhaseFailed& failed) {
    backend.abandon();
    if (!recorder) return;
    const std::string rank = failed.rank ? fmt::format("rank {}: ", *failed.rank) : "";
    recorder->add_findings({{std::string(reports::check_failed),
                             topo::Severity::error,
                             {},
                             rank + failed.what,
                             "run again with --collectives p2p; if it comes again, replace that GPU's host",
                             topo::About::hardware}});
  }
}

// The default is to tune where that is possible; who asks for it has to be told where it is not.
void refuse_tuning_without_nccl(const Options& options, const Machine& machine) {
  if (!options.asks_for_tuning() || machine.backend_info().tunable) return;
  throw EnvironmentError(fmt::format(
      "there is nothing to tune: settings are NCCL's, and the backend here is {}; NCCL takes a GPU for every rank (see "
      "`p5bench topo`) and a build with CUDA",
      machine.backend_name));
}

bool may_tune(const Options& options, const Machine& machine) {
  return tuning_mode(options) != "off" && machine.backend_info().tunable && options.command != "ab";
}

// Only where there is something to tune, and only what is sound.
void tune_if_wanted(World& world, const Options& options, const Machine& machine, std::uint64_t seed,
                    const RunnerOptions& runner, const std::vector<tuner::Weight>& weights, Seconds time_left,
                    Recorder* recorder) {
  if (!may_tune(options, machine)) return;
  const std::string mode = tuning_mode(options);
  const std::string reason = from_leader(world, [&] {
    if (!machine.why_not_judged.empty()) return machine.why_not_judged + ": their times say nothing about settings";
    return recorder->reason_not_to_tune();
  });
  if (!reason.empty()) {
    reports::Tuning refused;
    refused.mode = mode;
    refused.outcome = "refused";
    refused.because = reason;
    if (recorder) recorder->add_tuning(std::move(refused));
    return;
  }
  TuningJob job{.mode = mode,
                .seed = seed,
                .runner = runner,
                .weights = weights,
                .time_left = time_left,
                .cluster = {},
                .folder = {}};
  if (recorder) {
    job.cluster = name_cluster(options, machine).name;
    job.folder = std::filesystem::absolute(recorder->folder()).string();
  }
  reports::Tuning tuned = tune(world, options, machine, job);
  if (recorder) recorder->add_tuning(std::move(tuned));
}

}  // namespace

ExitCode run_acceptance(World& world, const Request& request, const WrapBackend& wrap) {
  const auto start = Clock::now();
  const Options& options = request.options;
  std::optional<EarlierRun> earlier;
  const std::uint64_t seed = agree_on_seed(world, options, earlier);
  Machine machine = find_machine(world, options, seed);
  refuse_tuning_without_nccl(options, machine);
  if (wrap) machine.backend = wrap(std::move(machine.backend));
  Plan plan = make_plan(options, job_facts(machine, seed), *machine.backend, machine.backend_name);

  refuse_differing_tuning_files(world);
  const std::vector<tuner::Weight> weights = read_weights(world, options);
  const Arms arms = make_arms(world, options, machine);
  std::optional<Recorder> recorder;
  std::vector<std::size_t> left;
  const std::filesystem::path folder = from_leader(world, [&] {
    reports::Report report = new_report(request, machine, plan, seed);
    std::optional<reports::Side> baseline;
    if (!options.baseline.empty()) baseline = read_baseline(options.baseline, report);
    std::optional<Kept> kept;
    if (earlier) kept = keep_results(*earlier, report, plan.cases);
    recorder.emplace(options, std::move(report), std::move(baseline));
    if (kept) {
      left = left_to_measure(plan.cases, *kept);
      recorder->go_on(*earlier, std::move(*kept));
    }
    return recorder->folder().string();
  });
  if (options.resume) plan.cases = chosen(std::move(plan.cases), world.broadcast(nlohmann::json(left).dump()));
  RunnerOptions runner;
  runner.timeout = options.timeout;
  runner.launches = options.launches;
  runner.seed = seed;
  runner.objection = [&machine](const Arm&, const std::vector<Backend::Variables>& of_ranks) {
    return objection_to(of_ranks, machine);
  };
  runner.hosts = {.host_of_rank = machine.topology.host_of_rank, .names = {}};
  for (const topo::Host& host : machine.topology.hosts) runner.hosts.names.push_back(host.name);
  prepare_for_the_worst(request, runner, recorder ? &*recorder : nullptr);

  topo::Limits limits = find_limits(world, machine);
  std::vector<topo::Finding> findings = look_before(world, options, machine);
  if (recorder) {
    const reports::Fitness fitness = fitness_of(options, machine, findings);
    recorder->begin(std::move(limits), std::move(findings), fitness);
    recorder->add_file("topology.json", to_json(machine.topology).dump(2) + "\n");
    if (!machine.backend_info().simulated()) recorder->add_file("topology.xml", topo::hwloc_xml());
  }
  const double spent = since(start).count;
  runner.budget = {options.budget.count * (1 - finishing_share) - spent};
  if (may_tune(options, machine) && machine.why_not_judged.empty() && options.soak.count == 0)
    runner.budget.count -= set_aside(tuning_mode(options), options.budget).count;
  if (options.soak.count > 0)
    runner.soak = {std::max(
        options.soak.count - spent - std::min(options.soak.count * finishing_share, longest_finishing_s), 1e-3)};
  Silent silent;
  try {
    if (options.command != "tune") {
      Watching watching(world, machine);
      Observer& observer = recorder ? watching.around(*recorder) : silent;
      run_launches(world, arms.all, plan.cases, runner, observer);
      watching.finish(world, machine, recorder ? &*recorder : nullptr);
      if (options.command == "run")
        check_gpus_alone(world, machine, *arms.all.front().backend, recorder ? &*recorder : nullptr);
    }
    std::vector<topo::Finding> told = look_at_library(world, machine, arms.all);
    if (recorder) recorder->add_findings(std::move(told));
    // A soak's launches have a budget each, and so has its tuning.
    const double spent_by_now = options.soak.count > 0 ? 0 : since(start).count;
    const Seconds time_left{options.budget.count * (1 - finishing_share) - spent_by_now};
    tune_if_wanted(world, options, machine, seed, runner, weights, time_left, recorder ? &*recorder : nullptr);
  } catch (const JobLost& lost) {
    leave_job(folder, world.participant(), lost.what(), recorder ? &*recorder : nullptr);
  }
  const ExitCode code = recorder ? recorder->finish() : ExitCode::ok;
  request.signals.on_end({});
  world.barrier();  // nobody leaves before the report is written: a launcher may end the job when the first rank goes
  return code;
}

}  // namespace p5
