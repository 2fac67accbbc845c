#include "reports/suspects.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "reports/findings.hpp"
#include "reports/part_names.hpp"
#include "reports/suspect_text.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;

// Least slowdown of a faulty part. It exceeds the tolerated difference, because samples of a part that differs by about
// that much are sometimes above it.
constexpr double least_slowdown = 1 + 1.5 * tolerated_difference;

bool are_two_nodes(const topo::Topology& topology) {
  return topology.hosts.size() == 2 && std::ranges::none_of(topology.hosts, &topo::Host::pretended);
}

// True if all hosts have the same error of software, settings or host setup, such as NCCL over sockets. It slows what
// goes between them whatever their parts do.
bool share_an_error(const Report& report) {
  std::map<std::string, std::set<std::string>> hosts_with;
  for (const topo::Finding& each : report.findings)
    // Those about GPUs, such as gpu.unseen of a job that has some of them, slow nothing between hosts.
    if (each.severity == topo::Severity::error && !topo::condemns(each) && each.hosts.empty() &&
        !each.id.starts_with("gpu."))
      hosts_with[each.id].insert(each.subject.host);
  return std::ranges::any_of(hosts_with, [&](const auto& each) {
    return each.second.contains("") || each.second.size() == report.topology.hosts.size();
  });
}

// The question which of two nodes is faulty or, unless NVSwitches join them, whether their link is: if transfers
// between them are slow and those within are not, since they cannot be compared with others. Without pairs both nodes
// may be equally slow in all that they do.
std::optional<OpenQuestion> question_of_two_nodes(const Report& report) {
  if (!are_two_nodes(report.topology) || share_an_error(report)) return std::nullopt;
  const auto slow_on = [&](int nodes) {
    return std::ranges::any_of(report.results, [&](const Result& result) {
      return result.verdict.grade == Grade::slow && result.measurement.measured_case.nodes == nodes;
    });
  };
  if (!slow_on(2) || slow_on(1)) return std::nullopt;
  bool pairs = false, slow_pairs = false;
  for (const Result& result : report.results) {
    const Case& c = result.measurement.measured_case;
    if (result.measurement.outcome != Outcome::measured || !c.collective->pairwise || c.nodes != 2) continue;
    pairs = true;
    slow_pairs = slow_pairs || result.verdict.grade == Grade::slow;
  }
  if (!pairs) return std::nullopt;
  std::vector<Part> candidates{{PartKind::node, 0}, {PartKind::node, 1}};
  const std::vector<int> domains = domains_of_hosts(report.topology);
  if (domains[0] != domains[1]) candidates.push_back({PartKind::link, 0, 1});
  OpenQuestion question;
  for (const Part& part : candidates) question.candidates.push_back(full_name(part));
  question.probabilities.assign(candidates.size(), 1.0 / static_cast<double>(candidates.size()));
  const std::string both =
      fmt::format("between {} and {}", report.topology.hosts[0].name, report.topology.hosts[1].name);
  question.evidence =
      fmt::format("{} {} are slow{}; with only two nodes it cannot be decided which one is at fault",
                  slow_pairs ? "all transfers" : "collectives", both, slow_pairs ? "" : ", and no pair of ranks is");
  question.next = "measure each of the two with a third node: the one that is slow there too is at fault";
  return question;
}

// Reports each part once: silence takes precedence over wrong data, and wrong data over slowness. Parts of a named node
// or NVLink domain are skipped because they cannot be distinguished beside it.
class NamedParts {
 public:
  explicit NamedParts(const std::vector<int>& domain_of_node) : domain_of_node_(domain_of_node) {}

  bool add_if_new(const FaultyPart& faulty) {
    const Part& part = faulty.part;
    for (const int node : nodes_of(part))
      if (nodes_.contains(node)) return false;
    if (part.kind == PartKind::domain)
      for (std::size_t node = 0; node < domain_of_node_.size(); ++node)
        if (domain_of_node_[node] == part.node) nodes_.insert(static_cast<int>(node));
    if (part.kind == PartKind::node) nodes_.insert(part.node);
    return names_.insert(full_name(part)).second;
  }

 private:
  const std::vector<int>& domain_of_node_;
  std::set<int> nodes_;
  std::set<std::string> names_;
};

// True for a node whose GPUs cannot use its domain's NVLinks. The finding domain.clique explains why the node's
// transfers are slow and what to do, so the node is not named as a suspect.
bool is_outside_clique(const Part& part, const Report& report) {
  return part.kind == PartKind::node && std::ranges::any_of(report.findings, [&](const topo::Finding& finding) {
           return finding.id == "domain.clique" &&
                  finding.subject.host == report.topology.hosts.at(static_cast<std::size_t>(part.node)).name;
         });
}

