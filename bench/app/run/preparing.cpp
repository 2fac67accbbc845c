// The phases before the first case: machine, plan, report folder, and findings that endanger the figures; and how
// `check` differs from `run`.
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/run/comparing.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/app/tuning/limits.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/app/variables.hpp"
#include "bench/base/console.hpp"
#include "bench/base/embedded.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "bench/measure/load.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nodes.hpp"
#include "reports/other_programs.hpp"
#include "reports/reachability.hpp"

namespace p5 {

void fields(auto& archive, Is<CaseInLaunch> auto& place) {
  archive.must("arm", place.arm);
  archive.must("launch", place.launch);
  archive.must("at", place.at);
}

namespace {

// Larger messages take long without NVLink and show no more.
constexpr Bytes largest_without_links = MiB(64);
// On 8 × H200 the checks of each GPU alone took 4.2 s, and a turn of copies to and from host memory 0.26 s.
constexpr Seconds alone{4.8}, turn_of_copies{0.3};

bool gpus_have_links(const topo::Topology& topology) {
  return std::ranges::any_of(topology.hosts, [](const topo::Host& host) {
    return std::ranges::any_of(host.gpu_devices, [](const topo::Gpu& gpu) { return gpu.links.value_or(0) > 0; });
  });
}

// Keeps the largest size that fits, and drops ping_pong, which shows no more than the two directions.
void keep_largest_size(Plan& plan) {
  Bytes largest;
  for (const Case& c : plan.cases) largest = std::max(largest, c.bytes);
  std::erase_if(plan.cases, [&](const Case& c) { return c.bytes < largest || c.pattern == "ping_pong"; });
}

// Plans all pairs within nodes and all GPUs of each node together, with the largest message that fits; on several nodes
// also all GPUs together.
Plan plan_check(const Run& run) {
  const Machine& machine = run.machine;
  if (!machine.why_idle.empty()) return {};
  Options options = run.options;
  if (machine.backend_info().on_gpus() && !gpus_have_links(machine.topology)) options.max = largest_without_links;
  const auto plan_with = [&](std::vector<std::string> collectives, const std::string& group) {
    options.collectives = std::move(collectives);
    options.group = group;
    Plan plan = make_plan(options, job_facts(machine, run.seed), *machine.backend, machine.backend_name);
    keep_largest_size(plan);
    return plan;
  };
  Plan plan = plan_with(run.options.collectives, run.options.group);
  if (machine.topology.hosts.size() > 1) {
    Plan together = plan_with({"all_reduce"}, "world");
    std::ranges::move(together.cases, std::back_inserter(plan.cases));
    plan.max = std::max(plan.max, together.max);
    plan.memory_per_rank = std::max(plan.memory_per_rank, together.memory_per_rank);
  }
  // Operations of all GPUs show most in the shortest time; the pairs, each of which NCCL connects, take longest.
  std::ranges::stable_sort(plan.cases, {},
                           [](const Case& c) { return std::pair(c.collective->pairwise, c.pattern == "one_way"); });
  return plan;
}

// On one host, treats each GPU as a host, so that a failure to join names the GPU.
RanksOnHosts gpus_as_hosts(const Run& run) {
  const topo::Topology& topology = run.machine.topology;
  const topo::Host& host = topology.hosts.front();
  RanksOnHosts gpus{.host_of_rank = {}, .names = {}, .one_host = host.name};
  for (int rank = 0; rank < run.control.ranks(); ++rank) {
    gpus.host_of_rank.push_back(rank);
    const auto at = static_cast<std::size_t>(rank);
    const auto gpu = at < topology.gpu_of_rank.size()
                         ? std::ranges::find(host.gpu_devices, topology.gpu_of_rank[at], &topo::Gpu::uuid)
                         : host.gpu_devices.end();
    gpus.names.push_back(gpu == host.gpu_devices.end() ? fmt::format("rank {}", rank)
                                                       : fmt::format("GPU {}", gpu - host.gpu_devices.begin()));
  }
  return gpus;
}

}  // namespace

Seconds time_left(const Run& run) {
  return run.options.deadline ? Seconds{-since(*run.options.deadline).count} : run.options.limit;
}

Seconds time_for_gpus_alone() { return alone; }

Seconds time_for_host_copies(const NodeOfRank& host_of_rank) {
  return {turn_of_copies.count * turns_on_hosts(host_of_rank)};
}

Seconds time_under_load(std::size_t cases, const CostModel& cost) {
  constexpr double opening_and_trials = 2;  // times the samples
  return {static_cast<double>(cases) * (opening_and_trials * short_load.count + 2 * cost.communicator.count)};
}

Seconds time_for_cases(const Run& run) {
  return {time_left(run).count - time_for_gpus_alone().count -
          time_for_host_copies(run.machine.topology.host_of_rank).count};
}

Seconds time_for_parts(const Run& run) {
  // The last round has to end before the deadline, which cuts waits: the case would fail, though no NIC is at fault.
  constexpr double last_round_s = 1;
  return nics_come_first(run) ? time_for_cases(run) : Seconds{time_left(run).count - last_round_s};
}

bool agree_on_time_left(Run& run, Seconds needed) {
  return shared_by_leader(run.control, !run.options.deadline || time_left(run).count > needed.count);
}

bool agree_on_time_left(Run& run) { return shared_by_leader(run.control, has_time_left(run)); }

bool has_time_left(const Run& run) { return !run.options.deadline || Clock::now() < *run.options.deadline; }

// Findings about GPUs of the job, and of this node that the check skipped, on which no burn ran.
static std::vector<topo::Finding> burns_left_out(const Run& run, const reports::Report& report) {
  const OwnGpus* const own = run.request.own_gpus;
  std::vector<topo::Finding> findings;
  if (run.machine.why_idle.empty()) findings = reports::missing_burns(report);
  if (own && !own->skipped.empty())
    findings.push_back(reports::missing_burn(&report.topology.hosts.front(), own->skipped, ""));
  return findings;
}

void finish_check(Run& run) {
  const Machine& machine = run.machine;
  if (const OwnGpus* const own = run.request.own_gpus)
    for (const std::string& each : own->skipped) run.recorder.remark("skipped: " + each);
  if (!machine.why_idle.empty()) run.recorder.remark("nothing measured: " + machine.why_idle);
  if (run.options.burn.count > 0 && machine.code_of_idle == ExitCode::ok)
    run.recorder.add([&](ReportBuilder& builder) { builder.add_findings(burns_left_out(run, builder.report())); });
  ExitCode code = machine.code_of_idle;
  run.recorder.add([&](ReportBuilder& builder) {
    const reports::Report& report = builder.report();
    if (reports::ran_out_of_time(report)) code = ExitCode::unfinished;
    if (reports::never_joined(report)) code = ExitCode::environment;
    // A host that did not answer in time is a hang, not an environment error.
    if ((code == ExitCode::environment && !has_time_left(run)) ||
        std::ranges::any_of(report.findings, topo::is_of_silent_driver))
      code = ExitCode::unfinished;
  });
  run.code = worse(run.code, code);
}

namespace {

constexpr double longest_finishing_s = 60;

// The leader's seed, or that of the run that --resume continues.
std::uint64_t agree_on_seed(Run& run) {
  const Options& options = run.options;
  return from_leader(run.control, [&]() -> std::uint64_t {
    if (options.resume) run.earlier = find_earlier_run(options, run.request.arguments);
    if (run.earlier) return run.earlier->report.run.seed;
    return options.seed ? *options.seed : std::random_device{}() % 1'000'000;
  });
}

// Tuning is on by default where possible; only an explicit request is refused.
void refuse_tuning_without_nccl(const Options& options, const Machine& machine) {
  if (!options.requests_tuning() || machine.backend_info().tunable) return;
  throw EnvironmentError(fmt::format(
      "there is nothing to tune: settings are NCCL's, and the backend here is {}; NCCL takes a GPU for every rank (see "
      "`p5bench topo`) and a build with CUDA",
      machine.backend_name));
}

// Settings that were found beside other work than the run's own; "": there are none.
std::string remark_on_settings_beside(const Options& options) {
  const std::string found =
      value_or_empty(environment_of_nccl(current_environment(), read_file), tuner::beside_variable);
  std::vector<std::string> own;
  for (const Work& work : options.beside) own.push_back(name_of(work));
  if (found.empty() || tuner::beside_value(own) == found) return "";
  return fmt::format("the settings that are loaded were found for operations beside {} ({}), not for operations {}",
                     printable(found), tuner::beside_variable,
                     own.empty() ? std::string("alone") : "beside " + join(own, " and "));
}

// Broadcasts which cases of which launches an earlier run has finished, so that all ranks skip them.
std::set<CaseInLaunch> share_finished_cases(ControlPlane& control, const std::vector<KeptLine>& kept) {
  std::vector<CaseInLaunch> done;
  for (const KeptLine& line : kept)
    if (!line.beside) done.push_back(line.place);
  done = shared_by_leader(control, done);
  return {done.begin(), done.end()};
}

struct ClusterName {
  std::string name;
  std::string remark;  // "" or the reason that it is not the scheduler's
};

ClusterName name_cluster(const Options& options, const Machine& machine) {
  if (!options.cluster.empty()) return {options.cluster, ""};
  const bool sim = machine.backend_info().simulated();
  const std::string platform = machine.platform ? machine.platform->name : "hosts";
  ClusterName own{fmt::format("{}{}-{}n", sim ? "sim-" : "", platform, machine.topology.hosts.size()), ""};
  const char* scheduler = std::getenv("SLURM_CLUSTER_NAME");
  if (sim || !scheduler || !*scheduler) return own;
  const std::string objection = folder_name_error(scheduler);
  if (objection.empty()) return {scheduler, ""};
  // Users seldom choose their scheduler's name, so it is no reason to refuse the run.
  own.remark =
      fmt::format("SLURM_CLUSTER_NAME: {}; the run is kept as {}, --cluster names it otherwise", objection, own.name);
  return own;
}

reports::Report new_report(const Run& run) {
  const Machine& machine = run.machine;
  reports::Report report;
  report.provenance = machine.backend->provenance();
  report.topology = machine.topology;
  report.context = find_context();
  report.context.insert(machine.software.begin(), machine.software.end());
  report.run.version = version();
  for (const std::string& word : run.request.arguments) report.run.command.push_back(recorded_argument(word));
  report.run.subcommand = run.options.command;
  report.run.budget_s = run.options.budget.count;
  report.run.seed = run.seed;
  const ClusterName cluster = name_cluster(run.options, machine);
  report.run.cluster = cluster.name;
  report.run.ranks = static_cast<int>(machine.topology.host_of_rank.size());
  report.run.nodes = static_cast<int>(machine.topology.hosts.size());
  report.run.backend = machine.backend_name;
  report.run.launches = run.options.launches;
  report.run.remarks = run.plan.remarks;
  if (!cluster.remark.empty()) report.run.remarks.push_back(cluster.remark);
  report.arms = describe_arms(run.options);
  return report;
}

// Conditions under which figures are not judged.
reports::Comparability comparability_of(const Options& options, const Machine& machine,
                                        const std::vector<topo::Finding>& findings) {
  if (options.command == "ab") return {false, "arms are compared with each other, not with what the hardware can do"};
  if (!machine.why_not_judged.empty()) return {false, machine.why_not_judged};
  for (const topo::Finding& finding : findings) {
    // Ranks on GPUs mostly wait: shared hardware threads do not spoil their figures.
    if (finding.id == "host.oversubscribed" && !machine.backend_info().on_gpus())
      return {false, "ranks share hardware threads (" + finding.evidence + ")"};
    if (finding.id == "host.pretended") return {false, "nodes are pretended"};
  }
  return options.checks() ? reports::without_shared_gpus(machine.topology, machine.gpu_of_rank, findings)
                          : reports::Comparability{};
}

RunnerOptions runner_options(Run& run) {
  RunnerOptions runner;
  runner.timeout = run.options.timeout;
  runner.watchdog = &run.watchdog;
  runner.launches = run.options.launches;
  runner.seed = run.seed;
  runner.most_samples = count_variable("P5BENCH_MOST_SAMPLES").value_or(runner.most_samples);
  if (run.options.checks()) {
    runner.most_samples = 0;  // the minimum
    runner.in_order = true;
  }
  runner.objection = [&machine = run.machine](const Arm&, const std::vector<Environment>& of_ranks) {
    return launch_mismatch(of_ranks, machine);
  };
  runner.hosts = {.host_of_rank = run.machine.topology.host_of_rank, .names = {}};
  for (const topo::Host& host : run.machine.topology.hosts) runner.hosts.names.push_back(host.name);
  if (run.options.checks() && run.machine.topology.hosts.size() == 1 && run.control.ranks() > 1)
    runner.hosts = gpus_as_hosts(run);
  return runner;
}

// The reason that a check has too little time left for all of its parts.
std::string remark_on_slow_start(const Run& run) {
  const Options& options = run.options;
  const auto hosts = std::ranges::count_if(run.machine.topology.hosts, [](const topo::Host& host) {
    return std::ranges::find(host.gpu_devices, std::optional(false), &topo::Gpu::persistence) != host.gpu_devices.end();
  });
  return fmt::format(
      "{} of the limit of {} had passed when NVML, libfabric and CUDA had started, so that the pairs are left out, and "
      "perhaps more; a longer --limit measures more{}",
      to_text(Seconds{last_wait(options.limit).count - time_left(run).count}), to_text(options.limit),
      hosts == 0 ? ""
                 : fmt::format(", and GPUs start faster in persistence mode (nvidia-smi -pm 1), which is off on {}",
                               reports::counted(static_cast<std::size_t>(hosts), "host")));
}

void allocate_budget(Run& run) {
  const Options& options = run.options;
  if (options.checks()) {
    // Operations of all GPUs of a node decide whether it is fit, so they may take the time of the checks of each GPU
    // alone as well, and begin as long as the deadline does not cut a join short.
    const double for_pairs = time_for_cases(run).count;
    run.runner.budget = {std::max(for_pairs, time_left(run).count - join_limit(options).count)};
    run.runner.kept_from_pairs = {run.runner.budget.count - for_pairs};
    if (for_pairs <= 0) run.recorder.remark(remark_on_slow_start(run));
    return;
  }
  const double spent = since(run.start).count;
  run.runner.budget = {options.budget.count * (1 - finishing_share) - spent};
  if (may_tune(run) && run.machine.why_not_judged.empty() && options.soak.count == 0) {
    std::optional<Seconds> step;
    if (!options.job.empty()) step = predict_round(run.plan.cases.front(), run.machine.backend->cost());
    run.runner.budget.count -=
        reserve_tuning_time(tuning_mode(options), options.budget, time_to_start(run.machine), step).count;
  }
  if (may_need_retest(run)) run.runner.budget.count -= options.budget.count * share_of_parts;
  if (parts_can_be_measured(run)) run.runner.budget.count -= options.budget.count * share_of_parts;
  if (options.soak.count > 0)
    run.runner.soak = {std::max(
        options.soak.count - spent - std::min(options.soak.count * finishing_share, longest_finishing_s), 1e-3)};
}

// One for each rank; empty where one process hosts several.
std::vector<RankProcess> exchange_processes(ControlPlane& control) {
  if (control.participants() != control.ranks()) return {};
  std::error_code problem;
  const std::string id_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", problem).string();
  return agree(
      control,
      [&] {
        return RankProcess{::getpid(), id_namespace};
      },
      [](const std::vector<RankProcess>& all) { return all; });
}

Plan plan_cases(Run& run) try {
  const Machine& machine = run.machine;
  return run.options.checks()
             ? plan_check(run)
             : make_plan(run.options, job_facts(machine, run.seed), *machine.backend, machine.backend_name);
} catch (const EnvironmentError& problem) {  // the same on all ranks
  if (!run.options.checks()) throw;
  make_idle(run.machine, problem.what(), ExitCode::environment);
  return {};
}

}  // namespace

void find_machine_and_plan(Run& run) {
  run.seed = agree_on_seed(run);
  Machine& machine = run.machine = find_machine(run.control, run.options, run.seed, run.request.own_gpus);
  run.processes = exchange_processes(run.control);
  refuse_tuning_without_nccl(run.options, machine);
  if (const auto& wrap = run.request.fault_hooks.wrap_backend)
    machine.backend = wrap(std::move(machine.backend), run.control.participant());
  run.plan = plan_cases(run);
  if (const std::string remark = remark_on_settings_beside(run.options); !remark.empty())
    run.plan.remarks.push_back(remark);
  refuse_differing_tuning_files(run.control, run.options);
  run.weights = read_weights(run.control, run.options);
  run.kept_tables = read_kept_tables(run.control, run.options);
  run.arms = make_arms(run.control, run.options, machine);
}

void open_report(Run& run) {
  const Options& options = run.options;
  std::vector<KeptLine> kept;
  run.folder = from_leader(run.control, [&] {
    reports::Report report = new_report(run);
    run.cluster = report.run.cluster;
    std::optional<reports::Side> baseline;
    if (!options.baseline.empty()) {
      std::optional<reports::Run> earlier;
      if (run.earlier)
        earlier = reports::Run{.name = run.earlier->folder.string(), .report = run.earlier->report, .journal = {}};
      baseline = read_baseline(options.baseline, report, earlier ? &*earlier : nullptr);
    }
    if (run.earlier) kept = keep_results(*run.earlier, report, run.plan.cases, run.arms.all);
    const std::filesystem::path folder = run.recorder.open(options, std::move(report), std::move(baseline));
    if (run.earlier) {
      std::string journal;
      for (const KeptLine& line : kept) journal += line.text + "\n";
      run.recorder.add([&](ReportBuilder& built) { built.resume_from(*run.earlier, kept, run.plan.cases.size()); });
      run.recorder.add_file("measurements.jsonl", journal);
      run.recorder.write_report();
    }
    // Only now does --resume find this run instead of the earlier one, whose results it has.
    run.recorder.become_latest();
    return folder.string();
  });
  run.runner = runner_options(run);
  if (options.resume) run.runner.done = share_finished_cases(run.control, kept);
  run.opened = true;
}

void check_reachability_of_hosts(Run& run) {
  FabricCheck check = check_fabric(run.control, run.options, run.machine);
  if (check.cut) run.runner.skip_all_because = "hosts do not reach each other: see the findings";
  for (const topo::Finding& each : check.findings)
    if (topo::condemns(each)) print_error(fmt::format("{}; {}", each.evidence, each.action));
  std::ranges::move(check.findings, std::back_inserter(run.machine.findings));
}

void evaluate_machine(Run& run) {
  topo::Limits limits = find_limits(run.control, run.machine);
  std::vector<topo::Finding> findings = preflight_findings(run.control, run.options, run.machine);
  for (const topo::Finding& each : findings)
    if (each.id == without_launcher) print_error(fmt::format("{}; {}", each.evidence, each.action));
  reports::Comparability comparability = comparability_of(run.options, run.machine, findings);
  run.recorder.add([&](ReportBuilder& report) {
    report.begin(std::move(limits), std::move(findings), std::move(comparability));
    report.set_plan(run.plan.cases);
  });
  run.recorder.write_report();
  if (run.control.is_leader() && !run.options.out.empty()) {
    run.recorder.add_file(
        "topology.json",
        to_json(run.machine.topology).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    if (!run.machine.backend_info().simulated()) run.recorder.add_file("topology.xml", topo::hwloc_xml());
  }
  allocate_budget(run);
}

}  // namespace p5
