#include "reports/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "bench/base/inference.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"
#include "bench/model/backends.hpp"
#include "reports/at_scale.hpp"
#include "reports/pair_times.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t most_suspects = 16;

// A part, by which its pairs are known.
struct Part {
  // node: what it passes to others; board: what joins its GPUs; nics: those of a GPU together; the wider first.
  enum class Kind { node, board, nics, gpu, nic, link } kind = Kind::node;
  int node = 0;    // link: the first one
  int number = 0;  // gpu, nics: of the rank on its node; nic: among those of its node; link: the other node
  auto operator<=>(const Part&) const = default;
};

// The NICs of a node that were measured one by one, numbered as --fault does: those of the fabric in the host's order.
// What ranks tell that the host does not, comes behind them.
class NicNumbers {
 public:
  explicit NicNumbers(const topo::Topology& topology) {
    const std::vector<Place> places = places_of(topology);
    for (std::size_t rank = 0; rank < std::min(places.size(), topology.nics_of_rank.size()); ++rank) {
      std::vector<std::string>& names = names_of_[places[rank].node];
      if (names.empty()) names = fabric_nics(topology.hosts.at(static_cast<std::size_t>(places[rank].node)));
      std::vector<int>& numbers = of_rank_[places[rank]];
      for (const std::string& name : topology.nics_of_rank[rank]) {
        auto found = std::ranges::find(names, name);
        if (found == names.end()) found = names.insert(names.end(), name);
        numbers.push_back(static_cast<int>(found - names.begin()));
      }
    }
  }

  const std::vector<int>& of(Place rank) const {
    static const std::vector<int> none;
    const auto found = of_rank_.find(rank);
    return found == of_rank_.end() ? none : found->second;
  }
  std::string name(int node, int number) const {
    const auto found = names_of_.find(node);
    return found == names_of_.end() || std::cmp_greater_equal(number, found->second.size())
               ? std::string()
               : found->second[static_cast<std::size_t>(number)];
  }

  static std::vector<std::string> fabric_nics(const topo::Host& host) {
    std::vector<std::string> names;
    for (const topo::Nic& nic : host.nics)
      if (nic.kind == "efa" || nic.kind == "infiniband") names.push_back(nic.name);
    return names;
  }

 private:
  std::map<int, std::vector<std::string>> names_of_;
  std::map<Place, std::vector<int>> of_rank_;
};

// What stands on a pair's way. Guilt is judged by the pairs of `own` alone; a part that is guilty explains the others
// too: of four NICs that a GPU has, one that is slow may slow the GPU's messages or not.
struct OnTheWay {
  std::vector<Part> own, maybe;
};

// own_nics: whether a rank's messages go through NICs of its own; those of processes go through all of their host's.
OnTheWay parts_of(const PairTime& two, const NicNumbers& numbers, bool own_nics) {
  using enum Part::Kind;
  OnTheWay way;
  if (two.within()) {
    way.own = {{board, two.a.node, 0}, {gpu, two.a.node, two.a.number}, {gpu, two.b.node, two.b.number}};
    return way;
  }
  const auto [first, second] = std::minmax(two.a.node, two.b.node);
  way.own = {{node, first, 0}, {node, second, 0}, {link, first, second}};
  for (const Place& end : {two.a, two.b}) {
    if (two.nic) {
      way.own.push_back({nic, end.node, numbers.of(end).at(static_cast<std::size_t>(*two.nic))});
    } else if (own_nics) {
      way.own.push_back({nics, end.node, end.number});
      way.maybe.push_back({gpu, end.node, end.number});
      for (const int number : numbers.of(end)) way.maybe.push_back({nic, end.node, number});
    }
  }
  return way;
}

struct PairsOfPart {
  std::vector<const PairTime*> own, maybe;
};

// Whom it met: nodes of a node, ranks of a GPU and its NICs.
std::size_t partners_of(const Part& part, const std::vector<const PairTime*>& pairs) {
  std::set<Place> met;
  for (const PairTime* two : pairs) {
    const auto is_end = [&](Place end) {
      return end.node == part.node && (part.kind != Part::Kind::gpu || end.number == part.number);
    };
    if (part.kind == Part::Kind::link || part.kind == Part::Kind::board) {
      met.insert(two->a);
      continue;
    }
    const Place other = is_end(two->a) ? two->b : two->a;
    met.insert(part.kind == Part::Kind::node ? Place{other.node, 0} : other);
  }
  return met.size();
}