// True if no other transfer can contradict that this one is slow: of single NICs, if both have met no other one; of
// other pairs, if its two nodes have no other pair. Such a pair has to be slow in half of its retest, not in a few
// samples of it.
bool is_uncontradicted(const TransferRecord& transfer, std::span<const TransferRecord> all) {
  if (!transfer.nic) {
    const std::vector<int> nodes = nodes_of(transfer);
    const auto joins_them = [&](const TransferRecord& each) {
      return each.is_pair() && each.slow.count > 0 && nodes_of(each) == nodes;
    };
    return transfer.is_pair() && nodes.size() == 2 && transfer.slow_again.share() >= 0.5 &&
           std::ranges::count_if(all, joins_them) == 1;
  }
  using NicOfRank = std::pair<RankLocation, int>;
  std::map<NicOfRank, int> transfers_of_nic;
  for (const TransferRecord& each : all)
    for (std::size_t end = 0; each.nic && each.slow.count > 0 && end < each.ranks.size(); ++end)
      ++transfers_of_nic[{each.ranks[end], each.nic_at(end)}];
  return transfers_of_nic.at({transfer.ranks[0], transfer.nic_at(0)}) == 1 &&
         transfers_of_nic.at({transfer.ranks[1], transfer.nic_at(1)}) == 1;
}

// Two NICs, or two nodes, that are slow with each other, twice, in the only transfer that tells: too little to name a
// part, whose deviation may be that of a route, and too much to pass.
std::vector<FaultyPart> slow_in_their_only_transfer(std::span<const TransferRecord> observations, const Paths& paths,
                                                    const std::set<Part>& known) {
  std::vector<FaultyPart> all = localize(observations, paths, Fault::slow, doubtful_log_odds, known);
  std::erase_if(all, [&](const FaultyPart& faulty) {
    return faulty.observations.size() != 1 || faulty.observations.front()->slow_again.count == 0 || !faulty.repeated ||
           slowdown(faulty.observations) < least_slowdown ||
           !is_uncontradicted(*faulty.observations.front(), observations);
  });
  return all;
}

// The rail of a NIC: that of the rank whose GPU it is beside.
std::optional<Part> rail_of_nic(const Part& nic, const topo::Topology& topology, const Paths& paths) {
  if (!paths.gpus || !(is_nic(nic) || nic.kind == PartKind::only_nic) || nic.number < 0) return std::nullopt;
  for (const RankLocation& place : places_of(topology)) {
    const std::vector<int> near = paths.nics->near(place);
    if (place.node == nic.node && std::ranges::find(near, nic.number) != near.end()) return rail_of(place, paths);
  }
  return std::nullopt;
}

void add_observations(FaultyPart& joined, const FaultyPart& other) {
  joined.confidence = std::min(joined.confidence, other.confidence);
  joined.repeated = joined.repeated && other.repeated;
  joined.shows_in.insert(other.shows_in.begin(), other.shows_in.end());
  const std::set<const TransferRecord*> known(joined.observations.begin(), joined.observations.end());
  std::ranges::copy_if(other.observations, std::back_inserter(joined.observations),
                       [&](const TransferRecord* each) { return !known.contains(each); });
}

// Joins slow NICs of one number, of which each host has one, to their rail: a switch, or a setting, is likelier than a
// fault in each, as long as they are equally slow.
void join_to_rails(std::vector<FaultyPart>& all, const topo::Topology& topology, const Paths& paths) {
  const auto without_node = [](Part part) {
    part.node = 0;
    return part;
  };
  std::map<Part, std::vector<FaultyPart>> alike;
  for (const FaultyPart& each : all)
    if (rail_of_nic(each.part, topology, paths)) alike[without_node(each.part)].push_back(each);
  for (const auto& [nic, nics] : alike) {
    std::vector<double> slowdowns;
    for (const FaultyPart& each : nics) slowdowns.push_back(slowdown(each.observations));
    const auto [least, most] = std::ranges::minmax(slowdowns);
    if (nics.size() < 2 || nics.size() < topology.hosts.size() || most > least * (1 + gap_of_fault)) continue;
    FaultyPart joined = nics.front();
    joined.part = *rail_of_nic(nics.front().part, topology, paths);
    joined.alternatives.clear();
    for (const FaultyPart& each : nics | std::views::drop(1)) add_observations(joined, each);
    std::erase_if(all, [&](const FaultyPart& each) { return without_node(each.part) == nic; });
    all.insert(all.begin(), joined);
  }
}

}  // namespace

