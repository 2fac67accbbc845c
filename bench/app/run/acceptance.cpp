// A run: the phases that measure, its early ends, and the order of all phases.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/worker_process.hpp"
#include "bench/base/console.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/measure/load.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"

namespace p5 {

// ---- The phases that measure and tune: the cases, each GPU alone, and the tuning.

namespace {

void start_watching(Run& run) { run.case_monitor.emplace(run.control, run.machine); }

void measure(Run& run) {
  Observer& observer = run.case_monitor ? run.case_monitor->around(run.recorder) : run.recorder;
  try {
    run_launches(run.control, run.arms.all, run.plan.cases, run.runner, observer);
  } catch (const JobLost&) {
    throw;
  } catch (const std::exception& problem) {
    // Other ranks may wait for this one in the operation under test, where no message reaches them.
    if (run.machine.backend->recovers()) throw;
    const bool of_machine = dynamic_cast<const EnvironmentError*>(&problem) != nullptr;
    throw JobLost(describe(problem), of_machine ? ExitCode::environment : ExitCode::unfinished);
  }
  look_for_programs(run, {});
}

void report_watch_findings(Run& run) { run.case_monitor->finish(run.control, run.machine, run.recorder); }

// True for a resumed run that found all cases of all launches finished.
bool all_was_measured_before(const Run& run) {
  const std::size_t all = run.arms.all.size() * static_cast<std::size_t>(run.options.launches) * run.plan.cases.size();
  return all > 0 && run.runner.done.size() >= all;
}

// True if the checks of each GPU can run. They run in the workers that measured the last case; if that case failed they
// are gone, and a hung GPU would hang again. Where no case was left to measure, workers start for the checks.
bool gpus_can_be_checked(const Run& run) {
  return (run.options.command == "run" || run.options.checks()) &&
         run.machine.backend_info().parts == BackendInfo::Parts::gpus && run.machine.why_not_judged.empty() &&
         (run.arms.all.front().backend->joined() || all_was_measured_before(run));
}

// Time by which the cases under load may be prolonged, at most `wanted`. They do not run if it is less than 0: if they
// do not fit, if a case failed, or if a rank lacks rates of correct matrix products alone.
Seconds time_that_fits(Run& run, const std::vector<LocalChecks>& of_ranks, std::size_t cases, const CostModel& cost,
                       Seconds wanted) {
  bool failed = false;
  run.recorder.add([&](ReportBuilder& builder) {
    failed = std::ranges::any_of(builder.report().results, [](const reports::Result& each) {
      return each.measurement.outcome == Outcome::failed;
    });
  });
  const auto has_products = [](const LocalChecks& each) {
    return each.compute.not_measured.empty() && each.compute.corruption.empty();
  };
  // The budget of a soak is that of each of its launches.
  const double spent = run.options.soak.count > 0 ? 0 : since(run.start).count;
  const double left = run.options.deadline ? -since(*run.options.deadline).count
                                           : run.options.budget.count * (1 - finishing_share) - spent;
  const double rest = left - time_under_load(cases, cost).count;
  const bool can_be_measured = !failed && std::ranges::all_of(of_ranks, has_products);
  return {shared_by_leader(run.control, can_be_measured ? std::min(wanted.count, rest) : -1)};
}

void keep_better(std::vector<LocalChecks>& of_ranks, const std::vector<LocalChecks>& more) {
  for (std::size_t rank = 0; rank < std::min(of_ranks.size(), more.size()); ++rank)
    reports::keep_better(of_ranks[rank], more[rank]);
}

// Results of the checks of each GPU, also those of an attempt that failed later.
struct FoundAlone {
  std::vector<LocalChecks> of_ranks;
  // Each GPU was checked alone; and under load; since then, a device hung. The same on all ranks.
  bool alone = false, complete = false, hung = false;
};

// A report has the figures of the checks alone.
void refuse_unknown_figures(Run& run, const std::vector<LocalChecks>& of_ranks) {
  const std::vector<std::string> unknown = from_leader(run.control, [&] {
    std::vector<std::string> names;
    for (const LocalChecks& each : of_ranks) names.push_back(reports::unknown_figure(each.figures));
    return names;
  });
  const auto first = std::ranges::find_if_not(unknown, &std::string::empty);
  if (first == unknown.end()) return;
  throw PhaseFailed{
      Phase::sample, static_cast<int>(first - unknown.begin()),
      fmt::format("its worker's reply is not understood: it has a figure {}, which is of no check", in_quotes(*first))};
}

// If the copies fail, what was measured before them is kept, and of the copies nothing: figures of some ranks only
// would condemn the others.
void measure_alone(Run& run, Backend& backend, Seconds burn, FoundAlone& found) {
  const NodeOfRank& host_of_rank = run.machine.topology.host_of_rank;
  const Seconds from = run.case_monitor ? run.case_monitor->now() : Seconds{0};
  std::vector<LocalChecks> more = check_locally(run.control, backend, burn);
  refuse_unknown_figures(run, more);
  if (found.of_ranks.empty())
    found.of_ranks = more;
  else
    keep_better(found.of_ranks, more);
  found.alone = true;
  if (agree_on_time_left(run, time_for_host_copies(host_of_rank))) {
    check_host_copies(run.control, backend, host_of_rank, more);
    refuse_unknown_figures(run, more);
    keep_better(found.of_ranks, more);
  }
  if (run.case_monitor) run.case_monitor->checked_alone(from, run.case_monitor->now());
}

// If it fails, the wrong results until then are kept.
void measure_under_load(Run& run, Backend& backend, Seconds time, FoundAlone& found) {
  const std::vector<LoadCase> cases = load_cases(run.machine.backend_name, job_facts(run.machine, run.seed));
  time = time_that_fits(run, found.of_ranks, cases.size(), backend.cost(), time);
  if (time.count < 0) return;
  const Seconds from = run.case_monitor ? run.case_monitor->now() : Seconds{0};
  std::vector<LocalChecks> loaded;
  try {
    check_under_load(run.control, backend, cases, time, loaded);
  } catch (const PhaseFailed&) {
    keep_better(found.of_ranks, loaded);
    throw;
  }
  keep_better(found.of_ranks, loaded);
  if (run.case_monitor) run.case_monitor->checked_under_load(from, run.case_monitor->now());
}

// A figure of a healthy GPU is sometimes too low, because another job uses the host or because matrix products and
// messages overlap unfavourably; it is never too high. If a GPU is slower than the others alone or under load, all GPUs
// are therefore measured once more in that way, under load for longer, and the better figures count. It is not begun
// where the time left is too short for it.
void measure_suspects_again(Run& run, Backend& backend, FoundAlone& found) {
  constexpr Seconds longer{4};
  if (count_variable("P5BENCH_MOST_SAMPLES")) return;  // tests of right data need no rate
  bool alone = false, under_load = false;
  run.recorder.add([&](ReportBuilder& report) {
    for (const topo::Finding& finding : report.slow_gpus(found.of_ranks))
      (finding.id == reports::slow_under_load_id ? under_load : alone) = true;
  });
  const Seconds needed{time_for_gpus_alone().count + time_for_host_copies(run.machine.topology.host_of_rank).count};
  if (shared_by_leader(run.control, alone) && agree_on_time_left(run, needed)) measure_alone(run, backend, {0}, found);
  if (shared_by_leader(run.control, under_load)) measure_under_load(run, backend, longer, found);
}

// Tells the hosts of ranks that did not answer, and why, which are not finished by it, and not condemned.
void tell_unanswered(Run& run, const std::map<int, std::string>& why_of_rank) {
  run.recorder.add([&](ReportBuilder& built) {
    for (const auto& [rank, why] : why_of_rank)
      built.add_findings({reports::unanswered_check(built.report(), rank, why)});
  });
}

// The rank that failed, at the leader; else those that did not answer, of which none waits for another while each GPU
// is checked alone. If no rank answered, as where ranks wait for each other under load, those alone stand out whose
// device hangs. With the failure of each.
std::map<int, std::string> unanswered_in(const Run& run, const PhaseFailed& failed) {
  if (failed.rank) return {{*failed.rank, failed.what}};
  std::map<int, std::string> ranks = failed.hung;
  if (std::cmp_equal(failed.stalled.size() + failed.waiting.size(), run.control.ranks())) return ranks;
  for (const std::vector<int>* const all : {&failed.stalled, &failed.waiting})
    for (const int rank : *all) ranks.try_emplace(rank, failed.what);
  return ranks;
}

// Tells each rank with the first failure that is about it.
void tell_failed_checks(Run& run, const std::vector<PhaseFailed>& failures) {
  std::map<int, std::string> why_of_rank;
  for (const PhaseFailed& failed : failures)
    for (const auto& [rank, what] : unanswered_in(run, failed))
      why_of_rank.try_emplace(rank, "its check alone was not complete: " + what);
  tell_unanswered(run, why_of_rank);
}

// Returns the failure, if any. A step that the deadline cuts short after each GPU was checked alone, without a burn, is
// as if it had been left out for lack of time, unless it failed before, or a device did not become idle afterwards:
// what lacked time ends when it is aborted, and what hangs does not.
std::optional<PhaseFailed> try_gpus_alone(Run& run, Backend& backend, FoundAlone& found) {
  const bool failed_later = found.alone;
  const Seconds half{run.options.burn.count / 2};  // of a burn: products alone; the other half is under load
  try {
    if (!backend.joined()) join_ranks(run.control, backend);
    measure_alone(run, backend, half, found);
    measure_under_load(run, backend, half, found);
    found.complete = true;
    found.hung = false;
    if (run.options.burn.count == 0) measure_suspects_again(run, backend, found);
    return std::nullopt;
  } catch (const PhaseFailed& failed) {
    backend.abandon();
    run.control.barrier();  // all ranks' workers have ended before new ones start
    const bool hangs = shared_by_leader(run.control, !failed.hung.empty());
    found.hung = found.hung || hangs;
    if (!failed.cut_short || hangs || !found.alone || failed_later || run.options.burn.count > 0) return failed;
    run.recorder.remark(
        fmt::format("what follows the check of each GPU alone was not complete within the limit: {}", failed.what));
    return std::nullopt;
  }
}

// Other jobs may use the node of a check at the same time. A failed check is therefore repeated in fresh workers, and
// only a second failure at the same rank within the time is the GPU's fault. What was found before a failure counts all
// the same. A burn is not repeated, because it exists to provoke failures that are rare. Its waits for a GPU may
// therefore end later than its time, by one timeout, as far as half of the time to report allows. A wait that is cut
// short all the same tells nothing about the GPU.
void check_gpus_alone(Run& run) {
  // A burn comes on top of the limit.
  if (run.options.burn.count == 0 && !agree_on_time_left(run, time_for_gpus_alone())) {
    run.recorder.remark("the GPUs were not checked alone: the time left is too short; a longer --limit leaves more");
    return;
  }
  if (run.options.deadline) run.options.deadline = later(*run.options.deadline, run.options.burn);
  Backend& backend = *run.arms.all.front().backend;
  if (run.options.burn.count > 0) {
    backend.postpone_limit(
        {run.options.burn.count + std::min(run.options.timeout.count, time_to_report(run.options.limit).count / 2)});
    // A rank whose products are wrong or left out waits for the others, which burn for the whole time.
    run.control.begin_step(run.phase.load(), {longest_wait(run).count + run.options.burn.count});
  }
  FoundAlone found;
  std::optional<PhaseFailed> first = try_gpus_alone(run, backend, found), problem = first;
  if (problem && run.options.checks() && run.options.burn.count == 0) {
    const bool repeated = agree_on_time_left(run);
    if (repeated) problem = try_gpus_alone(run, backend, found);
    const bool in_time = agree_on_time_left(run);
    const bool again = problem && first->rank && problem->rank == first->rank && in_time;
    // The limit cut a repetition short, after all GPUs had been checked, and none of them hung.
    const bool suffices = problem && found.complete && !found.hung && !in_time;
    const std::string then = repeated && problem && !again ? "; then " + with_rank(problem->rank, problem->what) : "";
    run.recorder.remark(fmt::format("the check of each GPU alone {}: {}",
                                    !problem   ? "failed once and passed when it was repeated"
                                    : again    ? "failed twice"
                                    : suffices ? "was complete, and its repetition was not within the limit"
                                               : "failed, but not twice at the same rank within the limit",
                                    with_rank(first->rank, first->what) + then));
    if (problem && !again && !suffices) {
      run.code = worse(run.code, ExitCode::unfinished);
      std::vector<PhaseFailed> failures{*first};
      if (repeated && (!problem->cut_short || !problem->hung.empty())) failures.push_back(*problem);
      tell_failed_checks(run, failures);
    }
    if (!again) problem.reset();
  } else if (problem && problem->cut_short) {
    run.recorder.remark(
        fmt::format("the check of each GPU alone was not complete within the limit: {}", problem->what));
    run.code = worse(run.code, ExitCode::unfinished);
    tell_failed_checks(run, {*problem});
    problem.reset();
  }
  look_for_programs(run, found.of_ranks);
  run.recorder.add([&](ReportBuilder& report) { report.add_local_checks(std::move(found.of_ranks)); });
  if (problem) {
    run.recorder.add([&](ReportBuilder& built) {
      built.add_findings({reports::failed_check(built.report(), problem->rank, problem->what)});
    });
  }
}

void report_library_log(Run& run) {
  std::vector<topo::Finding> findings = library_log_findings(run.control, run.machine, run.arms.all);
  run.recorder.add([&](ReportBuilder& report) { report.add_findings(std::move(findings)); });
}

std::string reason_not_to_tune(Run& run) {
  return from_leader(run.control, [&] {
    const std::string& shared = run.machine.why_not_judged;
    if (!run.runner.skip_all_because.empty()) return run.runner.skip_all_because;
    if (!shared.empty()) return shared + ": their times say nothing about settings";
    std::string reason;
    run.recorder.add([&](ReportBuilder& report) { reason = report.reason_not_to_tune(); });
    return reason;
  });
}

}  // namespace

std::string tuning_mode(const Options& options) {
  if (!options.tune.empty()) return options.tune;
  if (options.command == "tune") return "full";
  return options.beside.empty() && options.job.empty() ? "quick" : "off";
}

bool may_tune(const Run& run) {
  return tuning_mode(run.options) != "off" && run.machine.backend_info().tunable && run.options.command != "ab";
}

namespace {

// Records that tuning was refused; `because` is one sentence.
void report_tuning_refused(Run& run, const std::string& because) {
  reports::Tuning refused;
  refused.mode = tuning_mode(run.options);
  refused.outcome = "refused";
  refused.because = because;
  run.recorder.add([&](ReportBuilder& report) { report.add_tuning(std::move(refused)); });
}

void tune_settings(Run& run) {
  // Launches of a soak have a budget each, and so does its tuning.
  const double spent = run.options.soak.count > 0 ? 0 : since(run.start).count;
  const Seconds time_left{run.options.budget.count * (1 - finishing_share) - spent};
  std::string reason = reason_not_to_tune(run);
  if (reason.empty()) reason = difference_of_tuning_files(run.control, run.options, true);
  if (!reason.empty()) return report_tuning_refused(run, reason);
  TuningJob job{.temporary = run.request.shutdown.temporary(),
                .mode = tuning_mode(run.options),
                .seed = run.seed,
                .runner = run.runner,
                .weights = run.weights,
                .kept = run.kept_tables,
                .time_left = time_left,
                .cluster = run.cluster,
                .folder = {}};
  if (run.control.is_leader()) job.folder = std::filesystem::absolute(run.folder).string();
  Options options = run.options;
  if (!options.job.empty()) {
    job.step = run.plan.cases.front();
    JobToTune wanted = job_to_tune(options, *job.step->replay, job_facts(run.machine, run.seed).placement());
    options = std::move(wanted.options);
    job.weights = std::move(wanted.weights);
    job.types = wanted.types;
    job.remarks = std::move(wanted.remarks);
  }
  std::erase_if(options.collectives, is_device_initiated);
  reports::Tuning tuned = tune(run.control, options, run.machine, job);
  run.recorder.add([&](ReportBuilder& report) { report.add_tuning(std::move(tuned)); });
}

// ---- Early ends of a run: by a signal, a hung rank or a lost rank. The leader writes the report, and the other ranks
// give it time to.

// Time that ranks other than the leader wait before they exit, so that the leader writes its report first: the launcher
// ends the leader with them. After a signal the launcher allows about a second; after a hang there is no such limit,
// and a busy machine may need long. Progress within that time cancels the hang.
constexpr Seconds grace{0.7}, grace_after_hang{10};
// Time in which ranks of other hosts, whose watchdogs may be a little later, tell the leader what they found.
constexpr Seconds notes_time{1};

// longest_wait() exceeds the limits at which backends give up by themselves: the limit for joining, then
// `longest_to_end` for ending workers that did not join, both longer in proportion with more than `ranks_of_longest`
// ranks. The steps of a case have limits of their own.
constexpr Seconds longest_to_end{30};
constexpr double ranks_of_longest = 1024;
constexpr double rounds_in_a_wait = 20, timeouts_in_a_wait = 4;

void wait_while(const std::function<bool()>& condition, Seconds longest) {
  const auto start = Clock::now();
  while (condition() && since(start).count < longest.count) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

std::string describe_rank(const Run& run, int rank) {
  const OwnGpus* const own = run.request.own_gpus;
  if (own && std::cmp_less(rank, own->usable.size()))
    return fmt::format("rank {} ({})", rank, own->usable[static_cast<std::size_t>(rank)]);
  if (!run.opened) {
    const std::vector<std::string>& hosts = run.request.hosts;
    return std::cmp_less(rank, hosts.size())
               ? fmt::format("rank {} on {}", rank, printable(hosts[static_cast<std::size_t>(rank)]))
               : fmt::format("rank {}", rank);
  }
  const topo::Topology& topology = run.machine.topology;
  const int host = topology.host_of_rank.at(static_cast<std::size_t>(rank));
  return fmt::format("rank {} on {}", rank, topology.hosts.at(static_cast<std::size_t>(host)).name);
}

void write_abort_note(const Run& run, const std::string& why) {
  if (!run.folder.empty()) write_note_for_leader(run.folder, run.control.participant(), why);
}

void remove_abort_note(const Run& run) {
  if (!run.folder.empty()) remove_note_for_leader(run.folder, run.control.participant());
}

bool same_host(const Run& run, int rank, int other) {
  const std::vector<int>& host_of = run.machine.topology.host_of_rank;
  return host_of.at(static_cast<std::size_t>(rank)) == host_of.at(static_cast<std::size_t>(other));
}

// Ranks of this host whose process is stopped by a signal or a debugger, by the kernel's account. In the operation
// under test nothing else tells which rank the others wait for.
std::string describe_stopped_ranks(const Run& run) {
  std::string stopped;
  if (!run.opened || run.processes.empty()) return stopped;
  const int own = run.control.participant();
  const std::string& own_namespace = run.processes.at(static_cast<std::size_t>(own)).id_namespace;
  for (int rank = 0; rank < run.control.ranks(); ++rank) {
    const RankProcess& process = run.processes.at(static_cast<std::size_t>(rank));
    if (!same_host(run, rank, own) || process.id_namespace != own_namespace) continue;
    const char state = state_of(static_cast<pid_t>(process.id)).letter;
    if (state == 'T' || state == 't')
      stopped += fmt::format("{}{}: its process {} is stopped by a {}", stopped.empty() ? "" : "; ",
                             describe_rank(run, rank), process.id, state == 'T' ? "signal" : "debugger");
  }
  return stopped;
}

// A check whose ranks wait for some that do not answer tells their hosts. None stands out if no rank answered.
void tell_missing_ranks(Run& run, const std::vector<int>& missing, const std::string& why) {
  if (!run.opened || !run.options.checks() || std::cmp_equal(missing.size(), run.control.ranks())) return;
  std::map<int, std::string> why_of_rank;
  for (const int rank : missing) why_of_rank[rank] = why;
  tell_unanswered(run, why_of_rank);
}

// The ranks that all others wait for; empty if they are unknown, as within the operation under test.
std::string describe_missing_ranks(const Run& run) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  const std::vector<int> awaited = run.control.missing_participants();
  for (const int rank : awaited)
    if (names.size() < most) names.push_back(describe_rank(run, rank));
  if (names.empty()) return "";
  const std::string more = awaited.size() > most ? fmt::format(" and {} more", awaited.size() - most) : "";
  return fmt::format("all others wait for {}{}", join(names, ", "), more);
}

}  // namespace

Seconds longest_wait(const Run& run) {
  if (const auto& wanted = run.request.fault_hooks.longest_wait) return *wanted;
  const double together = join_limit(run.options).count + longest_to_end.count;
  double longest = std::max(together * std::max(1.0, run.control.ranks() / ranks_of_longest),
                            timeouts_in_a_wait * run.options.timeout.count);
  if (!run.opened) return {longest};
  const CostModel cost = run.machine.backend->cost();
  for (const Case& c : run.plan.cases) longest = std::max(longest, rounds_in_a_wait * predict_step(c, cost).count);
  return {longest};
}

void handle_hang(Run& run, const Watchdog::Hang& hang) {
  // The rank first: a long sentence is cut at its end.
  std::string awaited = describe_missing_ranks(run);
  if (awaited.empty()) awaited = describe_stopped_ranks(run);
  std::string why = fmt::format("{}{}no progress in {} within {}", awaited, awaited.empty() ? "" : ": ", hang.step,
                                to_text(hang.limit));
  if (run.control.is_leader()) {
    wait_while(hang.lasts, notes_time);
    if (!hang.lasts()) return;
    tell_missing_ranks(run, run.control.missing_participants(), why);
  } else {
    const bool leader_sees_it = run.opened && same_host(run, 0, run.control.participant());
    if (!awaited.empty() && !leader_sees_it) write_abort_note(run, awaited);
    wait_while(hang.lasts, grace_after_hang);
    if (!hang.lasts()) return remove_abort_note(run);
    // The leader has not ended the job, so either it made progress itself or it is stuck too.
    why += fmt::format(": nothing came from {}, the leader (reported by rank {})", describe_rank(run, 0),
                       run.control.participant());
    write_abort_note(run, why);
  }
  if (!run.control.is_leader() || !run.opened) print_error(why);
  run.request.shutdown.exit(run.recorder.end_early(why));
}

namespace {

// Leaves a note for the leader and ends the process: other ranks wait for this one in calls that nothing else ends.
[[noreturn]] void abort_job(Run& run, const JobLost& lost) {
  if (!run.control.is_leader()) {
    print_error(lost.what());
    write_abort_note(run, lost.what());
  }
  run.request.shutdown.exit(run.recorder.end_early(lost.what(), lost.code));
}

std::optional<ExitCode> end_by_signal(Run& run, const std::string& signal) {
  if (!run.opened) {
    // At the limit of a check the leader tells why, and its launcher ends the other ranks.
    if (run.control.is_leader() || has_time_left(run))
      print_error(fmt::format("ended by {} while {}: nothing was measured", signal, run.phase.load()));
    return ExitCode::unfinished;
  }
  const ExitCode code = run.recorder.end_early(fmt::format("ended by {} while {}", signal, run.phase.load()));
  // A rank that is finishing may still complete.
  if (!run.control.is_leader())
    wait_while([&] { return !run.recorder.finished(); }, run.finishing ? grace_after_hang : grace);
  return run.recorder.finished() ? std::nullopt : std::optional(code);
}

// One line for each host, as a check prints it, where the limit passed before there is a report.
std::string lines_at_limit(const Run& run, const std::string& why) {
  const std::string own = topo::host_name().name;
  const std::vector<std::string> hosts = run.request.hosts.empty() ? std::vector{own} : run.request.hosts;
  std::set<std::string> silent, told;
  for (const int rank : run.control.missing_participants())
    if (std::cmp_less(rank, hosts.size())) silent.insert(hosts[static_cast<std::size_t>(rank)]);
  if (silent.empty()) silent.insert(own);
  std::string text;
  for (const std::string& host : hosts)
    if (told.insert(host).second)
      text += silent.contains(host) ? fmt::format("{}: NOT FINISHED: {}\n", printable(host), why)
                                    : fmt::format("{}: NOT CHECKED\n", printable(host));
  return text;
}

// Names the ranks that have not answered. Where the leader awaits none, all wait for the leader: it still waits for its
// own worker, or for the end of it. In an operation from which ranks do not recover, it may wait for any of them.
std::optional<ExitCode> end_by_limit(Run& run) {
  if (!run.control.is_leader()) return std::nullopt;
  std::vector<int> missing = run.control.missing_participants();
  if (missing.empty() && run.opened && run.machine.backend->recovers()) missing = run.control.hosted();
  const std::string awaited = describe_missing_ranks(run);
  const std::string why =
      fmt::format("no answer within {} while {}: {}", to_text(run.options.limit_with_burn()), run.phase.load(),
                  awaited.empty() ? describe_rank(run, run.control.participant()) : awaited);
  if (!run.opened) print_result(lines_at_limit(run, why));
  tell_missing_ranks(run, missing, why);
  return run.recorder.end_early(why);
}

}  // namespace

Shutdown::Actions actions_before_end(Run& run) {
  return {.on_signal = [&run](const std::string& signal) { return end_by_signal(run, signal); },
          .on_limit = [&run] { return end_by_limit(run); }};
}

// ---- The phases in their order.

namespace {

struct RunPhase {
  const char* name;
  bool (*applies)(const Run& run);  // must return the same on all ranks
  void (*act)(Run& run);
  // Called when `act` failed; null: the run ends then.
  void (*on_failure)(Run& run, const RunPhase& phase, const Problem& problem) = nullptr;
};

bool always(const Run&) { return true; }
bool in_workers(const Run& run) { return run.machine.backend_info().ranks == BackendInfo::Ranks::workers; }
bool measures(const Run& run) { return run.options.command != "tune"; }
bool watches(const Run& run) { return run.case_monitor.has_value(); }

void remark(Run& run, const RunPhase& phase, const Problem& problem) {
  run.recorder.remark(fmt::format("{} failed: {}", phase.name, problem.what));
}

void disable_case_monitor(Run& run, const RunPhase& phase, const Problem& problem) {
  run.case_monitor.reset();
  remark(run, phase, problem);
}

// `tune` does nothing else, so its failure is also an error on the console.
void refuse_tuning(Run& run, const RunPhase&, const Problem& problem) {
  report_tuning_refused(run, problem.what);
  if (run.options.command != "tune") return;
  if (run.control.is_leader()) print_error(problem.what);
  // The command line was already accepted, so a usage error is the environment's here.
  run.code = problem.code == ExitCode::usage ? ExitCode::environment : problem.code;
}

// The barrier precedes the final report, because a report is complete only when no rank can be lost any more.
void finish(Run& run) {
  run.finishing = true;
  if (run.options.checks()) finish_check(run);
  run.control.barrier();
  run.code = run.recorder.finish(run.code);
  run.request.shutdown.set_final_exit_code(run.control.is_leader() ? run.code : ExitCode::ok);
}

constexpr std::array phases{
    RunPhase{"finding the machine", always, find_machine_and_plan},
    RunPhase{"opening the report", always, open_report},
    RunPhase{"reaching all hosts", in_workers, check_reachability_of_hosts, remark},
    RunPhase{"evaluating the machine", always, evaluate_machine},
    RunPhase{"measuring single NICs", nics_come_first, measure_nics_first, remark},
    RunPhase{"watching GPUs and NICs", measures, start_watching, disable_case_monitor},
    RunPhase{"measuring", measures, measure},
    RunPhase{"checking each GPU alone", gpus_can_be_checked, check_gpus_alone, remark},
    RunPhase{"evaluating the samples of GPUs and NICs", watches, report_watch_findings, remark},
    RunPhase{"measuring NICs and groups", parts_are_left, measure_parts, remark},
    RunPhase{"measuring again what seemed slow or silent", may_need_retest, measure_again, remark},
    RunPhase{"asking which ranks waited for cores", may_wait_for_cores, add_waiting_for_cores, remark},
    RunPhase{"reading the library's log", always, report_library_log, remark},
    RunPhase{"tuning", may_tune, tune_settings, refuse_tuning},
    RunPhase{"finishing", always, finish},
};

}  // namespace

// Each attempt ends when all ranks have finished it, so that no rank exits before the report is written: a launcher may
// end the job when the first rank exits.
ExitCode run_acceptance(ControlPlane& control, const Request& request) {
  Run run(control, request);
  request.shutdown.set_actions(actions_before_end(run));
  for (const RunPhase& phase : phases) {
    if (!phase.applies(run)) continue;
    run.phase = phase.name;
    run.control.begin_step(phase.name, longest_wait(run));
    std::optional<Problem> problem;
    try {
      problem = run.control.attempt([&] {
        if (request.fault_hooks.enter_phase) request.fault_hooks.enter_phase(phase.name, control.participant());
        phase.act(run);
      });
    } catch (const JobLost& lost) {
      if (!run.opened) throw;
      abort_job(run, lost);
    }
    if (!problem) continue;
    if (phase.on_failure) {
      phase.on_failure(run, phase, *problem);
      continue;
    }
    if (!run.opened) problem->raise();
    run.code = run.recorder.end_early(problem->what, problem->code);
    break;
  }
  request.shutdown.set_final_exit_code(control.is_leader() ? run.code : ExitCode::ok);
  return run.code;
}

std::vector<std::string> phases_of_run() {
  std::vector<std::string> names;
  for (const RunPhase& phase : phases) names.emplace_back(phase.name);
  return names;
}

}  // namespace p5