// Which of a pair's times are looked at.
struct Quantity {
  std::vector<double> PairTime::*all;
  std::vector<double> PairTime::*again;
};
constexpr Quantity usual{&PairTime::usual, &PairTime::again}, high{&PairTime::high, &PairTime::high_again};

struct Accused {
  Part part;
  double ratio = 1;  // the median of its pairs over that of the others
  double p = 1;      // that chance made it so, for all parts together
  std::vector<const PairTime*> pairs;
  std::size_t partners = 0;
  std::optional<double> again;  // the median of those that were measured again
  bool at_times = false;
};

// What it takes to be accused.
struct Rules {
  std::size_t partners = 2;  // at least, that agree
  double share = 0.85;       // of its pairs that are slow: one may have been measured at a good moment
  double chance = chance_of_accusing;
  bool alone = true;      // nothing elsewhere explains the same pairs as well
  bool repeated = false;  // slow also when measured again
};
// Worth measuring again: with more partners, or once more, it may be accused.
constexpr Rules doubtful{.partners = 1, .share = 0.6, .chance = 1, .alone = false, .repeated = false};

class Trial {
 public:
  Trial(const std::vector<PairTime>& pairs, const NicNumbers& numbers, bool own_nics, const Rules& rules)
      : rules_(rules) {
    for (const PairTime& two : pairs) {
      for (const Part& part : parts_of(two, numbers, own_nics).own) of_part_[part].own.push_back(&two);
      (two.within() ? within_ : two.nic ? single_nics_ : between_).push_back(&two);
    }
    for (const PairTime& two : pairs)
      for (const Part& part : parts_of(two, numbers, own_nics).maybe)
        if (const auto found = of_part_.find(part); found != of_part_.end()) found->second.maybe.push_back(&two);
  }

  // The part that explains most of the slow pairs that nobody has explained, then the next; each is then weighed
  // against the pairs that none of them explains.
  void find(const Quantity& quantity, std::vector<Accused>& accused) {
    for (const auto* kind : {&within_, &between_, &single_nics_})
      for (const PairTime* two : *kind) {
        const std::vector<double>& times = two->*quantity.all;
        if (!times.empty() && median(times) > 1 + matters) slow_.insert(two);
      }
    std::vector<std::pair<Part, std::vector<const PairTime*>>> guilty;
    while (guilty.size() < most_suspects) {
      const Part* best = nullptr;
      std::size_t explained = 0;
      bool alone = true;
      for (const auto& [part, pairs] : of_part_) {
        const std::size_t slow = slow_if_guilty(part, pairs);
        if (slow > explained) {
          best = &part;
          explained = slow;
          alone = true;
        } else if (best && slow == explained && slow > 0 && part.node != best->node &&
                   pairs.own == of_part_.at(*best).own) {
          alone = false;
        }
      }
      if (!best) break;
      const PairsOfPart& pairs = of_part_.at(*best);
      if (alone || !rules_.alone) guilty.emplace_back(*best, open(pairs.own));
      for (const auto* each : {&pairs.own, &pairs.maybe}) explained_.insert(each->begin(), each->end());
    }
    for (const auto& [part, pairs] : guilty) {
      Accused found = weigh(part, pairs, quantity);
      found.at_times = quantity.all == high.all;
      const bool holds = !rules_.repeated || found.again.value_or(1) > 1 + matters;
      if (holds && found.p <= rules_.chance) accused.push_back(std::move(found));
    }
    slow_.clear();
  }

 private:
  std::vector<const PairTime*> open(const std::vector<const PairTime*>& pairs) const {
    std::vector<const PairTime*> left;
    std::ranges::copy_if(pairs, std::back_inserter(left),
                         [&](const PairTime* two) { return !explained_.contains(two); });
    return left;
  }