Paths paths_of(const Report& report, const NicNumbers& numbers) {
  const auto any_of = [&](BackendInfo::Parts parts) {
    return std::ranges::any_of(report.results, [&](const Result& result) {
      return find_backend(result.measurement.measured_case.backend).parts == parts;
    });
  };
  Paths paths{
      .nics = &numbers, .gpus = any_of(BackendInfo::Parts::gpus), .own_nics = !any_of(BackendInfo::Parts::hosts)};
  const std::vector<int> domains = domains_of_hosts(report.topology);
  if (std::ranges::adjacent_find(domains, std::greater_equal()) != domains.end()) paths.domain_of_node = domains;
  return paths;
}

Diagnosis diagnose(const Report& report, const std::vector<Measurement>& again, const WaitingOfNode& waiting) {
  const NicNumbers numbers(report.topology);
  const std::set<int> busy = busy_nodes(waiting);
  const std::vector<TransferRecord> observations = observe(report, again);
  const Paths paths = paths_of(report, numbers);
  // The busy nodes that may be why the part is slow: none if its transfers without busy nodes are slow as often.
  const auto busy_nodes_of = [&](const FaultyPart& faulty) {
    std::set<int> nodes;
    SampleCounts without;
    for (const TransferRecord* each : faulty.observations)
      if (std::ranges::none_of(each->ranks, [&](const RankLocation& rank) { return busy.contains(rank.node); }))
        without += each->slow;
    if (without.share() >= faulty.share / 2) return nodes;
    for (const std::size_t host : hosts_of(faulty.part, report.topology))
      if (busy.contains(static_cast<int>(host))) nodes.insert(static_cast<int>(host));
    return nodes;
  };
  // True if the fastest samples show less than half of what the slow ones show.
  const auto may_be_waiting = [&](const FaultyPart& faulty) {
    return faulty.fault == Fault::slow && !busy_nodes_of(faulty).empty() &&
           slowdown_of_fastest(faulty, observations) - 1 < (slowdown(faulty.observations) - 1) / 2;
  };
  Diagnosis found;
  // Setting a node aside does not set its parts aside: one of its NICs may be steadily slow.
  const auto set_aside = [&](const FaultyPart& faulty) {
    if (!may_be_waiting(faulty)) return false;
    for (const int node : busy_nodes_of(faulty)) {
      std::vector<std::string>& names = found.slow_while_waiting[node];
      if (std::ranges::find(names, full_name(faulty.part)) == names.end()) names.push_back(full_name(faulty.part));
    }
    return true;
  };
  NamedParts named(paths.domain_of_node);
  std::set<Part> known;  // to have a fault
  for (const Fault fault : {Fault::silent, Fault::wrong, Fault::slow}) {
    std::vector<FaultyPart> all = localize(observations, paths, fault, accepted_log_odds, known);
    if (fault == Fault::slow) join_to_rails(all, report.topology, paths);
    std::set<int> nodes;
    for (const FaultyPart& each : all)
      if (each.part.kind == PartKind::node) nodes.insert(each.part.node);
    for (const FaultyPart& faulty : all) {
      if (!faulty.repeated || (fault == Fault::slow && slowdown(faulty.observations) < least_slowdown)) continue;
      if (set_aside(faulty) || !named.add_if_new(faulty)) continue;
      if (fault == Fault::slow && is_outside_clique(faulty.part, report)) continue;
      if (faulty.confidence >= least_confidence) {
        Suspect& suspect =
            found.suspects.emplace_back(suspect_of(faulty, report.topology, observations, nodes, numbers));
        if (fault == Fault::slow && !busy_nodes_of(faulty).empty())
          suspect.action = fmt::format(
              "first free the cores of its host, for which ranks waited ({}), and measure again; "
              "if it stays slow: {}",
              cores_busy_id, suspect.action);
        known.insert(faulty.part);
      } else {
        found.questions.push_back(question_of(faulty, report.topology, numbers));
      }
    }
  }
  for (const FaultyPart& faulty : slow_in_their_only_transfer(observations, paths, known))
    if (!set_aside(faulty) && named.add_if_new(faulty))
      found.questions.push_back(question_of(faulty, report.topology, numbers));
  if (found.suspects.empty() && found.questions.empty())
    if (std::optional<OpenQuestion> question = question_of_two_nodes(report)) found.questions.push_back(*question);
  return found;
}

}  // namespace p5::reports
