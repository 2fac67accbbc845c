#include "bench/model/groups.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <span>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

constexpr std::string_view stride_prefix = "stride:";

std::vector<Group> ranks_of_nodes(const NodeOfRank& node_of_rank) {
  std::vector<Group> nodes(static_cast<std::size_t>(count_nodes(node_of_rank)));
  for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank)
    nodes[static_cast<std::size_t>(node_of_rank[rank])].push_back(static_cast<int>(rank));
  return nodes;
}

Round rails(const std::vector<Group>& nodes) {
  Round groups;
  for (const Group& node : nodes) {
    if (groups.size() < node.size()) groups.resize(node.size());
    for (std::size_t i = 0; i < node.size(); ++i) groups[i].push_back(node[i]);
  }
  return groups;
}

Round strides(std::string_view spec, int ranks) {
  const int stride = as_number<int>(spec.substr(stride_prefix.size())).value_or(0);
  if (stride < 1 || stride > ranks)
    throw UsageError(
        fmt::format("group '{}' has no valid stride: write stride:N with a whole number N from 1 to the "
                    "number of ranks, {}",
                    spec, ranks));
  Round groups(static_cast<std::size_t>(stride));
  for (int rank = 0; rank < ranks; ++rank) groups[static_cast<std::size_t>(rank % stride)].push_back(rank);
  return groups;
}

