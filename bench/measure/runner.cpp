// One repetition: open a round, warm up, sample until the leader's stopping rule holds, verify. Participants differ
// only in that the leader decides.
#include "bench/measure/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/concurrent.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {

namespace {

bool takes_part(const Round& groups, int rank) {
  return std::ranges::any_of(groups, [&](const Group& group) { return std::ranges::find(group, rank) != group.end(); });
}

// Reports hold times between a millionth of a microsecond and thirty years.
constexpr double least_s = 1e-12, most_s = 1e9;

// may_lack: NaN stands for a rank that takes no part.
void require_time(double seconds, bool may_lack, int rank) {
  if ((may_lack && std::isnan(seconds)) || (seconds >= least_s && seconds <= most_s)) return;
  throw CaseError(fmt::format("the backend measured {} s, which is no time", seconds), rank);
}

}  // namespace

Times sample_times(Session& session, const SampleRequest& request, const Round& groups,
                   const std::vector<int>& hosted) {
  Times times = session.sample(request);
  for (std::size_t i = 0; i < std::min(times.size(), hosted.size()); ++i) {
    const bool may_lack = !takes_part(groups, hosted[i]);
    for (const double time : times[i]) require_time(time, may_lack, hosted[i]);
  }
  return times;
}

ConcurrentTimes sample_concurrent_times(Session& session, const ConcurrentRequest& request, const Round& groups,
                                        const std::vector<int>& hosted) {
  ConcurrentTimes times = session.sample_concurrently(request);
  for (std::size_t i = 0; i < std::min(times.size(), hosted.size()); ++i) {
    const bool runs = request.operations.front() > 0 && takes_part(groups, hosted[i]);
    for (const std::vector<double>& sample : times[i])
      for (std::size_t work = 0; work < sample.size(); ++work) require_time(sample[work], work > 0 || !runs, hosted[i]);
  }
  return times;
}

namespace {

// Fraction of a round's budget for latency where both quantities are measured.
constexpr double latency_share = 0.3;

// Samples of one round at the leader: for each group the slowest member's times.
class RoundSamples {
 public:
  RoundSamples(const Round& round, int ranks)
      : round_(round), groups_(round.size()), slowest_count_(static_cast<std::size_t>(ranks)) {}

  // parts: of each participant, in ascending order of hosted ranks.
  void add(const std::vector<Times>& parts, int samples) {
    std::vector<const std::vector<double>*> of_rank;
    for (const Times& part : parts)
      for (const std::vector<double>& times : part) of_rank.push_back(&times);
    const auto count = static_cast<std::size_t>(samples);
    for (std::size_t g = 0; g < round_.size(); ++g) {
      for (std::size_t s = 0; s < count; ++s) {
        const auto time_of = [&](int rank) { return of_rank.at(static_cast<std::size_t>(rank))->at(s); };
        const int slowest = *std::ranges::max_element(round_[g], {}, time_of);
        groups_[g].push_back(time_of(slowest));
        ++slowest_count_[static_cast<std::size_t>(slowest)];
      }
    }
  }

  int taken() const { return groups_.empty() ? 0 : static_cast<int>(groups_.front().size()); }
  const std::vector<std::vector<double>>& groups() const { return groups_; }

  bool all_converged(const StoppingRule& rule) const {
    return std::ranges::all_of(groups_, [&](const auto& samples) { return interval_converged(rule, samples); });
  }

  // Time of the slowest group, which is that of the round.
  double latest() const {
    double slowest = 0;
    for (const auto& samples : groups_) slowest = std::max(slowest, samples.back());
    return slowest;
  }

  int slowest_rank(const Group& group) const {
    return *std::ranges::max_element(group, {},
                                     [&](int rank) { return slowest_count_[static_cast<std::size_t>(rank)]; });
  }