  // How many slow pairs it would explain; 0 when too many of its pairs are fast, or too few are left to say.
  std::size_t slow_if_guilty(const Part& part, const PairsOfPart& pairs) const {
    const std::vector<const PairTime*> own = open(pairs.own), maybe = open(pairs.maybe);
    const auto count_slow = [&](const std::vector<const PairTime*>& list) {
      return static_cast<std::size_t>(
          std::ranges::count_if(list, [&](const PairTime* two) { return slow_.contains(two); }));
    };
    const auto share = [](std::size_t slow, std::size_t all) {
      return all == 0 ? 0.0 : static_cast<double>(slow) / static_cast<double>(all);
    };
    const std::size_t slow = count_slow(own), maybe_slow = count_slow(maybe), all = slow + maybe_slow;
    // All that a GPU sends passes it: what is slow beyond its node counts where half of what is within is slow too.
    const bool beyond = part.kind == Part::Kind::gpu && share(slow, own.size()) >= 0.5 &&
                        share(all, own.size() + maybe.size()) >= rules_.share;
    if (share(slow, own.size()) < rules_.share && !beyond) return 0;
    if (part.kind == Part::Kind::link ? !are_known_elsewhere(part) : partners_of(part, own) < rules_.partners) return 0;
    return all;
  }

  // Of a link: whether each of its nodes met others too.
  bool are_known_elsewhere(const Part& link) const {
    return std::ranges::all_of(std::array{link.node, link.number}, [&](int node) {
      return partners_of({Part::Kind::node, node, 0}, of_part_.at({Part::Kind::node, node, 0}).own) >= rules_.partners;
    });
  }

  Accused weigh(const Part& part, const std::vector<const PairTime*>& pairs, const Quantity& quantity) {
    std::vector<double> its, others, again;
    std::map<const std::vector<const PairTime*>*, bool> kinds;
    for (const PairTime* two : pairs) {
      kinds[&kind_of(*two)] = true;
      its.insert(its.end(), (two->*quantity.all).begin(), (two->*quantity.all).end());
      again.insert(again.end(), (two->*quantity.again).begin(), (two->*quantity.again).end());
    }
    for (const auto& [kind, there] : kinds)
      for (const PairTime* two : *kind)
        if (!explained_.contains(two))
          others.insert(others.end(), (two->*quantity.all).begin(), (two->*quantity.all).end());
    Accused found;
    found.part = part;
    found.ratio = median(its);
    found.pairs = pairs;
    found.partners = partners_of(part, pairs);
    if (!again.empty()) found.again = median(again);
    if (others.empty()) return found;
    found.p = std::min(1.0, test_.above(others, its) * static_cast<double>(of_part_.size()));
    found.ratio /= median(std::move(others));
    return found;
  }

  const std::vector<const PairTime*>& kind_of(const PairTime& two) const {
    return two.within() ? within_ : two.nic ? single_nics_ : between_;
  }

  Rules rules_;
  std::map<Part, PairsOfPart> of_part_;
  std::vector<const PairTime*> within_, between_, single_nics_;
  std::set<const PairTime*> slow_, explained_;
  RankTest test_;
};

// The NICs near a GPU as numbers among those of its host, as --fault counts them; empty where that is not known.
std::vector<std::size_t> nics_of_gpu(const topo::Host& host, int gpu) {
  std::vector<std::size_t> numbers;
  if (std::cmp_greater_equal(gpu, host.gpu_devices.size())) return numbers;
  const std::vector<std::string>& names = host.gpu_devices[static_cast<std::size_t>(gpu)].nics;
  const std::vector<std::string> fabric = NicNumbers::fabric_nics(host);
  for (std::size_t i = 0; i < fabric.size(); ++i)
    if (std::ranges::find(names, fabric[i]) != names.end()) numbers.push_back(i);
  return numbers;
}

std::string name_of(const Part& part, const topo::Host& host) {
  using enum Part::Kind;
  switch (part.kind) {
    case node:
    case board:
      return fmt::format("n{}", part.node);
    case link:
      return fmt::format("n{}-n{}", part.node, part.number);
    case gpu:
      return fmt::format("n{}g{}", part.node, part.number);
    case nic:
      return fmt::format("n{}r{}", part.node, part.number);
    case nics:
      break;
  }
  const std::vector<std::size_t> beside = nics_of_gpu(host, part.number);
  if (beside.empty()) return fmt::format("n{}g{}", part.node, part.number);
  if (beside.size() == 1) return fmt::format("n{}r{}", part.node, beside.front());
  return fmt::format("n{}r{}-{}", part.node, beside.front(), beside.back());
}

