// The way of one measurement: open, warm up, sample until the leader has enough, verify. Participants differ only in
// that the leader decides.
#include "bench/runner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "bench/agreement.hpp"
#include "bench/clock.hpp"
#include "bench/error.hpp"
#include "bench/watchdog.hpp"

namespace p5 {

namespace {

// Of a case's share of the budget: what latency may take where both quantities are measured.
constexpr double latency_share = 0.3;
// Beyond its share, what a case of several rounds may take for connections that its first operations make.
constexpr double patience_s = 0.5, patience_share = 0.25;
// Samples that a case takes when nothing disturbs it: for predicting.
constexpr int usual_samples = 24;

std::string flatten(const Times& times) {
  std::vector<double> numbers;
  for (const auto& row : times) numbers.insert(numbers.end(), row.begin(), row.end());
  return pack(numbers);
}

// The samples of one round at the leader: for each group the slowest member's time of each sample.
class RoundSamples {
 public:
  RoundSamples(const Round& round, int ranks)
      : round_(round), groups_(round.size()), slowest_count_(static_cast<std::size_t>(ranks)) {}

  // parts: of each participant, [hosted rank][sample] flattened; hosted ranks of all participants ascend.
  void add(const std::vector<std::string>& parts, int samples) {
    std::vector<double> all;
    for (const std::string& part : parts) {
      const std::vector<double> numbers = unpack(part);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    const auto count = static_cast<std::size_t>(samples);
    for (std::size_t g = 0; g < round_.size(); ++g) {
      for (std::size_t s = 0; s < count; ++s) {
        const auto time_of = [&](int rank) { return all.at(static_cast<std::size_t>(rank) * count + s); };
        const int slowest = *std::ranges::max_element(round_[g], {}, time_of);
        groups_[g].push_back(time_of(slowest));
        ++slowest_count_[static_cast<std::size_t>(slowest)];
      }
    }
  }

  int taken() const { return groups_.empty() ? 0 : static_cast<int>(groups_.front().size()); }
  const std::vector<std::vector<double>>& groups() const { return groups_; }

  bool all_enough(const StoppingRule& rule) const {
    return std::ranges::all_of(groups_, [&](const auto& samples) { return enough(rule, samples); });
  }

  // A round takes as long as its slowest group.
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

// What the leader broadcasts: how many samples of how many operations come next; none: go on to the next step.
struct Next {
  double samples = 0, operations = 1;
};
std::string encode(Next next) { return pack({next.samples, next.operations}); }
Next decode(const std::string& text) {
  const std::vector<double> numbers = unpack(text);
  return {numbers.at(0), numbers.at(1)};
}

class CaseRun {
 public:
  CaseRun(World& world, Backend& backend, Joining& joining, const Case& c, const RunnerOptions& options, Seconds share,
          Watchdog* watchdog)
      : world_(world),
        backend_(backend),
        joining_(joining),
        case_(c),
        options_(options),
        share_(share),
        watchdog_(watchdog) {
    result_.measured_case = c;
  }

  Measurement run() {
    const auto start = Clock::now();
    try {
      joining_.bring_together(backend_);
      step(
          Phase::open, [&] { return session_ = backend_.open(case_), ""; }, nothing);
      for (std::size_t round = 0; round < case_.rounds->size() && go_on(round, start); ++round)
        run_round(static_cast<int>(round));
      step(
          Phase::verify, [&] { return result_.selection = session_->selection(), ""; }, nothing);
    } catch (const PhaseFailed& failed) {
      backend_.abandon();
      session_.reset();
      result_ = {};
      result_.measured_case = case_;
      result_.outcome = Outcome::failed;
      result_.failed_in = failed.phase;
      result_.failed_rank = failed.rank;
      const std::string where = failed.rank ? fmt::format("rank {} in ", *failed.rank) : "";
      result_.because = fmt::format("{}{}: {}", where, name_of(failed.phase), failed.what);
    }
    if (result_.throughput) result_.launches_s = {result_.throughput->summary.median};
    if (result_.latency) result_.latency_launches_s = {result_.latency->summary.median};
    result_.wall_s = since(start).count;
    return std::move(result_);
  }

 private:
  // Rounds of pairs beyond the case's share of the budget are left out: where connecting takes long, one case would
  // otherwise spend what all others need. The first round is always measured.
  bool go_on(std::size_t round, Clock::time_point start) {
    if (round == 0) return true;
    const std::string answer = step(
        Phase::warm_up, [] { return std::string(); },
        [&](const std::vector<std::string>&) {
          return since(start).count > (1 + patience_share) * share_.count + patience_s ? "stop" : "go";
        });
    if (answer == "go") return true;
    result_.measured_case.pairs_sampled = true;
    return false;
  }

  static std::string nothing(const std::vector<std::string>&) { return ""; }

  std::string step(Phase phase, const LocalPart& local, const Decide& decide) {
    if (watchdog_) {
      const Seconds limit{std::max(options_.timeout.count, 10 * predict(case_, backend_.cost()).count)};
      watchdog_->expect(fmt::format("{} of {}", name_of(phase), describe(case_)), limit);
    }
    return agree(world_, phase, backend_.recovers(), local, decide);
  }

  void run_round(int round) {
    const Round& groups = (*case_.rounds)[static_cast<std::size_t>(round)];
    step(
        Phase::warm_up, [&] { return session_->warm_up(round, 1, ""), ""; }, nothing);
    const int operations = choose_operations(round);
    // Each round and quantity gets its part of what is left, so that a quick one leaves more to the next.
    const auto rounds_left = static_cast<double>(case_.rounds->size()) - round;
    const Seconds part{std::max(0.0, share_.count - sampling_s_) / rounds_left};
    if (case_.bytes <= options_.latency_up_to) {
      RoundSamples samples(groups, world_.ranks());
      const std::string stopped = take(round, Quantity::latency, 1, {part.count * latency_share}, samples);
      if (world_.leads()) keep(groups, samples, 1, stopped, result_.latency, false);
    }
    RoundSamples samples(groups, world_.ranks());
    const std::string stopped =
        take(round, Quantity::throughput, operations, {part.count * (1 - latency_share)}, samples);
    verify(round, operations, samples);
    if (world_.leads()) keep(groups, samples, operations, stopped, result_.throughput, true);
  }

  // Operations per burst, from the fastest of three single ones.
  int choose_operations(int round) {
    const SampleRequest single{
        .round = round, .quantity = Quantity::throughput, .operations = 1, .samples = 3, .poison_last = false};
    const std::string answer = step(
        Phase::warm_up, [&] { return flatten(session_->sample(single)); },
        [&](const std::vector<std::string>& parts) {
          RoundSamples trial((*case_.rounds)[static_cast<std::size_t>(round)], world_.ranks());
          trial.add(parts, single.samples);
          double one = backend_.burst().count;
          for (const auto& group : trial.groups()) one = std::min(one, *std::ranges::min_element(group));
          const double fitting = std::ceil(backend_.burst().count / std::max(one, 1e-9));
          return encode({0, std::clamp(fitting, 1.0, static_cast<double>(session_->slots()))});
        });
    return static_cast<int>(decode(answer).operations);
  }

  // Samples until the stopping rule holds in all groups or the part of the budget is spent. Returns which, at the
  // leader.
  std::string take(int round, Quantity quantity, int operations, Seconds part, RoundSamples& samples) {
    StoppingRule rule;
    if (case_.bytes < options_.tight_from) rule.relative *= 2;
    const auto start = Clock::now();
    std::string stopped;
    int count = next_batch(rule, 0);
    while (count > 0) {
      const SampleRequest request{
          .round = round, .quantity = quantity, .operations = operations, .samples = count, .poison_last = false};
      const std::string answer = step(
          Phase::sample, [&] { return flatten(session_->sample(request)); },
          [&](const std::vector<std::string>& parts) {
            samples.add(parts, count);
            return encode({decide_next(rule, samples, operations, {part.count - since(start).count}, stopped), 1});
          });
      count = static_cast<int>(decode(answer).samples);
    }
    sampling_s_ += since(start).count;
    return stopped;
  }

  // How many samples come next, at the leader; none when one of the reasons to stop holds, which is then named.
  static double decide_next(const StoppingRule& rule, const RoundSamples& samples, int operations, Seconds left,
                            std::string& stopped) {
    if (samples.all_enough(rule)) {
      stopped = fmt::format("interval within {:g} %", rule.relative * 100);
      return 0;
    }
    const int next = next_batch(rule, samples.taken());
    if (next == 0) {
      stopped = fmt::format("{} samples", rule.most);
      return 0;
    }
    const double fitting = std::floor(left.count / std::max(samples.latest() * operations, 1e-9));
    if (fitting < 1) stopped = "share of the budget spent";
    return std::clamp(fitting, 0.0, static_cast<double>(next));
  }

  // One more sample into poisoned outputs, which are then checked: the data that was timed is the data that is
  // verified.
  void verify(int round, int operations, RoundSamples& samples) {
    const SampleRequest last{
        .round = round, .quantity = Quantity::throughput, .operations = operations, .samples = 1, .poison_last = true};
    step(
        Phase::sample, [&] { return flatten(session_->sample(last)); },
        [&](const std::vector<std::string>& parts) { return samples.add(parts, 1), ""; });
    step(
        Phase::verify, [&] { return encode_verification(session_->verify(round)); },
        [&](const std::vector<std::string>& parts) {
          for (const std::string& part : parts) add_verification(part);
          return "";
        });
  }

  // "" when all is right, else lines: count, rank, offset, guard, wanted, got.
  static std::string encode_verification(const Verification& v) {
    if (v.wrong_elements == 0) return "";
    const WrongElement first = v.first.value_or(WrongElement{});
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", v.wrong_elements, first.rank, first.offset, first.guard ? 1 : 0,
                       first.wanted, first.got);
  }

  void add_verification(const std::string& text) {
    if (text.empty()) return;
    std::vector<std::string> lines;
    for (std::size_t from = 0, at = 0; at != std::string::npos; from = at + 1) {
      at = text.find('\n', from);
      lines.push_back(text.substr(from, at - from));
    }
    result_.wrong_elements += std::stoull(lines.at(0));
    if (result_.first_wrong) return;
    result_.first_wrong = WrongElement{.rank = std::stoi(lines.at(1)),
                                       .offset = std::stoull(lines.at(2)),
                                       .wanted = lines.at(4),
                                       .got = lines.at(5),
                                       .guard = lines.at(3) == "1"};
  }

  // Adds a round to the result: its pairs, and its slowest group where that is the slowest so far.
  void keep(const Round& groups, const RoundSamples& samples, int operations, const std::string& stopped,
            std::optional<Series>& series, bool headline) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const double middle = median(samples.groups()[g]);
      if (headline && case_.collective->pairwise) result_.pairs.push_back({groups[g][0], groups[g][1], {middle}});
      if (series && series->summary.median >= middle) continue;
      series = Series{.operations_per_sample = operations,
                      .samples = samples.groups()[g],
                      .summary = summarize(samples.groups()[g]),
                      .stopped_because = stopped};
      if (!headline) continue;
      result_.slowest_group = groups[g];
      result_.slowest_rank = samples.slowest_rank(groups[g]);
    }
  }

