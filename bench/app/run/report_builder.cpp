#include "bench/app/run/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "bench/base/names.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/launches.hpp"
#include "bench/model/backends.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nodes.hpp"
#include "reports/part_names.hpp"

namespace p5 {

namespace {

// The journal keeps the samples; the report needs only their summary.
void drop_samples(Measurement& m) {
  for (std::optional<Series>* series : {&m.latency, &m.throughput})
    if (*series) std::vector<double>().swap((*series)->samples);
  if (m.concurrency)
    for_each_series(*m.concurrency, [](Series& series) { std::vector<double>().swap(series.samples); });
  // A group of the whole job adds no information and may be large.
  if (!m.measured_case.collective->pairwise) m.slowest_group.clear();
  if (m.groups.size() == 1 && !m.measured_case.collective->pairwise) m.groups.clear();
}

// In the remark of a run that continues another one.
constexpr std::string_view unknown_events = "; events of GPUs and NICs during these are not known";

// True if the run's observations of GPUs and NICs are in the report.
bool has_observations(const reports::Report& report) {
  return !report.local_activity.empty() || !report.load_activity.empty() ||
         std::ranges::any_of(report.results, [](const auto& each) { return each.during.has_value(); });
}

// True if it has them, and did not continue a run that had none.
bool knows_events(const reports::Report& report) {
  const bool lacks = std::ranges::any_of(
      report.run.remarks, [](const std::string& remark) { return remark.find(unknown_events) != std::string::npos; });
  return !lacks && has_observations(report);
}

bool is_watched(const reports::Report& report) {
  return !report.run.backend.empty() && find_backend(report.run.backend).on_gpus();
}

}  // namespace

ReportBuilder::ReportBuilder(const Options& options, reports::Report report)
    : wants_verdict_(options.command == "run"), only_tunes_(options.command == "tune"), report_(std::move(report)) {
  if (options.soak.count == 0) planned_launches_ = options.launches;
  report_.run.started = utc_now();
}

void ReportBuilder::resume_from(const EarlierRun& earlier, const std::vector<KeptLine>& kept, std::size_t cases) {
  const std::string how =
      earlier.report.run.ended_by.empty() ? "" : fmt::format(", which was ended: {}", earlier.report.run.ended_by);
  remark(fmt::format("{}{} ({}){}; {} results are of that run{}", reports::continues_run, earlier.report.run.started,
                     earlier.folder.string(), how, kept.size(),
                     !kept.empty() && is_watched(report_) && !knows_events(earlier.report) ? unknown_events : ""));
  std::map<std::pair<std::size_t, int>, std::size_t> of_launch;  // by arm and launch
  std::vector<Measurement> beside;
  for (const KeptLine& line : kept) {
    if (line.beside) {
      beside.push_back(line.result.measurement);
      continue;
    }
    add(line.place.arm * cases + line.place.at, line.result.measurement);
    ++of_launch[{line.place.arm, line.place.launch}];
  }
  std::vector<std::vector<std::string>>& nics = report_.topology.nics_of_rank;
  if (!beside.empty()) (void)add_unplanned(nics.empty() ? earlier.report.topology.nics_of_rank : nics, beside);
  // Launches that are not complete are launched again, and counted then.
  for (const auto& [launch, lines] : of_launch)
    if (lines == cases && launch.first < report_.arms.size()) ++report_.arms[launch.first].launches;
  // The state of the machine is found anew; events are not seen again, and wrong data or a failure may not be.
  const std::vector<topo::FindingKind> events = topo::watch_kinds();
  constexpr std::string_view whose = " (in the run that this one continues)";
  for (topo::Finding each : earlier.report.findings) {
    const bool is_event = std::ranges::find(events, each.id, &topo::FindingKind::id) != events.end();
    if (!is_event && each.id != reports::check_failed && !reports::tells_wrong_data(each)) continue;
    if (!is_event && !each.evidence.ends_with(whose)) each.evidence += whose;
    earlier_findings_.push_back(std::move(each));
  }
  if (earlier.report.tuning)
    std::ranges::copy_if(
        earlier.report.tuning->failures, std::back_inserter(earlier_failures_),
        [](const reports::TuningFailure& each) { return each.wrong_data && each.setting == "default"; });
  if (!earlier_failures_.empty()) {  // until the tuning of this run, which it may not reach
    reports::Tuning known;
    known.mode = earlier.report.tuning->mode;
    known.outcome = "refused";
    known.because = "NCCL's own settings gave wrong data in the run that this one continues";
    known.nccl_version = earlier.report.tuning->nccl_version;
    known.ranks = earlier.report.tuning->ranks;
    known.nodes = earlier.report.tuning->nodes;
    add_tuning(std::move(known));
  }
  for (const reports::ArmInfo& arm : earlier.report.arms)
    if (reports::ArmInfo* const info = find_arm(arm.name)) info->context = arm.context, info->problem = arm.problem;
}

void ReportBuilder::begin(topo::Limits limits, std::vector<topo::Finding> findings,
                          reports::Comparability comparability) {
  report_.limits = std::move(limits);
  report_.findings = std::move(findings);
  report_.findings.insert(report_.findings.end(), earlier_findings_.begin(), earlier_findings_.end());
  fitness_ = std::move(comparability);
  has_results_ = !report_.results.empty();
  for (reports::Result& result : report_.results) result.verdict = judge(result.measurement);
}

void ReportBuilder::set_plan(std::span<const Case> cases) {
  report_.traffic = reports::describe_traffic(cases, report_.limits, report_.topology);
  for (const Case& each : cases) planned_.emplace_back(each.collective->name);
}

// Adds a remark on the cases of the plan that --resume measures. For a run that ended early, with its launches
// combined.
void ReportBuilder::remark_on_unmeasured() {
  if (only_tunes_) return;
  const std::size_t arms = std::max<std::size_t>(report_.arms.size(), 1), all = arms * planned_.size();
  std::map<std::string, std::size_t> left;  // number of cases, by collective
  std::size_t count = 0;
  for (std::size_t number = 0; number < all; ++number) {
    const auto place = launches_.find(number);
    if (place != launches_.end() && can_be_kept(report_.results[place->second.at].measurement, report_.run.ended_by))
      continue;
    ++left[planned_[number % planned_.size()]];
    ++count;
  }
  if (count == 0) return;
  std::vector<std::string> names;
  for (const auto& [name, its] : left) names.push_back(fmt::format("{} of {}", its, name));
  remark(fmt::format("{} of the {} cases of the plan were not measured: {}", count, all, fmt::join(names, ", ")));
}

void ReportBuilder::repetition_started(const Case& c, const RunProgress& standing) {
  running_ = c;
  progress_ = standing;
  if (standing.several) launch_started_.try_emplace({c.arm, standing.launch}, utc_now());
}

void ReportBuilder::repetition_finished(const Measurement& so_far) {
  running_.reset();
  unfinished_.insert_or_assign(progress_.number, so_far);
}

reports::Result ReportBuilder::case_finished(const Measurement& m) {
  running_.reset();
  unfinished_.erase(progress_.number);
  has_results_ = true;
  return add(progress_.number, m);
}

void ReportBuilder::launch_started(const Arm& arm, const std::vector<Environment>& of_ranks) {
  reports::ArmInfo* const info = find_arm(arm.name);
  if (!info) return;
  ++info->launches;
  info->context = of_ranks.front();
  info->context.erase("gpu.uuid");
}

void ReportBuilder::launch_failed(const Arm& arm, const std::string& why) {
  if (reports::ArmInfo* const info = find_arm(arm.name)) info->problem = why;
}

void ReportBuilder::add_findings(std::vector<topo::Finding> findings) {
  std::ranges::move(findings, std::back_inserter(report_.findings));
  std::ranges::stable_sort(report_.findings, {}, &topo::Finding::severity);
}

std::vector<topo::Finding> ReportBuilder::slow_gpus(const std::vector<LocalChecks>& of_ranks) const {
  reports::Report of_gpus;
  of_gpus.topology = report_.topology;
  for (const LocalChecks& each : of_ranks) {
    of_gpus.local_checks.push_back(each.figures);
    of_gpus.compute_checks.push_back(each.compute);
  }
  std::vector<topo::Finding> findings = reports::slow_alone(of_gpus);
  std::ranges::move(reports::slow_under_load(of_gpus), std::back_inserter(findings));
  return findings;
}

void ReportBuilder::add_programs(const std::vector<std::vector<reports::ProgramsOnGpu>>& by_host) {
  combine_launches();
  const std::string evidence = reports::add_programs_that_came(report_, by_host);
  if (evidence.empty() || !fitness_.comparable) return;
  fitness_ = reports::without_shared_gpus(report_.topology, report_.topology.gpu_of_rank, report_.findings);
  for (reports::Result& result : report_.results) result.verdict = judge(result.measurement);
  // Those that remain, and others that were hidden, are found anew by diagnose().
  const auto is_shared = [&](std::size_t host) { return fitness_.shared_hosts.contains(static_cast<int>(host)); };
  const auto is_on_shared = [&](const std::optional<reports::Part>& part) {
    return !part || std::ranges::any_of(reports::hosts_of(*part, report_.topology), is_shared);
  };
  std::erase_if(report_.suspects, [&](const reports::Suspect& each) {
    return each.fault == "slow" && is_on_shared(reports::part_of(each));
  });
  std::erase_if(report_.open_questions, [&](const reports::OpenQuestion& each) {
    return each.fault == "slow" && std::ranges::any_of(each.candidates, [&](const std::string& candidate) {
             return is_on_shared(reports::part_named(candidate));
           });
  });
}

void ReportBuilder::add_local_checks(std::vector<LocalChecks> of_ranks) {
  if (of_ranks.empty() || of_ranks.front().figures.empty()) return;
  for (LocalChecks& each : of_ranks) {
    report_.local_checks.push_back(std::move(each.figures));
    report_.compute_checks.push_back(std::move(each.compute));
  }
  add_findings(reports::slow_alone(report_));
  add_findings(reports::slow_under_load(report_));
  add_findings(reports::corruptions(report_));
}

// Empty if the GPUs were not watched.
static std::vector<reports::LocalActivity> activity_of_ranks(const reports::Report& report,
                                                             const std::vector<topo::HostActivity>& hosts) {
  const topo::Topology& topology = report.topology;
  std::vector<reports::LocalActivity> of_ranks(report.local_checks.size());
  bool seen = false;
  for (std::size_t rank = 0; rank < std::min(of_ranks.size(), topology.gpu_of_rank.size()); ++rank) {
    const topo::Host& host = topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
    const auto its = std::ranges::find(hosts, host.name, &topo::HostActivity::host);
    if (its == hosts.end()) continue;
    for (const topo::GpuActivity& gpu : its->gpus) {
      if (host.gpu_devices.at(static_cast<std::size_t>(gpu.gpu)).uuid != topology.gpu_of_rank[rank]) continue;
      of_ranks[rank] = {.seconds = gpu.seconds,
                        .sm_clock_min_mhz = gpu.sm_clock_min_mhz,
                        .sm_clock_median_mhz = gpu.sm_clock_median_mhz,
                        .temperature_max_c = gpu.temperature_max_c,
                        .power_max_w = gpu.power_max_w,
                        .throttle_reasons = topo::throttle_reasons(gpu.throttle_mask),
                        .corrected = gpu.corrected,
                        .uncorrected = gpu.uncorrected,
                        .xids = {}};
      for (const topo::XidEvent& xid : gpu.xids) of_ranks[rank].xids.push_back(xid.code);
      seen = seen || its->seconds > 0;
    }
  }
  if (!seen) of_ranks.clear();
  return of_ranks;
}

void ReportBuilder::add_local_activity(const std::vector<topo::HostActivity>& alone,
                                       const std::vector<topo::HostActivity>& loaded) {
  report_.local_activity = activity_of_ranks(report_, alone);
  report_.load_activity = activity_of_ranks(report_, loaded);
}

void ReportBuilder::add_gdr(std::vector<reports::GdrPath> paths) {
  report_.gdr = std::move(paths);
  add_findings(reports::slow_paths(report_.gdr));
}

std::vector<reports::Result> ReportBuilder::add_unplanned(std::vector<std::vector<std::string>> nics_of_rank,
                                                          const std::vector<Measurement>& measured) {
  report_.topology.nics_of_rank = std::move(nics_of_rank);
  std::vector<reports::Result> lines;
  for (const Measurement& m : measured) {
    lines.push_back({m, judge(m)});
    report_.results.push_back(lines.back());
    drop_samples(report_.results.back().measurement);
  }
  return lines;
}

std::vector<reports::RetestCase> ReportBuilder::to_retest() {
  combine_launches();
  return fitness_.comparable ? reports::to_retest(report_) : std::vector<reports::RetestCase>{};
}

void ReportBuilder::add_waiting(const std::vector<std::optional<double>>& shares) {
  waiting_ = reports::waiting_of_nodes(report_.topology, shares);
  add_findings(reports::busy_cores(report_.topology, shares));
}

void ReportBuilder::add_watch(const std::vector<std::vector<topo::HostActivity>>& by_case,
                              const std::vector<std::size_t>& numbers, std::uint64_t least_sent) {
  if (by_case.empty()) return;
  const auto of_job = [&](const std::vector<topo::HostActivity>& hosts) {
    return topo::activity_of_job(report_.topology, hosts);
  };
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (const topo::CaseWatch during = topo::over_hosts(of_job(by_case[i + 1])); during.seconds > 0)
      report_.results[launches_.at(numbers[i]).at].during = during;
  add_findings(topo::watch_findings(report_.topology, of_job(by_case.front()), least_sent));
  std::vector<std::string> hosts;
  for (const topo::HostActivity& whole : by_case.front())
    if (topo::ended_early(whole))
      hosts.push_back(fmt::format("{} (for {:.0f} of {:.0f} s)", whole.host, whole.watched_s, whole.measured_s));
  constexpr std::size_t most = 4;
  const std::size_t more = hosts.size() - std::min(hosts.size(), most);
  if (more > 0) hosts.resize(most), hosts.push_back(fmt::format("{} more", more));
  if (!hosts.empty())
    remark(
        fmt::format("GPUs and NICs were not watched until the last case, so Xids, memory errors and drops after that "
                    "are not known: {}",
                    join(hosts)));
}

namespace {

// The first fault that makes the fastest settings of this machine worthless for a sound one; "" without any. A slow
// part is none: on noisy hosts some part often seems slow, and settings are compared on the same parts.
std::string fault_before_tuning(const reports::Report& report) {
  for (const reports::Result& result : report.results) {
    const Measurement& m = result.measurement;
    if (m.outcome == Outcome::failed || m.wrong_elements > 0)
      return fmt::format("{} {}", describe(m.measured_case), m.wrong_elements > 0 ? "gave wrong data" : "failed");
  }
  const auto found = [&](const auto& matches) -> const topo::Finding* {
    const auto its = std::ranges::find_if(report.findings, matches);
    return its == report.findings.end() ? nullptr : &*its;
  };
  if (const topo::Finding* const failed =
          found([](const topo::Finding& finding) { return finding.id == reports::check_failed; }))
    return fmt::format("a GPU failed alone ({})", failed->evidence);
  if (const topo::Finding* const wrong = found(reports::tells_wrong_data))
    return fmt::format("there was wrong data ({})", wrong->evidence);
  if (const topo::Finding* const fault = found(topo::condemns))
    return fmt::format("there is a fault of the machine ({}: {})", fault->id, fault->evidence);
  const auto seems = [](const std::string& parts, const std::string& fault) {
    return fmt::format("{} seems {}", parts, fault == "wrong" ? "to corrupt data" : fault);
  };
  for (const reports::Suspect& suspect : report.suspects)
    if (suspect.fault != "slow") return seems(suspect.kind + " " + suspect.name, suspect.fault);
  for (const reports::OpenQuestion& question : report.open_questions)
    if (question.fault != "slow") return seems(join(question.candidates, " or "), question.fault);
  return "";
}

}  // namespace

std::string ReportBuilder::reason_not_to_tune() {
  diagnose();
  reports::withdraw_questions_of_whole_hosts(report_);
  const std::string fault = earlier_failures_.empty()
                                ? fault_before_tuning(report_)
                                : "NCCL's own settings gave wrong data in the run that this one continues";
  return fault.empty() ? "" : fault + ", and settings are not tuned on a faulty machine";
}

std::vector<reports::Result> ReportBuilder::fail_unfinished(const std::string& why) {
  std::vector<reports::Result> lines;
  if (running_) unfinished_.try_emplace(progress_.number).first->second.measured_case = *running_;
  for (auto& [number, m] : unfinished_) {
    // A result of fewer repetitions than planned is still valid.
    const bool stands = m.throughput && is_repeated(m.measured_case) && !(running_ && number == progress_.number);
    const bool interrupted = !stands && m.outcome != Outcome::failed;
    if (interrupted) {
      m.because = why;
      m.outcome = Outcome::failed;
    }
    if (progress_.several) m.launch = progress_.launch;
    const bool is_left_out = interrupted && m.launch && m.wrong_elements == 0;
    lines.push_back(add(number, m, is_left_out));
  }
  return lines;
}

const std::vector<reports::Suspect>& ReportBuilder::diagnose() {
  combine_launches();
  if (fitness_.comparable) {
    reports::Diagnosis found = reports::diagnose(report_, retested_, waiting_);
    report_.suspects = std::move(found.suspects);
    report_.open_questions = std::move(found.questions);
    slow_while_waiting_ = std::move(found.slow_while_waiting);
  }
  return report_.suspects;
}

bool ReportBuilder::seems_slow() {
  diagnose();
  const auto is_slow = [](const auto& each) { return each.fault == "slow"; };
  return std::ranges::any_of(report_.suspects, is_slow) || std::ranges::any_of(report_.open_questions, is_slow) ||
         std::ranges::any_of(report_.results,
                             [](const reports::Result& each) { return each.verdict.grade == reports::Grade::slow; });
}

void ReportBuilder::close(const std::string& ended_by, ExitCode code) {
  report_.status = ended_by.empty() ? "complete" : "partial";
  report_.run.ended_by = ended_by;
  report_.run.ended = utc_now();
  combine_launches();
  if (!ended_by.empty()) remark_on_unmeasured();
  // GPUs and NICs are evaluated after the last case.
  if (!ended_by.empty() && has_results_ && is_watched(report_) && !has_observations(report_))
    remark(
        "what GPUs and NICs reported while measuring (Xids, memory errors, clocks, drops) was not evaluated: see the "
        "hosts' kernel logs");
  std::vector<const CombinedLaunches*> cases;
  for (const auto& [number, launches] : launches_) cases.push_back(&launches.together);
  add_findings(reports::slow_launches(cases, launch_started_));
  const std::map<int, std::size_t> withdrawn =
      reports::withdraw_slow_by_waiting(report_, reports::busy_nodes(waiting_));
  diagnose();
  reports::withdraw_questions_of_whole_hosts(report_);
  reports::withdraw_explained_corruptions(report_);
  for (const auto& [node, count] : withdrawn)
    slow_while_waiting_[node].push_back(reports::counted(count, "measurement"));
  reports::explain_slow_parts(report_.findings, report_.topology, slow_while_waiting_);
  if (fitness_.comparable) add_findings(reports::below_published(report_));
  reports::withdraw_sampled_pairs(report_.results);
  report_.grade = reports::overall(report_);
  const bool tuned_nothing = only_tunes_ && report_.tuning && report_.tuning->outcome == "refused";
  report_.exit_code = reports::exit_code(report_, wants_verdict_ || tuned_nothing);
  add_exit_code(ended_by.empty() ? ExitCode::ok : code);
}

void ReportBuilder::end_incomplete(const std::string& why) {
  report_.status = "partial";
  report_.run.ended_by = why;
  add_exit_code(ExitCode::unfinished);
}

void ReportBuilder::add_exit_code(ExitCode code) {
  report_.exit_code = worse(report_.exit_code, code);
  report_.decision = reports::decide(report_);
}

void ReportBuilder::apply_check_exit_code() {
  report_.exit_code = reports::check_exit_code(report_, report_.exit_code);
  report_.decision = reports::decide(report_);
}

void ReportBuilder::add_comparison(const std::string& headline) {
  if (!headline.empty()) report_.comparison = headline;
}

void ReportBuilder::apply_baseline_exit_code(ExitCode code) { reports::add_baseline_answer("", code, report_); }

const reports::Report& ReportBuilder::report() {
  combine_launches();
  report_.run.wall_s = since(started_).count;
  // A run that is killed leaves the report as it is now.
  if (report_.run.ended.empty()) {
    report_.grade = reports::overall(report_);
    report_.exit_code = reports::exit_code(report_);
    add_exit_code(ExitCode::unfinished);
  }
  return report_;
}

std::vector<reports::Result> ReportBuilder::launches() const {
  std::vector<reports::Result> all;
  for (const auto& [number, launches] : launches_)
    for (const Measurement& m : launches.all) all.push_back({m, {}});
  return all;
}

reports::Result ReportBuilder::add(std::size_t number, const Measurement& m, bool interrupted) {
  reports::Result line{m, judge(m)};
  // A soak is never resumed, and its journal is long.
  if (!planned_launches_)
    for (GroupResult& each : line.measurement.groups) each.samples.clear();
  const auto [place, first] =
      launches_.try_emplace(number, Launches{.at = report_.results.size(), .together = {}, .all = {}});
  if (first) report_.results.emplace_back();
  reports::Result& result = report_.results[place->second.at];
  if (m.launch && !interrupted) {
    place->second.together.add(m);
    place->second.combined = false;
    if (!report_.arms.empty()) place->second.all.push_back(m);
    if (first) result.measurement.measured_case = m.measured_case;
  } else if (place->second.together.count() == 0) {
    result = line;
    result.measurement.launch.reset();
    drop_samples(result.measurement);
  }
  return line;
}

// Combines the launches of each case.
void ReportBuilder::combine_launches() {
  for (auto& [number, launches] : launches_) {
    if (launches.combined) continue;
    const int planned = planned_launches_.value_or(launches.together.count());
    reports::Result& result = report_.results[launches.at];
    result.measurement = launches.together.combined(planned);
    result.verdict = judge(result.measurement);
    drop_samples(result.measurement);
    launches.combined = true;
    report_.run.launches = std::max(report_.run.launches, planned);
  }
}

reports::Verdict ReportBuilder::judge(const Measurement& m) const {
  return reports::judge(m, report_.limits, report_.topology, fitness_);
}

reports::ArmInfo* ReportBuilder::find_arm(const std::string& name) {
  const auto found = std::ranges::find(report_.arms, name, &reports::ArmInfo::name);
  return found == report_.arms.end() ? nullptr : &*found;
}

}  // namespace p5