 private:
  const Round& round_;
  std::vector<std::vector<double>> groups_;
  std::vector<int> slowest_count_;
};

// The result of a trial of the case.
struct FittedBurst {
  int operations = 1;    // per sample
  double longest_s = 0;  // time of an operation
};

void fields(auto& archive, Is<FittedBurst> auto& trial) {
  archive.must("operations", trial.operations);
  archive.must("longest_s", trial.longest_s);
}

// Collects the log of the failed rank, or of rank 0 if none is named, and the library status, for which one rank asked.
FailureContext gather_failure_context(ControlPlane& control, const Backend& backend, const PhaseFailed& failed) {
  FailureContext mine = backend.failure_context();
  if (failed.rank.value_or(0) != control.hosted().front()) mine.log.clear();
  FailureContext all;
  for (FailureContext& context : gather_at_leader(control, mine)) {
    if (!context.log.empty()) all.log = std::move(context.log);
    if (!context.library_status.empty()) all.library_status = std::move(context.library_status);
  }
  return all;
}

// Backends that recover have their own timeout for a step. After it they need some time to find the rank at fault and
// to abort; a participant that is silent beyond that is stuck or unreachable.
constexpr Seconds abort_grace{15};

// One round of a case, from opening a session to verification.
class RoundRun {
  // Runs one step on all participants, watched. `watchdog_` is null where the backend recovers; the watchdog of the
  // options then ends a step only `abort_grace` after the backend's own timeout.
  template <class... Parts>
  auto step(Phase phase, const Parts&... local_and_decide) {
    Seconds limit = limit_of_request(case_, backend_.cost(), options_.timeout);
    const bool watches = options_.watchdog && control_.participants() > 1;
    const std::string what = watches || watchdog_ ? fmt::format("{} of {}", name_of(phase), describe(case_)) : "";
    if (watchdog_) watchdog_->arm(what, limit);
    if (phase == Phase::open) limit.count = std::max(limit.count, backend_.rendezvous_limit().count);
    const WatchdogScope watched(watches && !watchdog_ ? options_.watchdog : nullptr, what,
                                {limit.count + abort_grace.count});
    return agree(control_, phase, backend_.recovers(), local_and_decide...);
  }

 public:
  RoundRun(ControlPlane& control, Backend& backend, Rendezvous& rendezvous, const Case& c, int round,
           const RunnerOptions& options, Seconds share, Watchdog* watchdog)
      : control_(control),
        backend_(backend),
        rendezvous_(rendezvous),
        case_(c),
        round_(round),
        groups_((*c.rounds)[static_cast<std::size_t>(round)]),
        options_(options),
        share_(share),
        watchdog_(watchdog) {}

  // Throws PhaseFailed.
  Measurement run() try {
    rendezvous_.join_ranks(backend_);
    const std::string unavailable = step(
        Phase::open,
        [&] {
          session_ = backend_.open(case_, round_);
          return session_->unavailable();
        },
        first_told);
    if (!unavailable.empty()) {
      result_.outcome = Outcome::skipped;
      result_.because = unavailable;
      return std::move(result_);
    }
    if (!case_.collective->moves_data) return measure_communicator_step();
    step(Phase::warm_up, [&] { session_->warm_up(1, ""); });
    if (!case_.beside.empty()) return run_concurrently();
    const FittedBurst trial = choose_operations();
    const bool both = options_.latency && measures_latency(case_) && !case_.replay;
    if (both) measure(Quantity::latency, {case_.calls.aggregate, trial.longest_s}, {share_.count * latency_share});
    measure(Quantity::throughput, trial, {share_.count * (both ? 1 - latency_share : 1)});
    step(
        Phase::verify,
        [&] {
          result_.selection = session_->selection();
          return session_->host_time();
        },
        [&](const std::vector<std::optional<double>>& parts) {
          for (const std::optional<double>& part : parts) result_.host_s = std::max(result_.host_s, part);
        });
    return std::move(result_);
  } catch (PhaseFailed& failed) {
    give_up(failed);
    throw;
  }