  World& world_;
  Backend& backend_;
  Joining& joining_;
  const Case& case_;
  const RunnerOptions& options_;
  const Seconds share_;
  Watchdog* watchdog_;
  double sampling_s_ = 0;  // spent of the share: connections that the first operations make are no fault of the case
  std::unique_ptr<Session> session_;
  Measurement result_;
};

double predicted_operation(const Case& c, const CostModel& cost) {
  return cost.latency.count * c.collective->steps(c.ranks) +
         static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.ranks) / (cost.bandwidth.count * 1e9);
}

}  // namespace

Seconds predict(const Case& c, const CostModel& cost) {
  constexpr double overhead_s = 1e-3;  // open, agreements
  constexpr double verification = 4;   // filling and checking, in operations
  const double one = predicted_operation(c, cost);
  const double burst = std::max(one, Backend::usual_burst.count);
  const bool both = c.bytes <= RunnerOptions{}.latency_up_to;
  const double round = usual_samples * (burst + (both ? one : 0)) + verification * one;
  return {overhead_s + round * static_cast<double>(c.rounds->size())};
}

Seconds predict_least(const Case& c, const CostModel& cost) {
  return {predict(c, cost).count * StoppingRule{}.least / usual_samples};
}

Measurement run_case(World& world, Backend& backend, Joining& joining, const Case& c, const RunnerOptions& options,
                     Seconds share, Watchdog* watchdog) {
  return CaseRun(world, backend, joining, c, options, share, watchdog).run();
}

}  // namespace p5
