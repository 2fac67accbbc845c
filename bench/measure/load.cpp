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
        first_told);
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
    ConcurrentSampling sampling(load_.all, load_burst, rule, simulated() ? enough : short_load, enough,
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
    check.under_load = check.in_messages = true;
    if (times[first] == times[second]) check.partner = likely == first ? second : first;
  }
}

}  // namespace

void check_under_load(ControlPlane& control, Backend& backend, const std::vector<LoadCase>& cases, Seconds burn,
                      std::vector<LocalChecks>& found) {
  Kept kept;
  const auto tell_wrong = [&] {
    if (!control.is_leader()) return;
    found.resize(static_cast<std::size_t>(control.ranks()));
    for (const auto& [rank, what] : kept.corrupt) {
      found.at(rank).compute.corruption = what;
      found.at(rank).compute.under_load = true;
    }
    add_wrong_messages(kept, found);
  };
  const Seconds time{
      std::max(short_load.count, burn.count / static_cast<double>(std::max<std::size_t>(cases.size(), 1)))};
  try {
    for (const LoadCase& load : cases)
      if (LoadRun run(control, backend, load, time, kept); !run.run()) return;
  } catch (const PhaseFailed&) {
    tell_wrong();
    throw;
  }
  tell_wrong();
  for (const auto& [rank, of_cases] : kept.rates)
    for (const auto& [part, figures] : under_full_load(of_cases))
      found.at(rank).figures.merge(combined(load_parts.at(part), figures));
}

// ---- The cases

namespace {

constexpr std::size_t products_part = 0, links_part = 1, nics_part = 2, copies_part = 3;  // in load_parts
// Messages are so large that one takes longer than a matrix product. The kernels of a shorter message wait until a
// product leaves multiprocessors free, so its rate would be one message per product, whatever the links can do
// (2 x H200, NVLink 18 links, NVLS off, NCCL 2.28.9, 2026-11-26: 26 instead of 225 GB/s with 32 MiB).
constexpr Bytes link_message = MiB(512), nic_message = MiB(128);
constexpr std::uint64_t share_of_messages = 64, share_of_products = 16;  // of the memory that a rank may take
constexpr int largest_side = 8192, side_step = 256, least_side = 256;

// Number of turns in which each member of a ring exchanges with both neighbours: two, or three for an odd number, of
// which one is idle in each turn.
std::size_t turns_of(std::size_t count) { return count < 3 ? 1 : count % 2 == 0 ? 2 : 3; }

// Pairs of neighbours in a ring of `count`: in turn 0 those that begin at an even place, in turn 1 those that begin at
// an odd one, and for an odd number in turn 2 the first with the last. For an even number turn 2 pairs the i-th member
// of the first half with that of the second half: it occurs if the number of domains is odd, and then a rank whose
// domain is idle in one turn still has two partners over its links in the others.
std::vector<std::pair<std::size_t, std::size_t>> partners(std::size_t count, std::size_t turn) {
  const bool odd = count % 2 == 1;
  if (count < 3) turn = 0;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (odd ? turn == 2 : turn == 1) pairs.emplace_back(0, count - 1);
  if (turn < 2)
    for (std::size_t i = turn; i + 1 < count; i += 2) pairs.emplace_back(i, i + 1);
  else
    for (std::size_t i = 0; !odd && i < count / 2; ++i) pairs.emplace_back(i, i + count / 2);
  return pairs;
}

using Domains = std::vector<Group>;  // the ranks of each NVLink domain

Domains domains_of(const DomainOfRank& domain_of_rank) {
  Domains domains;
  for (std::size_t rank = 0; rank < domain_of_rank.size(); ++rank) {
    domains.resize(std::max(domains.size(), static_cast<std::size_t>(domain_of_rank[rank]) + 1));
    domains[static_cast<std::size_t>(domain_of_rank[rank])].push_back(static_cast<int>(rank));
  }
  return domains;
}

Round pairs_within(const Domains& domains, std::size_t turn) {
  Round pairs;
  for (const Group& ranks : domains)
    for (const auto& [a, b] : partners(ranks.size(), turn)) pairs.push_back({ranks[a], ranks[b]});
  return pairs;
}

Round pairs_across(const Domains& domains, std::size_t turn) {
  Round pairs;
  for (const auto& [a, b] : partners(domains.size(), turn))
    for (std::size_t i = 0; i < std::min(domains[a].size(), domains[b].size()); ++i)
      pairs.push_back({std::min(domains[a][i], domains[b][i]), std::max(domains[a][i], domains[b][i])});
  return pairs;
}

int side_of_products(std::optional<Bytes> memory) {
  int side = largest_side;
  const auto takes = [](int n) { return device_memory({.kind = Work::Kind::gemm, .n = n, .k = n, .type = "bf16"}); };
  while (memory && side > least_side && takes(side).count > memory->count / share_of_products) side -= side_step;
  return side;
}

// The pairs of one case; an empty list adds no part to it. Different pairs have different names, because communicators
// are reused by name.
struct Turn {
  Round links, nics;
  std::string name_of_links, name_of_nics;
};

class LoadBuilder {
 public:
  LoadBuilder(const std::string& backend_name, const JobFacts& job)
      : backend_(backend_name),
        most_bytes_(job.memory_of_rank ? job.memory_of_rank->count / share_of_messages : link_message.count),
        side_(side_of_products(job.memory_of_rank)) {}