  // Closes the session, after run(). Throws PhaseFailed.
  void close() try {
    step(Phase::close, [&] { session_->close(); });
  } catch (PhaseFailed& failed) {
    give_up(failed);
    throw;
  }

 private:
  void give_up(PhaseFailed& failed) {
    failed.failure_context = gather_failure_context(control_, backend_, failed);
    // An unresponsive session cannot be closed regularly.
    backend_.abandon();
  }

  // Measures an operation on a communicator, such as making it, which moves no data. The time of a sample is not known
  // before the first, which is a request of its own.
  Measurement measure_communicator_step() {
    measure(Quantity::latency, {.operations = 1, .longest_s = most_s}, share_);
    step(
        Phase::verify, [&] { return session_->communicator_costs(); },
        [&](const std::vector<CommunicatorCosts>& parts) {
          for (const CommunicatorCosts& part : parts)
            for (const auto& [name, value] : part) {
              double& most = result_.communicator_costs.try_emplace(name, value).first->second;
              most = std::max(most, value);
            }
        });
    step(Phase::verify, [&] { result_.selection = session_->selection(); });
    return std::move(result_);
  }

  // Measures the case beside its works, and each of them alone.
  Measurement run_concurrently() {
    ConcurrentSampling sampling(case_, backend_.cost().burst, stopping_rule(), share_,
                                limit_of_request(case_, backend_.cost(), options_.timeout));
    RoundSamples headline(groups_, control_.ranks());
    const auto start = Clock::now();
    ConcurrentRequest request = sampling.first();
    while (!request.operations.empty()) {
      const ConcurrentRequest running = request;
      request = step(
          Phase::sample, [&] { return sample_concurrent_times(*session_, running, groups_, control_.hosted()); },
          [&](const std::vector<ConcurrentTimes>& parts) {
            const ConcurrentRequest next = sampling.next(parts, since(start));
            if (sampling.took_headline()) headline.add(times_of_case(parts), running.samples);
            return next;
          });
    }
    verify_outputs();
    if (control_.is_leader()) {
      keep(headline, sampling.operations_of_headline(), sampling.stopped_because(), result_.throughput, true);
      result_.concurrency = sampling.result();
    }
    step(Phase::verify, [&] { result_.selection = session_->selection(); });
    return std::move(result_);
  }

  // Seconds of an operation of the case while all its works run.
  static std::vector<Times> times_of_case(const std::vector<ConcurrentTimes>& parts) {
    std::vector<Times> all;
    for (const ConcurrentTimes& part : parts) {
      Times& times = all.emplace_back();
      for (const std::vector<std::vector<double>>& samples : part) {
        std::vector<double>& of_rank = times.emplace_back();
        for (const std::vector<double>& sample : samples) of_rank.push_back(sample.front());
      }
    }
    return all;
  }

  StoppingRule stopping_rule() const {
    StoppingRule rule{.relative = options_.precision};
    if (case_.bytes < options_.tight_from) rule.relative *= 2;
    rule.most = std::clamp(options_.most_samples, rule.least, rule.most);
    if (is_repeated(case_)) rule.most = rule.least;  // the interval is that of the repetitions
    if (const CommunicatorStep* const timed = step_of(case_)) {
      rule.most = timed->while_joining ? 1 : std::min(rule.most, 2 * rule.least);
      rule.least = std::min(rule.least, rule.most);
    }
    return rule;
  }

