#include "bench/measure/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "bench/base/statistics.hpp"
#include "bench/measure/concurrent.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {

namespace {

// Samples of a pass; a burn has as many passes as fit.
constexpr int most_samples = 24;
constexpr Seconds load_burst{5e-3};  // short, so that the few seconds of a check have several samples

// Times of one part on one rank in one case, a value for each pass.
struct Passes {
  std::vector<double> alone, beside, share;  // seconds, seconds, ratio of rates
};

// Results of all cases, at the leader.
struct Kept {
  // [rank]: of each case the figures of the parts that the rank has in it, by number of the part.
  using OfCase = std::map<std::size_t, LocalFigures>;
  std::map<std::size_t, std::vector<OfCase>> rates;
  std::map<std::size_t, std::string> corrupt;        // by rank, of its products or copies
  std::map<std::pair<int, int>, std::string> wrong;  // by pair of ranks, of their messages
};

class LoadRun {
  template <class... Parts>
  auto step(Phase phase, const Parts&... local_and_decide) {
    return agree(control_, phase, backend_.recovers(), local_and_decide...);
  }

 public:
  LoadRun(ControlPlane& control, Backend& backend, const LoadCase& load, Seconds time, Kept& kept)
      : control_(control), backend_(backend), load_(load), time_(time), kept_(kept) {}

  // False if the backend cannot run the case.
  bool run() try {
    const std::string unavailable = step(
        Phase::open,
        [&] {
          session_ = backend_.open(load_.all, 0);
          return session_->unavailable();
        },
        [](const std::vector<std::string>& parts) {
          const auto some = std::ranges::find_if(parts, [](const std::string& each) { return !each.empty(); });
          return some == parts.end() ? std::string() : *some;
        });
    if (!unavailable.empty()) return false;
    step(Phase::warm_up, [&] { session_->warm_up(1, ""); });
    const auto start = Clock::now();
    do run_pass();
    while (shared_by_leader(control_, !simulated() && kept_.corrupt.empty() && since(start).count < time_.count));
    if (control_.is_leader()) keep_rates();
    return true;
  } catch (const PhaseFailed&) {
    backend_.abandon();  // an unresponsive session cannot be closed regularly
    throw;
  }

 private:
  // A model takes no time, and gives the same with the same seed on any machine.
  bool simulated() const { return backend_.provenance() == "simulated"; }

  void run_pass() {
    constexpr Seconds enough{1e6};
    const StoppingRule rule{.most = most_samples};
    ConcurrentSampling sampling(load_.all, load_burst, rule, simulated() ? enough : short_load,
                                ConcurrentSampling::Detail::ranks);
    const Round& groups = load_.all.rounds->front();
    const auto start = Clock::now();
    ConcurrentRequest request = sampling.first();
    while (!request.operations.empty()) {
      const ConcurrentRequest running = request;
      request = step(
          Phase::sample, [&] { return sample_concurrent_times(*session_, running, groups, control_.hosted()); },
          [&](const std::vector<ConcurrentTimes>& parts) { return sampling.next(parts, since(start)); });
    }
    step(
        Phase::verify, [&] { return session_->verify(); },
        [&](const std::vector<Verification>& parts) {
          for (std::size_t i = 0; i < parts.size(); ++i) keep_wrong(parts[i], parts.size(), static_cast<int>(i));
        });
    if (!control_.is_leader()) return;
    for (std::size_t operation = 0; operation < load_.parts.size(); ++operation) {
      if (!load_.parts[operation]) continue;
      const std::vector<ConcurrentSampling::OfRank> of_ranks = sampling.of_ranks(operation);
      passes_[operation].resize(of_ranks.size());
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
        const auto [alone, beside] = of_ranks[rank];
        if (!(alone > 0) || !(beside > 0)) continue;
        Passes& its = passes_[operation][rank];
        its.alone.push_back(alone);
        its.beside.push_back(beside);
        its.share.push_back(alone / beside);
      }
    }
  }

  // The case's operation or work that a verification names.
  std::size_t operation_of(const WrongElement& wrong) const {
    for (std::size_t i = 0; i < load_.all.beside.size(); ++i)
      if (name_of(load_.all.beside[i]) == wrong.work) return i + 1;
    return 0;
  }