Group pair_of(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

// The pairs within nodes, all nodes at once. Small nodes finish before large ones.
std::vector<Round> rounds_within(const std::vector<Group>& nodes) {
  std::vector<Round> rounds;
  for (const Group& node : nodes) {
    const auto schedule = round_robin(static_cast<int>(node.size()));
    if (rounds.size() < schedule.size()) rounds.resize(schedule.size());
    for (std::size_t i = 0; i < schedule.size(); ++i)
      for (const auto& [a, b] : schedule[i])
        rounds[i].push_back(pair_of(node[static_cast<std::size_t>(a)], node[static_cast<std::size_t>(b)]));
  }
  return rounds;
}

// All rounds between nodes, numbered: first those of shift 0, which pairs same positions, for each round of nodes, then
// shift 1. Smaller nodes count as filled up to the largest; missing positions are idle.
class RoundsBetween {
 public:
  explicit RoundsBetween(const std::vector<Group>& nodes)
      : nodes_(nodes), schedule_(round_robin(static_cast<int>(nodes.size()))) {
    for (const Group& node : nodes) positions_ = std::max(positions_, node.size());
  }

  std::size_t count() const { return schedule_.size() * positions_; }
  std::size_t same_position_count() const { return schedule_.size(); }

  // The round may be empty when nodes differ in size.
  Round operator[](std::size_t number) const {
    Round round;
    const std::size_t shift = number / schedule_.size();
    for (const auto& [a, b] : schedule_[number % schedule_.size()]) {
      const Group& first = nodes_[static_cast<std::size_t>(a)];
      const Group& second = nodes_[static_cast<std::size_t>(b)];
      for (std::size_t i = 0; i < first.size(); ++i) {
        const std::size_t partner = (i + shift) % positions_;
        if (partner < second.size()) round.push_back(pair_of(first[i], second[partner]));
      }
    }
    return round;
  }

 private:
  const std::vector<Group>& nodes_;
  std::vector<std::vector<std::pair<int, int>>> schedule_;
  std::size_t positions_ = 0;
};

// Order in which rounds between nodes are drawn: at random, but same positions first.
std::vector<std::size_t> drawing_order(const RoundsBetween& between, std::uint64_t seed) {
  std::vector<std::size_t> order(between.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  const std::span all(order);
  shuffle(all.first(between.same_position_count()), random);
  shuffle(all.subspan(between.same_position_count()), random);
  return order;
}

// Appends rounds between nodes in this order until there are `most`; returns true if none is left.
bool append_rounds(std::vector<Round>& rounds, const RoundsBetween& between, const std::vector<std::size_t>& order,
                   std::size_t most) {
  for (const std::size_t number : order) {
    Round round = between[number];
    if (round.empty()) continue;
    if (rounds.size() >= most) return false;
    rounds.push_back(std::move(round));
  }
  return true;
}

// All rounds, or `most` of them drawn with `seed`; false: some were left out.
bool draw_rounds(std::vector<Round>& rounds, const RoundsBetween& between, int most, std::uint64_t seed) {
  std::vector<std::size_t> in_order(between.count());
  std::iota(in_order.begin(), in_order.end(), std::size_t{0});
  if (append_rounds(rounds, between, in_order, static_cast<std::size_t>(most))) return true;
  rounds.clear();
  append_rounds(rounds, between, drawing_order(between, seed), static_cast<std::size_t>(most));
  return false;
}

// The ranks of a domain by node.
std::vector<Group> nodes_of_domain(const Placement& placement, const Group& domain) {
  std::map<int, Group> nodes;
  for (const int rank : domain) nodes[placement.node_of_rank[static_cast<std::size_t>(rank)]].push_back(rank);
  std::vector<Group> all;
  for (auto& [node, ranks] : nodes) all.push_back(std::move(ranks));
  return all;
}

// Two halves of the numbers from 0, ascending; with an odd number one is in neither.
using Split = std::array<std::vector<std::size_t>, 2>;

// How often two numbers were in different halves, and in the same half.
class Encounters {
 public:
  explicit Encounters(std::size_t count) : count_(count), seen_(count * count, 0) {}

  // Number of pairs that this split would part or bring together for the first time.
  std::size_t news_in(const Split& split) const {
    std::size_t news = 0;
    visit(split, [&](std::size_t at, char how) { news += (seen_[at] & how) == 0 ? 1 : 0; });
    return news;
  }
  void add(const Split& split) {
    visit(split, [&](std::size_t at, char how) { seen_[at] = static_cast<char>(seen_[at] | how); });
  }
  // True if each two were in different halves and in the same one.
  bool are_complete() const {
    for (std::size_t a = 0; a < count_; ++a)
      for (std::size_t b = a + 1; b < count_; ++b)
        if (seen_[a * count_ + b] != (parted | together)) return false;
    return true;
  }

 private:
  static constexpr char parted = 1, together = 2;

  template <class Each>
  void visit(const Split& split, const Each& each) const {
    const auto at = [&](std::size_t a, std::size_t b) { return std::min(a, b) * count_ + std::max(a, b); };
    for (const std::vector<std::size_t>& half : split)
      for (std::size_t i = 0; i < half.size(); ++i)
        for (std::size_t j = i + 1; j < half.size(); ++j) each(at(half[i], half[j]), together);
    for (const std::size_t a : split[0])
      for (const std::size_t b : split[1]) each(at(a, b), parted);
  }

  std::size_t count_;
  std::vector<char> seen_;  // of a < b: a * count + b
};

// Splits of few numbers: all but one, each one left out in turn. Halves of so few numbers would have at most two
// members, which show no more than a pair.
std::vector<Split> splits_without_one(std::size_t count) {
  std::vector<Split> splits(count);
  for (std::size_t one = 0; one < count; ++one)
    for (std::size_t each = 0; each < count; ++each)
      if (each != one) splits[one][0].push_back(each);
  return splits;
}

// Splits drawn with `seed` so that no two numbers are in the same half in all of them. For up to 64
// numbers each two are also in the same half once, if a few more splits suffice: otherwise a fault in what only these
// two have in common, such as their link, would not be measured.
std::vector<Split> balanced_splits(std::size_t count, std::uint64_t seed) {
  constexpr std::size_t spare = 2, more = 3, most_compared = 64;
  constexpr int most_drawn = 100, draws = 32;  // six numbers have only ten splits
  std::vector<Split> chosen;
  const std::size_t wanted = static_cast<std::size_t>(std::bit_width(count - 1)) + spare;
  const bool compares = count <= most_compared;
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> previous_halves(count);  // halves of each number so far
  const auto draw = [&] {
    // Numbers with the same halves so far are separated: every other one goes to the other half.
    shuffle(order, random);
    if (std::set(previous_halves.begin(), previous_halves.end()).size() < count)
      std::ranges::stable_sort(order, {}, [&](std::size_t each) { return previous_halves[each]; });
    Split split;
    for (std::size_t i = 0; i < count / 2 * 2; ++i) split[i % 2].push_back(order[i]);
    for (std::vector<std::size_t>& half : split) std::ranges::sort(half);
    std::ranges::sort(split);
    return split;
  };
  Encounters encounters(compares ? count : 0);
  for (int drawn = 0; drawn < most_drawn; ++drawn) {
    const bool enough = chosen.size() >= wanted;
    if (enough && (!compares || chosen.size() >= wanted + more || encounters.are_complete())) break;
    Split split = draw();
    for (int other = 1; compares && other < draws; ++other)
      if (Split next = draw(); encounters.news_in(next) > encounters.news_in(split)) split = std::move(next);
    if (std::ranges::find(chosen, split) != chosen.end()) continue;
    for (std::size_t half = 0; half < split.size(); ++half)
      for (const std::size_t each : split[half]) previous_halves[each].push_back(chosen.size() * 2 + half);
    if (compares) encounters.add(split);
    chosen.push_back(std::move(split));
  }
  return chosen;
}

}  // namespace

int count_nodes(const NodeOfRank& node_of_rank) {
  return node_of_rank.empty() ? 0 : *std::ranges::max_element(node_of_rank) + 1;
}

int spanned_by(const Group& group, const NodeOfRank& node_of_rank) {
  std::set<int> nodes;
  for (const int rank : group) nodes.insert(node_of_rank[static_cast<std::size_t>(rank)]);
  return static_cast<int>(nodes.size());
}

bool are_of_one_size(const Round& groups) {
  return std::ranges::all_of(groups, [&](const Group& each) { return each.size() == groups.front().size(); });
}

Round communicators_of(const Round& round, int ranks) {
  if (round.size() == 1 && std::cmp_equal(round.front().size(), ranks)) return {};
  Round groups = round;
  for (Group& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups);
  return groups;
}

Round communicators_of(const Case& c, int round, int ranks) {
  return communicators_of(c.communicators ? *c.communicators : c.rounds->at(static_cast<std::size_t>(round)), ranks);
}

Round make_groups(std::string_view spec, const Placement& placement) {
  const NodeOfRank& node_of_rank = placement.node_of_rank;
  if (spec == "world") {
    Group all(node_of_rank.size());
    std::iota(all.begin(), all.end(), 0);
    return {all};
  }
  if (spec == "node") return ranks_of_nodes(node_of_rank);
  if (spec == "domain") return ranks_of_nodes(placement.domain_of_rank);
  if (spec == "rail") return rails(ranks_of_nodes(node_of_rank));
  if (spec.starts_with(stride_prefix)) return strides(spec, static_cast<int>(node_of_rank.size()));
  const std::array<std::string, 5> known{"world", "node", "domain", "rail", "stride:N"};
  throw UsageError(unknown_name("group", spec, known));
}

std::vector<std::vector<std::pair<int, int>>> round_robin(int count) {
  if (count < 2) return {};
  // The last of an even number of seats is fixed, the others rotate by one each round; with an odd number it is empty.
  const int moving = count % 2 == 0 ? count - 1 : count;
  std::vector<std::vector<std::pair<int, int>>> rounds(static_cast<std::size_t>(moving));
  for (int r = 0; r < moving; ++r) {
    auto& round = rounds[static_cast<std::size_t>(r)];
    if (count % 2 == 0) round.emplace_back(r, count - 1);
    for (int i = 1; i <= (moving - 1) / 2; ++i) {
      const int a = (r + i) % moving, b = (r - i + moving) % moving;
      round.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

PairRounds all_pairs(const Placement& placement, int most_rounds, std::uint64_t seed) {
  const std::vector<Group> domains = ranks_of_nodes(placement.domain_of_rank);
  PairRounds pairs;
  pairs.same_node = rounds_within(ranks_of_nodes(placement.node_of_rank));
  int left = most_rounds - static_cast<int>(pairs.same_node.size());
  if (placement.has_wide_domains()) {
    // Domains share the limit with what is between them, if there is more than one.
    const int most = std::max(domains.size() > 1 ? left / 2 : left, 1);
    for (std::size_t domain = 0; domain < domains.size(); ++domain) {
      const std::vector<Group> nodes = nodes_of_domain(placement, domains[domain]);
      std::vector<Round> rounds;
      pairs.sampled |= !draw_rounds(rounds, RoundsBetween(nodes), most, seed + domain);
      if (pairs.same_domain.size() < rounds.size()) pairs.same_domain.resize(rounds.size());
      for (std::size_t i = 0; i < rounds.size(); ++i)
        std::ranges::move(rounds[i], std::back_inserter(pairs.same_domain[i]));
    }
    left -= static_cast<int>(pairs.same_domain.size());
  }
  pairs.sampled |= !draw_rounds(pairs.other_domain, RoundsBetween(domains), std::max(left, 1), seed);
  return pairs;
}

std::vector<Round> pairs_between(const NodeOfRank& node_of_rank, const std::vector<bool>& takes_part, int most,
                                 std::uint64_t seed) {
  const std::vector<Group> nodes = ranks_of_nodes(node_of_rank);
  const RoundsBetween between(nodes);
  std::mt19937_64 random(seed);
  const std::size_t rounds_per_shift = between.same_position_count();
  std::vector<std::size_t> shifts(rounds_per_shift == 0 ? 0 : between.count() / rounds_per_shift);
  std::iota(shifts.begin(), shifts.end(), std::size_t{0});
  if (!shifts.empty()) shuffle(std::span(shifts).subspan(1), random);
  std::vector<Round> rounds;
  for (const std::size_t shift : shifts) {
    std::vector<std::size_t> of_shift(rounds_per_shift);
    std::iota(of_shift.begin(), of_shift.end(), shift * rounds_per_shift);
    shuffle(of_shift, random);
    for (const std::size_t number : of_shift) {
      if (std::cmp_greater_equal(rounds.size(), most)) return rounds;
      Round round = between[number];
      std::erase_if(round, [&](const Group& pair) {
        return std::ranges::any_of(pair, [&](int rank) { return !takes_part[static_cast<std::size_t>(rank)]; });
      });
      if (!round.empty()) rounds.push_back(std::move(round));
    }
  }
  return rounds;
}

std::vector<Round> select_retest_rounds(const RetestPairs& doubts, const std::vector<Round>& rounds, int most) {
  constexpr int times = 2;
  std::map<Group, int> left;         // suspected pairs: remaining measurements
  std::map<int, std::set<int>> met;  // suspected ranks: partners so far
  for (const Group& pair : doubts.pairs) {
    left[pair] = times;
    for (const int rank : pair) met[rank];
  }
  const auto visit = [&](const Round& round, const auto& of_pair, const auto& of_rank) {
    for (const Group& pair : round) {
      const auto [low, high] = std::minmax(pair.front(), pair.back());
      if (const auto found = left.find({low, high}); found != left.end()) {
        if (found->second > 0) of_pair(found->second);
        continue;
      }
      const auto first = met.find(low), second = met.find(high);
      if ((first == met.end()) == (second == met.end())) continue;
      const auto& [rank, others] = first == met.end() ? *second : *first;
      const int other = rank == low ? high : low;
      if (std::cmp_less(others.size(), doubts.partners) && !others.contains(other)) of_rank(rank, other);
    }
  };
  std::vector<Round> chosen;
  while (std::cmp_less(chosen.size(), most)) {
    const Round* best = nullptr;
    int best_worth = 0;
    for (const Round& round : rounds) {
      int worth = 0;
      visit(
          round, [&](int) { ++worth; }, [&](int, int) { ++worth; });
      if (worth > best_worth) best = &round, best_worth = worth;
    }
    if (!best) break;
    visit(
        *best, [](int& times_left) { --times_left; }, [&](int rank, int other) { met[rank].insert(other); });
    chosen.push_back(*best);
  }
  return chosen;
}

std::vector<Round> node_halves(const NodeOfRank& node_of_rank, std::uint64_t seed) {
  constexpr std::size_t most_in_twos = 8, fewest_ranks = 3;  // two ranks show no more than a pair
  const std::vector<Group> nodes = ranks_of_nodes(node_of_rank);
  const bool are_ranks = std::ranges::all_of(nodes, [](const Group& node) { return node.size() == 1; });
  std::vector<Round> rounds;
  if (nodes.size() < (are_ranks ? fewest_ranks + 1 : 3)) return rounds;
  if (!are_ranks && nodes.size() <= most_in_twos) {
    for (const auto& pairs : round_robin(static_cast<int>(nodes.size()))) {
      Round& round = rounds.emplace_back();
      for (const auto& [a, b] : pairs) {
        Group& two = round.emplace_back(nodes[static_cast<std::size_t>(a)]);
        const Group& other = nodes[static_cast<std::size_t>(b)];
        two.insert(two.end(), other.begin(), other.end());
        std::ranges::sort(two);
      }
      std::ranges::sort(round);
    }
    return rounds;
  }
  const bool halves_suffice = nodes.size() >= 2 * fewest_ranks;
  for (const Split& split : halves_suffice ? balanced_splits(nodes.size(), seed) : splits_without_one(nodes.size())) {
    Round round;
    for (const std::vector<std::size_t>& side : split) {
      Group half;
      for (const std::size_t node : side) half.insert(half.end(), nodes[node].begin(), nodes[node].end());
      std::ranges::sort(half);
      if (!half.empty()) round.push_back(std::move(half));
    }
    std::ranges::sort(round);
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::vector<Round> halves_of_each_node(const NodeOfRank& node_of_rank, std::uint64_t seed) {
  constexpr std::size_t fewest_ranks = 6;  // per node; halves of fewer are pairs
  const std::vector<Group> nodes = ranks_of_nodes(node_of_rank);
  const std::size_t ranks = nodes.empty() ? 0 : nodes.front().size();
  if (ranks < fewest_ranks || !are_of_one_size(nodes)) return {};
  std::vector<Round> rounds;
  for (const Split& split : balanced_splits(ranks, seed)) {
    Round round;
    for (const Group& node : nodes)
      for (const std::vector<std::size_t>& side : split) {
        Group& half = round.emplace_back();
        for (const std::size_t position : side) half.push_back(node[position]);
      }
    rounds.push_back(std::move(round));
  }
  return rounds;
}

std::vector<Round> pairs_on_all_rails(const NodeOfRank& node_of_rank) {
  const std::vector<Group> nodes = ranks_of_nodes(node_of_rank);
  constexpr std::size_t three = 3;
  if (nodes.size() < three || nodes.size() % 2 == 0) return {};
  const std::size_t ranks = nodes.front().size();
  if (ranks % 2 != 0 || !are_of_one_size(nodes)) return {};
  std::vector<Round> rounds;
  for (const auto& pairs : round_robin(static_cast<int>(nodes.size()))) {
    std::vector<std::size_t> left(nodes.size());
    std::iota(left.begin(), left.end(), std::size_t{0});
    Round round;
    const auto add = [&](std::size_t a, std::size_t from_a, std::size_t b, std::size_t from_b, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) round.push_back(pair_of(nodes[a][from_a + i], nodes[b][from_b + i]));
    };
    for (std::size_t i = 1; i < pairs.size(); ++i) {
      const auto a = static_cast<std::size_t>(pairs[i].first), b = static_cast<std::size_t>(pairs[i].second);
      std::erase(left, a);
      std::erase(left, b);
      add(a, 0, b, 0, ranks);
    }
    // The three take turns, so that where there are no more nodes each rank meets ranks of both others.
    std::ranges::rotate(left, left.begin() + static_cast<std::ptrdiff_t>(rounds.size() % three));
    add(left[0], 0, left[1], 0, ranks / 2);
    add(left[0], ranks / 2, left[2], 0, ranks / 2);
    add(left[1], ranks / 2, left[2], ranks / 2, ranks / 2);
    rounds.push_back(std::move(round));
  }
  return rounds;
}

PairRounds sample_pairs(const Placement& placement) {
  const std::vector<Group> nodes = ranks_of_nodes(placement.node_of_rank);
  PairRounds pairs;
  const auto two = std::ranges::find_if(nodes, [](const Group& node) { return node.size() >= 2; });
  if (two != nodes.end()) pairs.same_node.push_back({pair_of((*two)[0], (*two)[1])});
  const std::vector<Group> domains = ranks_of_nodes(placement.domain_of_rank);
  for (const Group& domain : domains)
    if (const std::vector<Group> its = nodes_of_domain(placement, domain); its.size() >= 2 && pairs.same_domain.empty())
      pairs.same_domain.push_back({pair_of(its[0][0], its[1][0])});
  if (domains.size() >= 2) pairs.other_domain.push_back({pair_of(domains[0][0], domains[1][0])});
  return pairs;
}

std::vector<Round> both_directions(const std::vector<Round>& rounds) {
  std::vector<Round> all;
  for (const Round& round : rounds) {
    all.push_back(round);
    Round& back = all.emplace_back(round);
    for (Group& pair : back) std::ranges::reverse(pair);
  }
  return all;
}

std::vector<Round> first_directions(const std::vector<Round>& rounds) {
  std::vector<Round> first;
  for (std::size_t i = 0; i < rounds.size(); i += 2) first.push_back(rounds[i]);
  return first;
}

}  // namespace p5