std::string plural(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// The numbers behind an accusation, to follow "... reaches others at".
std::string figures_of(const Accused& accused) {
  std::string text = fmt::format("{:.0f} % of the others' rate", 100 / accused.ratio);
  if (accused.at_times) text += " in the slowest third of its samples, and comes and goes";
  text += fmt::format(", over {}", plural(accused.pairs.size(), "pair"));
  if (accused.again) text += fmt::format(" ({:.0f} % when measured again)", 100 / *accused.again);
  return text;
}

std::string uuid_of(Place gpu, const topo::Topology& topology) {
  const std::vector<Place> places = places_of(topology);
  const auto rank = static_cast<std::size_t>(std::ranges::find(places, gpu) - places.begin());
  return rank < topology.gpu_of_rank.size() ? topology.gpu_of_rank[rank] : "";
}

struct Known {
  bool within = false;          // pairs of its node were measured, and so are known to be fast
  bool fast_nics = false;       // each of its NICs is fast alone, with somebody
  std::optional<int> slow_nic;  // the only one that is not: slow alone with all that it met
};

// Pairs with nodes that are slow say nothing of it.
Known known_of(Place place, const std::vector<PairTime>& pairs, const std::set<int>& slow_nodes,
               const NicNumbers& numbers) {
  Known known;
  std::set<int> measured, fast;
  for (const PairTime& two : pairs) {
    if (two.a != place && two.b != place) continue;
    known.within |= two.within();
    if (!two.nic || slow_nodes.contains(two.a.node) || slow_nodes.contains(two.b.node)) continue;
    measured.insert(*two.nic);
    if (!is_slow(two)) fast.insert(*two.nic);
  }
  const std::vector<int>& nics = numbers.of(place);
  if (measured.empty() || measured.size() < nics.size()) return known;
  known.fast_nics = fast.size() == nics.size();
  if (fast.size() + 1 != nics.size()) return known;
  for (std::size_t nic = 0; nic < nics.size(); ++nic)
    if (!fast.contains(static_cast<int>(nic))) known.slow_nic = nics[nic];
  return known;
}

Suspect suspect_of(const Accused& accused, const Known& known, const topo::Topology& topology,
                   const NicNumbers& numbers) {
  using enum Part::Kind;
  const Part& part = accused.part;
  const topo::Host& host = topology.hosts.at(static_cast<std::size_t>(part.node));
  Suspect s;
  s.name = name_of(part, host);
  s.host = host.name;
  s.instance = host.instance;
  s.partners_tested = static_cast<int>(accused.partners);
  s.confidence = 1 - accused.p;
  const std::string figures = figures_of(accused), agree = plural(accused.partners, "partner") + " agree";
  constexpr const char* replace = "replace the instance, and open a case with support.txt";
  switch (part.kind) {
    case node:
      s.kind = "node";
      s.evidence = fmt::format("all that it sends and receives goes at {}; {} agree", figures,
                               plural(accused.partners, "other node"));
      s.action = "replace the instance; its own settings first, where other jobs run on it";
      break;
    case board:
      s.kind = "node";
      s.evidence = fmt::format("all its GPUs reach each other at {}", figures);
      s.action = "look at its fabric manager, NVSwitches and power, reboot it; if it stays, replace the instance";
      break;
    case nic:
      s.kind = "nic";
      s.device = numbers.name(part.node, part.number);
      s.evidence = fmt::format("{} alone reaches other nodes at {}; {}", s.device, figures, agree);
      s.action = replace;
      break;
    case nics: {
      s.kind = "nic";
      std::string which = "it is one of the NICs beside it, which pairs of GPUs do not tell apart";
      if (known.fast_nics) which = "each NIC beside it is fast alone, so it is what they share on the way to the GPU";
      if (known.slow_nic) {
        s.name = name_of({nic, part.node, *known.slow_nic}, host);
        s.device = numbers.name(part.node, *known.slow_nic);
        which = fmt::format("of the NICs beside it {} alone is slow by itself", s.device);
      }
      s.evidence = fmt::format("GPU {} reaches other nodes at {}; {}{}: {}", part.number, figures, agree,
                               known.within ? ", and within its node it is fast" : "", which);
      s.action = replace;
      break;
    }
    case gpu:
      s.kind = "gpu";
      s.device = uuid_of({part.node, part.number}, topology);
      s.evidence = fmt::format("GPU {} reaches the other GPUs of its node at {}; {}", part.number, figures, agree);
      s.action =
          "look at its NVLinks (nvidia-smi nvlink -s -e) and clocks, reset it or reboot; if it stays, replace the "
          "instance";
      break;
    case link: {
      const topo::Host& other = topology.hosts.at(static_cast<std::size_t>(part.number));
      s.kind = "link";
      s.evidence = fmt::format("between {} and {} pairs run at {}, and either is fast with other nodes", host.name,
                               other.name, figures);
      s.action = "it is what lies between the two: keep one of them out of a job, and open a case with support.txt";
      break;
    }
  }
  return s;
}

std::vector<Accused> try_all(const Report& report, const std::vector<PairTime>& pairs, const NicNumbers& numbers,
                             const Rules& rules) {
  const bool own_nics = std::ranges::none_of(cases_of_pairs(report), [&](std::size_t at) {
    return find_backend(report.results[at].measurement.measured_case.backend).parts == BackendInfo::Parts::hosts;
  });
  Trial trial(pairs, numbers, own_nics, rules);
  std::vector<Accused> accused;
  trial.find(usual, accused);
  trial.find(high, accused);
  return accused;
}

}  // namespace