  void keep_wrong(const Verification& found, std::size_t participants, int participant) {
    if (found.wrong_elements == 0) return;
    const WrongElement wrong = found.first.value_or(WrongElement{});
    const std::vector<int> ranks = std::cmp_equal(participants, control_.ranks()) ? std::vector{participant}
                                   : found.wrong_ranks.empty()                    ? std::vector{wrong.rank}
                                                                                  : found.wrong_ranks;
    const std::size_t operation = operation_of(wrong);
    const std::optional<std::size_t> part = load_.parts[operation];
    const std::string what = fmt::format("{} while {}: element {} is {} instead of {}",
                                         part ? load_parts.at(*part).label : "messages to itself",
                                         part && load_parts.at(*part).exchanges ? "it computes" : "messages pass",
                                         wrong.offset, wrong.got, wrong.wanted);
    const Case& exchange = operation == 0                            ? load_.all
                           : load_.all.beside[operation - 1].planned ? *load_.all.beside[operation - 1].planned
                                                                     : load_.all;
    for (const int rank : ranks) {
      const Group* pair = nullptr;
      for (const Group& group : exchange.rounds->front())
        if (group.size() == 2 && std::ranges::find(group, rank) != group.end()) pair = &group;
      if (part && load_parts.at(*part).exchanges && pair)
        kept_.wrong.try_emplace({pair->front(), pair->back()}, what);
      else
        kept_.corrupt.try_emplace(static_cast<std::size_t>(rank), what);
    }
  }

  void keep_rates() {
    std::map<std::size_t, Kept::OfCase> of_rank;
    for (const auto& [operation, of_ranks] : passes_) {
      const LoadPart& part = load_parts.at(*load_.parts[operation]);
      const double amount = load_.amounts[operation] / part.unit_amount;
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
        const Passes& its = of_ranks[rank];
        if (its.share.empty()) continue;
        of_rank[rank][*load_.parts[operation]] = {
            {fmt::format("load_{}_alone_{}", part.name, part.unit), amount / median(its.alone)},
            {fmt::format("load_{}_{}", part.name, part.unit), amount / median(its.beside)},
            {fmt::format("load_{}_share", part.name), median(its.share)}};
      }
    }
    for (auto& [rank, figures] : of_rank) kept_.rates[rank].push_back(std::move(figures));
  }

  ControlPlane& control_;
  Backend& backend_;
  const LoadCase& load_;
  const Seconds time_;
  Kept& kept_;
  std::unique_ptr<Session> session_;
  std::map<std::size_t, std::vector<Passes>> passes_;  // by operation, then by rank
};

// Figures of those cases in which a rank has most to do, since what is left of a rate depends on that.
std::map<std::size_t, std::vector<LocalFigures>> under_full_load(const std::vector<Kept::OfCase>& of_cases) {
  std::size_t most = 0;
  for (const Kept::OfCase& each : of_cases) most = std::max(most, each.size());
  std::map<std::size_t, std::vector<LocalFigures>> by_part;
  for (const Kept::OfCase& each : of_cases)
    for (const auto& [part, figures] : each)
      if (each.size() == most) by_part[part].push_back(figures);
  return by_part;
}

// Figures of several cases in one: those of the best share where a partner may be the slow one, else the means.
LocalFigures combined(const LoadPart& part, const std::vector<LocalFigures>& of_cases) {
  const std::string share = fmt::format("load_{}_share", part.name);
  if (part.exchanges)
    return *std::ranges::max_element(of_cases, {}, [&](const LocalFigures& each) { return each.at(share); });
  LocalFigures mean;
  for (const LocalFigures& each : of_cases)
    for (const auto& [name, value] : each) mean[name] += value / static_cast<double>(of_cases.size());
  return mean;
}

// Wrong messages are the fault of the rank that all its wrong exchanges have in common; of a single one either may be.
void add_wrong_messages(const Kept& kept, std::vector<LocalChecks>& all) {
  std::map<int, int> times;
  for (const auto& [pair, what] : kept.wrong) ++times[pair.first], ++times[pair.second];
  for (const auto& [pair, what] : kept.wrong) {
    const auto [first, second] = pair;
    const int likely = times[second] > times[first] ? second : first;
    ComputeCheck& check = all.at(static_cast<std::size_t>(likely)).compute;
    if (!check.corruption.empty()) continue;
    check.corruption = what;
    check.under_load = true;
    if (times[first] == times[second]) check.partner = likely == first ? second : first;
  }
}

}  // namespace

std::vector<LocalChecks> check_under_load(ControlPlane& control, Backend& backend, const std::vector<LoadCase>& cases,
                                          Seconds burn) {
  Kept kept;
  const Seconds time{
      std::max(short_load.count, burn.count / static_cast<double>(std::max<std::size_t>(cases.size(), 1)))};
  for (const LoadCase& load : cases)
    if (LoadRun run(control, backend, load, time, kept); !run.run()) return {};
  if (!control.is_leader()) return {};
  std::vector<LocalChecks> all(static_cast<std::size_t>(control.ranks()));
  for (const auto& [rank, of_cases] : kept.rates)
    for (const auto& [part, figures] : under_full_load(of_cases))
      all.at(rank).figures.merge(combined(load_parts.at(part), figures));
  for (const auto& [rank, what] : kept.corrupt) {
    all.at(rank).compute.corruption = what;
    all.at(rank).compute.under_load = true;
  }
  add_wrong_messages(kept, all);
  return all;
}

}  // namespace p5