  // Number of operations, a multiple of CallOptions::aggregate, that last about cost().burst: from the shortest of
  // three samples of any group of ranks.
  FittedBurst choose_operations() {
    const Seconds wanted = backend_.cost().burst;
    const int together = case_.calls.aggregate;
    const SampleRequest single{
        .quantity = Quantity::throughput, .operations = together, .samples = 3, .poison_last = false};
    return step(
        Phase::warm_up, [&] { return sample_times(*session_, single, groups_, control_.hosted()); },
        [&](const std::vector<Times>& parts) {
          RoundSamples samples(groups_, control_.ranks());
          samples.add(parts, single.samples);
          double one = wanted.count, longest = 0;
          for (const auto& group : samples.groups()) {
            one = std::min(one, *std::ranges::min_element(group));
            longest = std::max(longest, *std::ranges::max_element(group));
          }
          const double fitting = std::ceil(wanted.count / std::max(one * together, 1e-9));
          const int most = std::max(session_->slots() / together, 1);
          return FittedBurst{together * static_cast<int>(std::clamp(fitting, 1.0, static_cast<double>(most))), longest};
        });
  }

  void measure(Quantity quantity, const FittedBurst& trial, Seconds part) {
    RoundSamples samples(groups_, control_.ranks());
    const int operations = trial.operations;
    const std::string stopped = take_samples(quantity, trial, part, samples);
    if (quantity == Quantity::throughput) verify(operations, samples);
    if (!control_.is_leader()) return;
    if (quantity == Quantity::latency)
      keep(samples, operations, stopped, result_.latency, !case_.collective->moves_data);
    else
      keep(samples, operations, stopped, result_.throughput, true);
  }

  // Samples until the stopping rule holds in all groups or the part of the budget is spent. Returns the reason, at the
  // leader. The rule is asked after each batch, which takes several requests where one might exceed its limit.
  std::string take_samples(Quantity quantity, const FittedBurst& trial, Seconds part, RoundSamples& samples) {
    const StoppingRule rule = stopping_rule();
    const auto start = Clock::now();
    const int operations = trial.operations;
    std::string stopped;
    int due = next_batch(rule, 0);  // samples of the batch still to take
    int count = std::min(due, most_of_request(trial.longest_s * operations));
    while (count > 0) {
      const SampleRequest request{
          .quantity = quantity, .operations = operations, .samples = count, .poison_last = false};
      count = step(
          Phase::sample, [&] { return sample_times(*session_, request, groups_, control_.hosted()); },
          [&](const std::vector<Times>& parts) {
            samples.add(parts, count);
            due -= count;
            return decide_next(rule, samples, operations, since(start), part, due, stopped);
          });
    }
    return stopped;
  }

  int most_of_request(double each_s) const {
    return most_samples_within(limit_of_request(case_, backend_.cost(), options_.timeout), each_s);
  }

  // Number of samples to take next, at the leader; 0 with the reason in `stopped`.
  int decide_next(const StoppingRule& rule, const RoundSamples& samples, int operations, Seconds spent, Seconds part,
                  int& due, std::string& stopped) const {
    if (due == 0) {
      if (samples.all_converged(rule)) {
        stopped = fmt::format("interval within {:g} %", rule.relative * 100);
        return 0;
      }
      due = next_batch(rule, samples.taken());
      if (due == 0) {
        stopped = fmt::format("{} samples", rule.most);
        return 0;
      }
    }
    // A sample may need untimed work besides its operations, such as a communicator of its own.
    const double each = std::max({samples.latest() * operations, spent.count / samples.taken(), 1e-9});
    if (samples.taken() >= rule.least) {
      const double fitting = std::floor((part.count - spent.count) / each);
      if (fitting < 1) stopped = "share of the budget spent";
      due = static_cast<int>(std::clamp(fitting, 0.0, static_cast<double>(due)));
    }
    return std::min(due, most_of_request(each));
  }

  // Takes one more sample into poisoned outputs and verifies them. Operations in place overwrite their inputs, so that
  // the session verifies one more, untimed operation of them.
  void verify(int operations, RoundSamples& samples) {
    const SampleRequest last{
        .quantity = Quantity::throughput, .operations = operations, .samples = 1, .poison_last = true};
    step(
        Phase::sample, [&] { return sample_times(*session_, last, groups_, control_.hosted()); },
        [&](const std::vector<Times>& parts) { samples.add(parts, 1); });
    verify_outputs();
  }