std::vector<Suspect> find_suspects(const Report& report, const std::vector<Measurement>& again) {
  const topo::Topology& topology = report.topology;
  const std::vector<PairTime> pairs = pair_times(report, again);
  const NicNumbers numbers(topology);
  const std::vector<Accused> accused = try_all(report, pairs, numbers, {.repeated = !again.empty()});
  // What is slow within its node is slow beyond it too.
  const auto is_told = [&](const Accused& each) {
    return each.part.kind == Part::Kind::board && std::ranges::any_of(accused, [&](const Accused& other) {
             return other.part.kind == Part::Kind::node && other.part.node == each.part.node;
           });
  };
  std::set<int> slow_nodes;
  for (const Accused& each : accused)
    if (each.part.kind == Part::Kind::node) slow_nodes.insert(each.part.node);
  std::vector<Suspect> suspects;
  for (const Accused& each : accused) {
    if (is_told(each)) continue;
    const Known known = known_of({each.part.node, each.part.number}, pairs, slow_nodes, numbers);
    Suspect found = suspect_of(each, known, topology, numbers);
    // A NIC may be found twice, by its own pairs and by its GPU's.
    const auto is_same = [&](const Suspect& other) { return other.kind == found.kind && other.name == found.name; };
    if (std::ranges::none_of(suspects, is_same)) suspects.push_back(std::move(found));
  }
  return suspects.empty() ? suspects_at_scale(report, again) : suspects;
}

std::vector<InDoubt> in_doubt(const Report& report) {
  constexpr std::size_t most = 64;  // of an operation, the slowest: where more is slow, that is not one part
  std::vector<InDoubt> all;
  std::map<std::pair<std::pair<Place, Place>, int>, double> slow;
  const std::vector<PairTime> times = pair_times(report, {});
  for (const Accused& each : try_all(report, times, NicNumbers(report.topology), doubtful))
    for (const PairTime* two : each.pairs) slow[{{two->a, two->b}, two->nic.value_or(-1)}] = slowness(*two);
  const std::vector<Place> places = places_of(report.topology);
  for (const std::size_t at : cases_of_pairs(report)) {
    const Measurement& m = report.results[at].measurement;
    // Of the plan's patterns the one that asks most; what is measured for the parts' sake has one.
    if (!m.measured_case.for_parts && m.measured_case.pattern != "both_ways") continue;
    std::set<std::pair<double, Group>, std::greater<>> found;
    for (const GroupResult& result : m.groups) {
      const auto [low, high_rank] = std::minmax(result.group.front(), result.group.back());
      const std::pair two{places.at(static_cast<std::size_t>(low)), places.at(static_cast<std::size_t>(high_rank))};
      const auto its = slow.find({two, m.measured_case.nic.value_or(-1)});
      if (its != slow.end()) found.insert({its->second, {low, high_rank}});
    }
    if (found.empty()) continue;
    std::vector<Group> pairs;
    for (const auto& [its, pair] : found | std::views::take(most)) pairs.push_back(pair);
    all.push_back({m.measured_case, std::move(pairs)});
  }
  std::ranges::move(groups_in_doubt(report), std::back_inserter(all));
  return all;
}

std::string sentence_about(const Suspect& suspect) {
  std::vector<std::string> where;
  for (const std::string* each : {&suspect.host, &suspect.instance, &suspect.device})
    if (!each->empty()) where.push_back(*each);
  return fmt::format("{} {}{}: {}. To do: {}", suspect.kind, suspect.name,
                     where.empty() ? "" : fmt::format(" ({})", join(where)), suspect.evidence, suspect.action);
}

}  // namespace p5::reports