  LoadCase build(const Turn& turn) const {
    LoadCase made;
    const auto add = [&](Case c, std::optional<std::size_t> part) {
      made.parts.push_back(part);
      made.amounts.push_back(static_cast<double>(c.bytes.count));
      if (made.parts.size() == 1) {
        made.all = std::move(c);
        return;
      }
      Work work{.kind = Work::Kind::collective, .collective = c.collective, .group = c.group, .bytes = c.bytes};
      work.planned = std::make_shared<const Case>(std::move(c));
      made.all.beside.push_back(std::move(work));
    };
    if (!turn.links.empty()) add(exchange(turn.links, turn.name_of_links, 1, link_message), links_part);
    if (!turn.nics.empty()) add(exchange(turn.nics, turn.name_of_nics, 2, nic_message), nics_part);
    if (made.parts.empty()) {
      // A single GPU without a partner sends to itself and copies to the host.
      add(exchange({{0}}, "world", 1, link_message), std::nullopt);
      made.all.beside.push_back({.kind = Work::Kind::d2h});
      made.parts.emplace_back(copies_part);
      made.amounts.push_back(static_cast<double>(d2h_bytes.count));
    }
    made.all.beside.push_back({.kind = Work::Kind::gemm, .n = side_, .k = side_, .type = "bf16"});
    made.parts.emplace_back(products_part);
    made.amounts.push_back(2.0 * side_ * side_ * side_);
    return made;
  }

 private:
  Case exchange(Round pairs, std::string group, int nodes, Bytes message) const {
    Case c;
    c.backend = backend_;
    c.for_parts = true;
    c.collective = &find_collective("send_recv");
    c.group = std::move(group);
    c.ranks = static_cast<int>(pairs.front().size());
    c.nodes = nodes;
    const std::uint64_t bytes = std::max<std::uint64_t>(std::min(message.count, most_bytes_), size_of(c.type));
    c.shape = c.collective->shape({bytes}, false, size_of(c.type), c.ranks);
    c.bytes = c.shape.bytes;
    c.bytes_per_rank = c.shape.bytes_per_rank;
    return with_rounds(std::move(c), std::vector<Round>{std::move(pairs)});
  }

  std::string backend_;
  std::uint64_t most_bytes_;
  int side_;
};

std::vector<Turn> turns_of(const Domains& domains) {
  std::vector<Turn> made;
  std::size_t turns = turns_of(domains.size());
  for (const Group& ranks : domains) turns = std::max(turns, turns_of(ranks.size()));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    Turn next{pairs_within(domains, turn), pairs_across(domains, turn), "links", "nics"};
    if (turn > 0) {
      const bool other_links = next.links != made.front().links, other_nics = next.nics != made.front().nics;
      if (!other_links && !other_nics) continue;
      if (other_links) next.name_of_links += fmt::format(" {}", turn + 1);
      if (other_nics) next.name_of_nics += fmt::format(" {}", turn + 1);
    }
    made.push_back(std::move(next));
  }
  return made;
}

}  // namespace

std::vector<LoadCase> load_cases(const std::string& backend_name, const JobFacts& job) {
  const LoadBuilder builder(backend_name, job);
  std::vector<LoadCase> cases;
  for (const Turn& turn : turns_of(domains_of(job.placement().domain_of_rank))) cases.push_back(builder.build(turn));
  return cases;
}

std::vector<LoadOfRank> loads_of_ranks(const DomainOfRank& domain_of_rank) {
  std::vector<LoadOfRank> loads(domain_of_rank.size());
  for (const Turn& turn : turns_of(domains_of(domain_of_rank))) {
    std::vector<std::map<std::size_t, int>> partner(loads.size());  // by part
    for (const auto& [part, pairs] : {std::pair(links_part, &turn.links), std::pair(nics_part, &turn.nics)})
      for (const Group& pair : *pairs)
        for (const std::size_t end : {0, 1}) partner[static_cast<std::size_t>(pair[end])][part] = pair[1 - end];
    for (std::size_t rank = 0; rank < loads.size(); ++rank) {
      std::set<std::size_t> parts{products_part};
      for (const auto& [part, other] : partner[rank]) parts.insert(part);
      LoadOfRank& load = loads[rank];
      const std::size_t most = load.parts.empty() ? 0 : load.parts.begin()->size();
      if (parts.size() < most) continue;
      if (parts.size() > most) load = {};
      load.parts.insert(std::move(parts));
      for (const auto& [part, other] : partner[rank]) load.partners[part].insert(other);
    }
  }
  return loads;
}

}  // namespace p5