  void verify_outputs() {
    step(
        Phase::verify, [&] { return session_->verify(); },
        [&](const std::vector<Verification>& parts) {
          for (std::size_t i = 0; i < parts.size(); ++i) {
            Verification part = parts[i];
            if (std::cmp_equal(parts.size(), control_.ranks())) part.wrong_ranks = {static_cast<int>(i)};
            add_verification(part);
          }
        });
  }

  void add_verification(const Verification& part) {
    if (part.wrong_elements == 0) return;
    for (const Group& group : groups_)
      if (std::ranges::find_first_of(group, part.wrong_ranks) != group.end() &&
          std::ranges::find(result_.wrong_groups, group) == result_.wrong_groups.end())
        result_.wrong_groups.push_back(group);
    result_.wrong_elements += part.wrong_elements;
    if (!result_.first_wrong) result_.first_wrong = part.first.value_or(WrongElement{});
  }

  // Keeps the series of the slowest group. With `headline` the quantity also gives the groups' medians, the slowest
  // group and the slowest rank.
  void keep(const RoundSamples& samples, int operations, const std::string& stopped, std::optional<Series>& series,
            bool headline) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const double middle = median(samples.groups()[g]);
      if (headline)
        result_.groups.push_back({groups_[g], {middle}, {samples.groups()[g].begin(), samples.groups()[g].end()}});
      if (series && series->summary.median >= middle) continue;
      series = Series{.operations_per_sample = operations,
                      .samples = samples.groups()[g],
                      .summary = summarize(samples.groups()[g]),
                      .stopped_because = stopped};
      if (!headline) continue;
      result_.slowest_group = groups_[g];
      result_.slowest_rank = samples.slowest_rank(groups_[g]);
    }
  }

  ControlPlane& control_;
  Backend& backend_;
  Rendezvous& rendezvous_;
  const Case& case_;
  const int round_;
  const Round& groups_;
  const RunnerOptions& options_;
  const Seconds share_;
  Watchdog* watchdog_;
  std::unique_ptr<Session> session_;
  Measurement result_;
};

// Adds a repetition; `repetitions` are the medians so far, from which the interval is computed.
void add_repetition_to(std::optional<Series>& whole, const std::optional<Series>& part,
                       std::vector<double>& repetitions) {
  if (!part) return;
  repetitions.push_back(part->summary.median);
  if (!whole) {
    whole = part;
    return;
  }
  whole->operations_per_sample = std::min(whole->operations_per_sample, part->operations_per_sample);
  whole->samples.insert(whole->samples.end(), part->samples.begin(), part->samples.end());
  whole->summary = summarize(whole->samples);
  whole->summary.median = median(repetitions);
  whole->summary.interval = median_interval(repetitions);
  whole->stopped_because = fmt::format("{} repetitions", repetitions.size());
}

// Adds a round to the other rounds of its case.
void merge(Measurement& whole, Measurement part) {
  if (part.latency && (!whole.latency || part.latency->summary.median > whole.latency->summary.median)) {
    whole.latency = std::move(part.latency);
    if (!part.throughput) {  // steps have latency alone
      whole.slowest_group = std::move(part.slowest_group);
      whole.slowest_rank = part.slowest_rank;
    }
  }
  if (part.throughput && (!whole.throughput || part.throughput->summary.median > whole.throughput->summary.median)) {
    whole.throughput = std::move(part.throughput);
    whole.concurrency = std::move(part.concurrency);
    whole.slowest_group = std::move(part.slowest_group);
    whole.slowest_rank = part.slowest_rank;
  }
  for (GroupResult& each : part.groups) {
    const auto known = whole.measured_case.every_root ? std::ranges::find(whole.groups, each.group, &GroupResult::group)
                                                      : whole.groups.end();
    if (known == whole.groups.end())
      whole.groups.push_back(std::move(each));
    else if (known->median.count < each.median.count)
      *known = std::move(each);
  }
  std::ranges::move(part.wrong_groups, std::back_inserter(whole.wrong_groups));
  whole.wrong_elements += part.wrong_elements;
  if (!whole.first_wrong) whole.first_wrong = std::move(part.first_wrong);
  if (!whole.selection) whole.selection = std::move(part.selection);
  whole.host_s = std::max(whole.host_s, part.host_s);  // a null is less than any number
  whole.communicator_costs.merge(part.communicator_costs);
}

}  // namespace

CaseRun::CaseRun(ControlPlane& control, Backend& backend, Rendezvous& rendezvous, Case c, const RunnerOptions& options,
                 Watchdog* watchdog)
    : control_(control), backend_(backend), rendezvous_(rendezvous), options_(options), watchdog_(watchdog) {
  result_.measured_case = std::move(c);
}

std::optional<PhaseFailed> CaseRun::run_repetition(int round, Seconds share) {
  const auto start = Clock::now();
  ++rounds_done_;
  std::optional<PhaseFailed> problem;
  try {
    RoundRun round_run(control_, backend_, rendezvous_, result_.measured_case, round, options_, share, watchdog_);
    Measurement part = round_run.run();
    if (part.outcome == Outcome::skipped) {
      ++rounds_skipped_;
      skip_reason_ = part.because;
    } else if (is_repeated(result_.measured_case)) {
      add_repetition(std::move(part));
    } else {
      if (result_.measured_case.every_root && part.throughput)
        result_.roots.push_back({round, {part.throughput->summary.median}});
      merge(result_, std::move(part));
    }
    round_run.close();  // wrong data that was found before counts even if this fails
  } catch (const PhaseFailed& failed) {
    fail(failed);
    record_silent_groups(round, failed);
    problem = failed;
  }
  result_.wall_s += since(start).count;
  return problem;
}

void CaseRun::add_repetition(Measurement part) {
  const std::optional<Series> latency = std::exchange(part.latency, {}),
                              throughput = std::exchange(part.throughput, {});
  if (part.slowest_rank) slowest_ranks_.push_back(*part.slowest_rank);
  if (!result_.groups.empty()) part.groups.clear();
  merge(result_, std::move(part));
  add_repetition_to(result_.latency, latency, latency_repetitions_);
  add_repetition_to(result_.throughput, throughput, throughput_repetitions_);
  if (slowest_ranks_.empty()) return;  // not the leader
  result_.groups.front().median = {result_.throughput->summary.median};
  result_.slowest_group = result_.groups.front().group;
  result_.slowest_rank =
      *std::ranges::max_element(slowest_ranks_, {}, [&](int rank) { return std::ranges::count(slowest_ranks_, rank); });
}

void CaseRun::fail(const PhaseFailed& failed) {
  ++rounds_failed_;
  if (result_.outcome == Outcome::failed) return;
  result_.outcome = Outcome::failed;
  result_.failed_in = failed.phase;
  // A device that alone does not become idle hangs, however short the wait was.
  result_.failed_rank =
      failed.rank || failed.hung.size() != 1 ? failed.rank : std::optional(failed.hung.begin()->first);
  result_.failure_context = failed.failure_context;
  result_.because = describe(failed);
}

// Records which of several concurrent groups made no progress; of those that may have waited for them nothing is known,
// nor of any where the wait was cut short. In a case that is closed all groups have ended.
void CaseRun::record_silent_groups(int round, const PhaseFailed& failed) {
  if (failed.stalled.empty() || failed.cut_short || failed.phase == Phase::close) return;
  for (const Group& group : (*result_.measured_case.rounds)[static_cast<std::size_t>(round)]) {
    const auto has_any = [&](const std::vector<int>& ranks) {
      return std::ranges::find_first_of(group, ranks) != group.end();
    };
    if (has_any(failed.stalled))
      result_.silent_groups.push_back(group);
    else if (!has_any(failed.waiting))
      result_.finished_groups.push_back(group);
  }
}

void CaseRun::skip(const std::string& why) {
  ++rounds_done_;
  ++rounds_skipped_;
  skip_reason_ = why;
}

void CaseRun::fail_like(const PhaseFailed& before) {
  ++rounds_done_;
  fail({before.phase, before.rank,
        before.what + "; not run again, because this failed earlier cases of the same communicators"});
}

Measurement CaseRun::result() const {
  Measurement m = result_;
  std::ranges::sort(m.groups, {}, &GroupResult::group);
  std::ranges::sort(m.roots, {}, &RootResult::root);
  const auto rounds = m.measured_case.rounds->size();
  if (rounds_failed_ > 0 && rounds > 1)
    m.because += fmt::format(" (in {} of {} {})", rounds_failed_, rounds,
                             is_repeated(m.measured_case) ? "repetitions" : "rounds");
  if (rounds_failed_ == 0 && rounds_skipped_ == rounds_done_) {
    m.outcome = Outcome::skipped;
    m.because = skip_reason_;
  }
  if (rounds_skipped_ > 0 && rounds_skipped_ < rounds_done_ && !is_repeated(m.measured_case))
    m.measured_case.pairs_sampled = true;
  if (m.throughput) m.launches_s = {m.throughput->summary.median};
  if (m.latency) m.latency_launches_s = {m.latency->summary.median};
  return m;
}

// Removes figures that are not finite and positive. Reports name a GPU that lacks what others of its model have.
static void remove_impossible_figures(std::vector<LocalChecks>& of_ranks) {
  for (LocalChecks& each : of_ranks)
    std::erase_if(each.figures, [](const auto& figure) { return !std::isfinite(figure.second) || figure.second <= 0; });
}

std::vector<LocalChecks> check_locally(ControlPlane& control, Backend& backend, Seconds burn) {
  std::vector<LocalChecks> all;
  agree(
      control, Phase::sample, backend.recovers(), [&] { return backend.check_locally(burn); },
      [&](const std::vector<std::vector<LocalChecks>>& parts) {
        for (const std::vector<LocalChecks>& part : parts) all.insert(all.end(), part.begin(), part.end());
      });
  remove_impossible_figures(all);
  return all;
}

// The number of ranks before each on its node.
static std::vector<int> places_on_nodes(const NodeOfRank& node_of_rank) {
  std::map<int, int> ranks_of_node;
  std::vector<int> places;
  for (const int node : node_of_rank) places.push_back(ranks_of_node[node]++);
  return places;
}

int turns_on_hosts(const NodeOfRank& node_of_rank) {
  const std::vector<int> places = places_on_nodes(node_of_rank);
  return places.empty() ? 0 : std::ranges::max(places) + 1;
}

void check_host_copies(ControlPlane& control, Backend& backend, const NodeOfRank& node_of_rank,
                       std::vector<LocalChecks>& of_ranks) {
  if (control.hosted().size() > 1) return;  // a model, whose check_locally() has all figures
  const std::vector<int> places = places_on_nodes(node_of_rank);
  for (int turn = 0; turn < turns_on_hosts(node_of_rank); ++turn)
    agree(
        control, Phase::sample, backend.recovers(),
        [&] {
          const bool next = places.at(static_cast<std::size_t>(control.hosted().front())) == turn;
          return next ? backend.check_host_copies() : std::vector<LocalFigures>{};
        },
        [&](const std::vector<std::vector<LocalFigures>>& parts) {
          for (std::size_t rank = 0; rank < parts.size(); ++rank)
            for (const LocalFigures& figures : parts[rank])
              of_ranks.at(rank).figures.insert(figures.begin(), figures.end());
        });
  remove_impossible_figures(of_ranks);
}

}  // namespace p5
