#include "reports/suspects.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <ranges>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/model/backends.hpp"
#include "reports/findings.hpp"
#include "reports/markup.hpp"
#include "reports/observations.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;

// Least slowdown of a faulty part. It exceeds the tolerated difference, because samples of a part that differs by about
// that much are sometimes above it.
constexpr double least_slowdown = 1 + 1.5 * tolerated_difference;

std::string kind_name(const Part& part) {
  constexpr std::array names{"node", "gpu", "nic", "nic", "nic", "link", "rail", "domain"};  // indexed by PartKind
  return names[static_cast<std::size_t>(part.kind)];
}

std::string name_of(const Part& part) {
  const auto [kind, node, number, last] = part;
  if (kind == PartKind::rail) return number == last ? std::to_string(number) : fmt::format("{}-{}", number, last);
  if (kind == PartKind::domain) return fmt::format("d{}", node);
  if (kind == PartKind::node) return fmt::format("n{}", node);
  if (kind == PartKind::link) return fmt::format("n{}-n{}", node, number);
  if (kind == PartKind::gpu) return fmt::format("n{}g{}", node, number);
  if (kind != PartKind::nics) return fmt::format("n{}r{}", node, number);
  return number < 0 ? fmt::format("n{}g{}", node, -1 - number) : fmt::format("n{}r{}-{}", node, number, last);
}

std::string fault_name(Fault fault) {
  return fault == Fault::slow ? "slow" : fault == Fault::silent ? "silent" : "wrong";
}

bool is_one_nic(const Part& part) { return part.kind == PartKind::nic || part.kind == PartKind::only_nic; }

bool shows_only_in_groups(const FaultyPart& faulty) { return std::ranges::none_of(faulty.shows_in, is_of_pairs); }

// Median slowdown of the slow samples over the affected observations.
double slowdown(const std::vector<const TransferRecord*>& observations) {
  std::vector<double> all;
  for (const TransferRecord* each : observations) {
    std::vector<double> slow;
    for (const TimedSample& sample : each->samples)
      if (sample.ratio > 1 + tolerated_difference) slow.push_back(sample.ratio);
    if (!slow.empty() && each->slow.hits > 0) all.push_back(median(std::move(slow)));
  }
  return all.empty() ? 1 : median(std::move(all));
}

std::string name_of_direction(const Part& part, bool receives, const topo::Topology& topology) {
  if (part.kind != PartKind::link) return receives ? " when it receives" : " when it sends";
  const auto host = [&](int node) { return topology.hosts.at(static_cast<std::size_t>(node)).name; };
  return fmt::format(" from {} to {}", host(receives ? part.number : part.node),
                     host(receives ? part.node : part.number));
}

// Figures of the evidence; follows a subject like "it reaches others".
std::string figures_of(const FaultyPart& faulty, const topo::Topology& topology) {
  const std::string over = counted(faulty.observations.size(), shows_only_in_groups(faulty) ? "group" : "pair");
  if (faulty.fault != Fault::slow) {
    SampleCounts rounds;
    for (const TransferRecord* each : faulty.observations) {
      const SampleCounts& trials = faulty.fault == Fault::silent ? each->silent : each->wrong;
      rounds.count += trials.count, rounds.hits += trials.hits;
    }
    return fmt::format("{} in {} of {} rounds, over {}",
                       faulty.fault == Fault::silent ? "made no progress" : "ended with wrong data", rounds.hits,
                       rounds.count, over);
  }
  constexpr double steady = 0.9;
  const auto [samples, receives] = directed_samples_of(faulty);
  std::string text = fmt::format("at {:.0f} % of the others' rate", 100 / slowdown(faulty.observations));
  if (receives) text += name_of_direction(faulty.part, *receives, topology);
  const double share = samples.first_and_again.share();
  if (share < steady)
    text += fmt::format(" in {:.0f} % of {} samples, intermittently", 100 * share, receives ? "these" : "its");
  text += ", over " + over;
  if (samples.again.hits > 0)
    text += fmt::format(" ({:.0f} % of samples when measured again)", 100 * samples.again.share());
  return text;
}

// Number of partners of its slow transfers: nodes for nodes, ranks for GPUs and NICs, each with the NICs that it uses
// alone where they are others than the part's.
std::size_t partners_of(const FaultyPart& faulty) {
  std::set<std::pair<RankLocation, int>> met;
  for (const TransferRecord* each : faulty.observations)
    for (std::size_t end = 0; end < each->ranks.size(); ++end) {
      const RankLocation& rank = each->ranks[end];
      const bool own =
          rank.node == faulty.part.node && (faulty.part.kind != PartKind::gpu || rank.number == faulty.part.number);
      if (is_in_node(faulty.part) && own) continue;
      const int nic = each->other_nic && is_one_nic(faulty.part) ? each->nic_at(end) : -1;
      met.emplace(faulty.part.kind == PartKind::node ? RankLocation{rank.node, 0} : rank, nic);
    }
  return met.size();
}

std::string uuid_of(RankLocation gpu, const topo::Topology& topology) {
  const std::vector<RankLocation> places = places_of(topology);
  const auto rank = static_cast<std::size_t>(std::ranges::find(places, gpu) - places.begin());
  return rank < topology.gpu_of_rank.size() ? topology.gpu_of_rank[rank] : "";
}

// "GPU 6 (rank 2 of its host)", by its number in NVML, where ranks use GPUs in another order; else "GPU 2".
std::string text_of_gpu(RankLocation place, const topo::Topology& topology) {
  const std::string uuid = uuid_of(place, topology);
  const std::vector<topo::Gpu>& gpus = topology.hosts.at(static_cast<std::size_t>(place.node)).gpu_devices;
  const auto number = std::ranges::find(gpus, uuid, &topo::Gpu::uuid) - gpus.begin();
  if (uuid.empty() || number == std::ssize(gpus) || number == place.number) return fmt::format("GPU {}", place.number);
  return fmt::format("GPU {} (rank {} of its host)", number, place.number);
}

// "18 nodes from n0 to n17".
std::string hosts_of_domain(int domain, const topo::Topology& topology) {
  const std::vector<int> domains = domains_of_hosts(topology);
  std::vector<std::string> names;
  for (std::size_t host = 0; host < domains.size(); ++host)
    if (domains[host] == domain) names.push_back(topology.hosts[host].name);
  return fmt::format("the {} {} to {}", counted(names.size(), "node"), names.front(), names.back());
}

struct Wording {
  std::string subject, action;
};

// Subject ("its transfers with other nodes run", followed by figures_of()) and action.
Wording wording_for(const FaultyPart& faulty, const topo::Topology& topology, const NicNumbers& numbers) {
  constexpr const char* replace = "replace the instance, and open a case with support.txt";
  // Where data is wrong, a reset that seems to help proves nothing.
  const auto if_it_stays = [&](std::string_view first) {
    return faulty.fault == Fault::wrong
               ? fmt::format("do not use it: {}", replace)
               : fmt::format("{}; if it stays {}, replace the instance", first, fault_name(faulty.fault));
  };
  const Part& part = faulty.part;
  const bool within = std::ranges::any_of(faulty.shows_in, [](Transfers kind) {
    return kind == Transfers::within_node || kind == Transfers::within_domain || kind == Transfers::node_group ||
           kind == Transfers::node_half || kind == Transfers::domain_group;
  });
  const bool between = std::ranges::any_of(faulty.shows_in, [](Transfers kind) {
    return kind == Transfers::between_nodes || kind == Transfers::within_domain || kind == Transfers::single_nic ||
           kind == Transfers::all_rails;
  });
  const bool groups = shows_only_in_groups(faulty);
  switch (part.kind) {
    case PartKind::node:
      if (!groups && !between)
        return {"all its GPUs reach each other",
                if_it_stays("check its fabric manager, NVSwitches and power, and reboot it")};
      return {groups ? "collectives in which it takes part run" : "all that it sends and receives runs",
              groups
                  ? if_it_stays("compare its settings and NIC counters with another node's")
                  : "replace the instance, then measure again: a fault of a single part cannot be separated from it"};
    case PartKind::gpu:
      return {
          fmt::format("{}{} {}", groups ? "collectives in which " : "", text_of_gpu({part.node, part.number}, topology),
                      groups   ? "takes part run"
                      : within ? "reaches the other GPUs of its node"
                               : "reaches other nodes"),
          if_it_stays("check its NVLinks (nvidia-smi nvlink -s -e) and clocks, reset it or reboot")};
    case PartKind::nic:
    case PartKind::only_nic:
      return {fmt::format("{} {}", numbers.name(part.node, part.number),
                          groups ? "is used by collectives of its rail, which run" : "reaches other nodes"),
              replace};
    case PartKind::nics:
      return {fmt::format("the GPU beside {} reaches other nodes",
                          part.number < 0 ? "these NICs" : fmt::format("NICs {} to {}", part.number, part.last)),
              replace};
    case PartKind::link: {
      const auto host = [&](int node) { return topology.hosts.at(static_cast<std::size_t>(node)).name; };
      return {fmt::format("{} and {} reach each other", host(part.node), host(part.number)),
              "the network between the two is at fault: do not use both in one job, and open a case with support.txt"};
    }
    case PartKind::domain:
      return {fmt::format("all GPUs of {} reach each other", hosts_of_domain(part.node, topology)),
              "look at the NVLinks of its GPUs (nvidia-smi nvlink -s) and the state of its switch trays; if all its "
              "GPUs are equally slow, a switch or its power is at fault: replace the UltraServer, and open a support "
              "case with support.txt"};
    case PartKind::rail:
      break;
  }
  const bool of_nics =
      std::ranges::all_of(faulty.observations, [](const TransferRecord* each) { return each->nic.has_value(); });
  return {
      of_nics ? fmt::format("the NICs {} of all nodes ({} on {}) reach each other", name_of(part),
                            numbers.name(0, part.number), topology.hosts.front().name)
              : fmt::format("the GPUs {} of all nodes reach {}", name_of(part), groups ? "each other" : "other nodes"),
      "compare the counters and settings of its NICs and switches with another rail's; open a case with support.txt"};
}

// Evidence about one or all of the NICs beside a GPU, which are distinguished only by single measurements with a node
// that is not slow.
std::string about_nics(const FaultyPart& faulty, std::span<const TransferRecord> records,
                       const std::set<int>& slow_nodes, const NicNumbers& numbers) {
  std::set<int> fast;
  for (const TransferRecord& record : records) {
    if (!record.nic || record.slow.share() >= 0.5) continue;
    if (std::ranges::any_of(record.ranks, [&](const RankLocation& rank) { return slow_nodes.contains(rank.node); }))
      continue;
    for (std::size_t end = 0; end < record.ranks.size(); ++end) {
      const RankLocation& rank = record.ranks[end];
      if (rank.node == faulty.part.node && std::cmp_less(record.nic_at(end), numbers.of(rank).size()))
        fast.insert(numbers.of(rank)[static_cast<std::size_t>(record.nic_at(end))]);
    }
  }
  for (int number = faulty.part.number; number <= faulty.part.last; ++number)
    if (!fast.contains(number)) return ": one of the NICs beside it is at fault; pairs of GPUs do not show which";
  return ": each NIC beside it is fast alone, so the path that they share to the GPU is at fault, or one of them only "
         "under full load";
}

Suspect suspect_of(const FaultyPart& faulty, const topo::Topology& topology, std::span<const TransferRecord> records,
                   const std::set<int>& slow_nodes, const NicNumbers& numbers) {
  const Part& part = faulty.part;
  Suspect s;
  s.kind = kind_name(part);
  s.name = name_of(part);
  if (part.kind != PartKind::rail && part.kind != PartKind::domain) {
    const topo::Host& host = topology.hosts.at(static_cast<std::size_t>(part.node));
    s.host = host.name;
    s.instance = host.instance;
  }
  if (is_one_nic(part)) s.device = numbers.name(part.node, part.number);
  if (part.kind == PartKind::gpu) s.device = uuid_of({part.node, part.number}, topology);
  s.partners_tested = static_cast<int>(partners_of(faulty));
  s.confidence = faulty.confidence;
  s.fault = fault_name(faulty.fault);
  const Wording words = wording_for(faulty, topology, numbers);
  s.action = words.action;
  if (faulty.fault == Fault::silent)
    s.action += "; then measure again without it: rounds in which it was silent have no results for other parts";
  s.evidence = fmt::format("{} {}", faulty.fault == Fault::slow ? words.subject : "transfers through it",
                           figures_of(faulty, topology));
  if (s.partners_tested > 0)
    s.evidence += "; seen with " + counted(static_cast<std::size_t>(s.partners_tested), "partner");
  if (part.kind == PartKind::link) s.evidence += ": each of them is fast with other nodes";
  if (part.kind == PartKind::nics) s.evidence += about_nics(faulty, records, slow_nodes, numbers);
  if (shows_only_in_groups(faulty)) s.evidence += "; pairs are fast: the fault appears only when many ranks take part";
  return s;
}

std::set<int> nodes_of(const Part& part) {
  if (part.kind == PartKind::link) return {part.node, part.number};
  if (part.kind == PartKind::rail || part.kind == PartKind::domain) return {};
  return {part.node};
}

OpenQuestion question_of(const FaultyPart& faulty, const topo::Topology& topology, const NicNumbers& numbers) {
  OpenQuestion question;
  std::vector<std::pair<Part, double>> likeliest_first{{faulty.part, faulty.confidence}};
  std::ranges::copy(faulty.alternatives, std::back_inserter(likeliest_first));
  std::ranges::stable_sort(likeliest_first, std::greater(), &std::pair<Part, double>::second);
  std::vector<Part> candidates;
  for (const auto& [part, probability] : likeliest_first) {
    candidates.push_back(part);
    question.probabilities.push_back(probability);
  }
  std::set<int> nodes;
  for (const Part& part : candidates) {
    question.candidates.push_back(full_name(part));
    for (const int node : nodes_of(part)) nodes.insert(part.kind == PartKind::link ? -1 : node);
    if (part.kind == PartKind::rail || part.kind == PartKind::domain) nodes.insert(-1);
  }
  if (nodes.size() == 1 && *nodes.begin() >= 0)
    question.host = topology.hosts.at(static_cast<std::size_t>(*nodes.begin())).name;
  question.evidence =
      fmt::format("{} {}", faulty.fault == Fault::slow ? wording_for(faulty, topology, numbers).subject : "transfers",
                  figures_of(faulty, topology));
  question.fault = fault_name(faulty.fault);
  question.next = next_step(candidates, question.fault);
  return question;
}

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
// between them are slow and those within are not, since they cannot be compared with others.
std::optional<OpenQuestion> question_of_two_nodes(const Report& report) {
  if (!are_two_nodes(report.topology) || share_an_error(report)) return std::nullopt;
  const auto slow_on = [&](int nodes) {
    return std::ranges::any_of(report.results, [&](const Result& result) {
      return result.verdict.grade == Grade::slow && result.measurement.measured_case.nodes == nodes;
    });
  };
  if (!slow_on(2) || slow_on(1)) return std::nullopt;
  std::vector<Part> candidates{{PartKind::node, 0}, {PartKind::node, 1}};
  const std::vector<int> domains = domains_of_hosts(report.topology);
  if (domains[0] != domains[1]) candidates.push_back({PartKind::link, 0, 1});
  OpenQuestion question;
  for (const Part& part : candidates) question.candidates.push_back(full_name(part));
  question.probabilities.assign(candidates.size(), 1.0 / static_cast<double>(candidates.size()));
  const std::string both =
      fmt::format("between {} and {}", report.topology.hosts[0].name, report.topology.hosts[1].name);
  bool pairs = false, slow_pairs = false;
  for (const Result& result : report.results) {
    const Case& c = result.measurement.measured_case;
    if (result.measurement.outcome != Outcome::measured || !c.collective->pairwise || c.nodes != 2) continue;
    pairs = true;
    slow_pairs = slow_pairs || result.verdict.grade == Grade::slow;
  }
  if (pairs) {
    question.evidence =
        fmt::format("{} {} are slow{}; with only two nodes it cannot be decided which one is at fault",
                    slow_pairs ? "all transfers" : "collectives", both, slow_pairs ? "" : ", and no pair of ranks is");
    question.next = "measure each of the two with a third node: the one that is slow there too is at fault";
  } else {
    question.evidence = fmt::format(
        "collectives {} are slow; pairs, which tell single GPUs and NICs from nodes, were not measured", both);
    question.next = "measure again with p2p among the --collectives, as by default: it may show a single GPU or NIC";
  }
  return question;
}

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

// Pairs of nodes to retest if a fault shows in groups of nodes only: they separate the candidate nodes from their
// links.
std::set<std::pair<int, int>> nodes_to_separate(const FaultyPart& faulty) {
  constexpr std::size_t most = 4;
  std::set<int> nodes = nodes_of(faulty.part);
  for (const auto& [part, probability] : faulty.alternatives) nodes.merge(nodes_of(part));
  std::set<std::pair<int, int>> pairs;
  if (nodes.size() > most) return pairs;
  for (const int a : nodes)
    for (const int b : nodes)
      if (a < b) pairs.emplace(a, b);
  return pairs;
}

// True for a node whose GPUs cannot use its domain's NVLinks. The finding domain.clique explains why the node's
// transfers are slow and what to do, so the node is not named as a suspect.
bool is_outside_clique(const Part& part, const Report& report) {
  return part.kind == PartKind::node && std::ranges::any_of(report.findings, [&](const topo::Finding& finding) {
           return finding.id == "domain.clique" &&
                  finding.subject.host == report.topology.hosts.at(static_cast<std::size_t>(part.node)).name;
         });
}

// True if both NICs of a transfer over single NICs have met no other one, so that no other transfer contradicts it.
bool is_only_one_of_its_nics(const TransferRecord& transfer, std::span<const TransferRecord> all) {
  using NicOfRank = std::pair<RankLocation, int>;
  std::map<NicOfRank, int> transfers_of_nic;
  for (const TransferRecord& each : all)
    for (std::size_t end = 0; each.nic && each.slow.count > 0 && end < each.ranks.size(); ++end)
      ++transfers_of_nic[{each.ranks[end], each.nic_at(end)}];
  return transfer.nic && transfers_of_nic.at({transfer.ranks[0], transfer.nic_at(0)}) == 1 &&
         transfers_of_nic.at({transfer.ranks[1], transfer.nic_at(1)}) == 1;
}

// Two NICs that are slow with each other, twice, and have no other partner: too little to name a part, whose deviation
// may be that of a route, and too much to pass.
std::vector<FaultyPart> slow_without_other_partners(std::span<const TransferRecord> observations, const Paths& paths,
                                                    const std::set<Part>& known) {
  std::vector<FaultyPart> all = localize(observations, paths, Fault::slow, doubtful_log_odds, known);
  std::erase_if(all, [&](const FaultyPart& faulty) {
    return faulty.observations.size() != 1 || faulty.observations.front()->slow_again.count == 0 || !faulty.repeated ||
           slowdown(faulty.observations) < least_slowdown ||
           !is_only_one_of_its_nics(*faulty.observations.front(), observations);
  });
  return all;
}

}  // namespace

std::string next_step(const std::vector<Part>& candidates, std::string_view fault) {
  std::set<int> nodes, domains;
  for (const Part& part : candidates) {
    nodes.merge(nodes_of(part));
    if (part.kind == PartKind::domain) domains.insert(part.node);
  }
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(fmt::format("n{}", node));
  for (const int domain : domains) names.push_back(fmt::format("domain d{}", domain));
  if (names.empty())
    return fmt::format("measure each rail by itself, with --group rail: the one that is {} then is at fault", fault);
  const std::string_view sound = fault == "slow" ? "fast" : fault == "wrong" ? "right" : "no longer silent";
  if (nodes.size() == 1 && std::ranges::all_of(candidates, is_in_node))
    return fmt::format(
        "replace {}: all candidates are parts of it; p5bench check and nvidia-smi -q on it may show more",
        names.front());
  if (names.size() == 1)
    return fmt::format("measure again without {}: if everything is {} then, it is at fault", names.front(), sound);
  return fmt::format(
      "measure again without one of {} at a time, or each of them with {} that is not among them: the one "
      "without which everything is {} is at fault",
      join(names), domains.empty() ? "a node" : "one", sound);
}

namespace {

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

// Joins slow NICs of one rail of which each host has one: a switch, or a setting, is likelier than a fault in each.
void join_to_rails(std::vector<FaultyPart>& all, const topo::Topology& topology, const Paths& paths) {
  std::map<Part, std::vector<FaultyPart>> by_rail;
  for (const FaultyPart& each : all)
    if (const std::optional<Part> rail = rail_of_nic(each.part, topology, paths)) by_rail[*rail].push_back(each);
  for (const auto& [rail, nics] : by_rail) {
    std::set<int> nodes;
    for (const FaultyPart& each : nics) nodes.insert(each.part.node);
    if (nodes.size() < 2 || nodes.size() < topology.hosts.size()) continue;
    FaultyPart joined = nics.front();
    joined.part = rail;
    joined.alternatives.clear();
    for (const FaultyPart& each : nics | std::views::drop(1)) add_observations(joined, each);
    std::erase_if(all, [&](const FaultyPart& each) { return rail_of_nic(each.part, topology, paths) == rail; });
    all.insert(all.begin(), joined);
  }
}

// Nodes that are fast with each other, where the links between such sets are all slow, and each node is an end of one:
// one cause, not one per link.
struct NodeSets {
  std::vector<std::vector<int>> sets;  // of nodes, ascending
  FaultyPart between;                  // its part is one of the links

  bool is_between(const Part& part) const {
    return part.kind == PartKind::link && std::ranges::none_of(sets, [&](const std::vector<int>& nodes) {
             return std::ranges::binary_search(nodes, part.node) && std::ranges::binary_search(nodes, part.number);
           });
  }
};

std::optional<NodeSets> split_of_nodes(const std::vector<FaultyPart>& all, std::span<const TransferRecord> observations,
                                       const topo::Topology& topology) {
  std::set<std::pair<int, int>> slow;
  for (const FaultyPart& each : all)
    if (each.part.kind == PartKind::link) slow.emplace(each.part.node, each.part.number);
  std::vector<int> set_of(topology.hosts.size());
  std::iota(set_of.begin(), set_of.end(), 0);
  for (const TransferRecord& each : observations) {
    if (!each.is_pair() || each.slow.count == 0) continue;
    const int a = each.ranks[0].node, b = each.ranks[1].node;
    const int from = set_of.at(static_cast<std::size_t>(b)), to = set_of.at(static_cast<std::size_t>(a));
    if (!slow.contains(std::minmax(a, b))) std::ranges::replace(set_of, from, to);
  }
  std::map<int, std::vector<int>> sets;
  for (std::size_t node = 0; node < set_of.size(); ++node) sets[set_of[node]].push_back(static_cast<int>(node));
  const auto is_lone = [](const auto& each) { return each.second.size() < 2; };
  if (sets.size() < 2 || std::ranges::any_of(sets, is_lone)) return std::nullopt;
  NodeSets split;
  for (auto& [number, nodes] : sets) split.sets.push_back(std::move(nodes));
  std::set<int> ends;
  for (const FaultyPart& each : all) {
    if (!split.is_between(each.part)) continue;
    ends.insert({each.part.node, each.part.number});
    if (split.between.observations.empty())
      split.between = each;
    else
      add_observations(split.between, each);
  }
  // Nodes may be apart because they were not measured with each other.
  if (ends.size() < topology.hosts.size()) return std::nullopt;
  return split;
}

// "n0, n1" or "n0 to n5".
std::string names_of(const std::vector<int>& nodes, const topo::Topology& topology) {
  constexpr std::ptrdiff_t all_named = 3;
  const auto name = [&](int node) { return topology.hosts.at(static_cast<std::size_t>(node)).name; };
  if (nodes.back() - nodes.front() + 1 == std::ssize(nodes) && std::ssize(nodes) > all_named)
    return fmt::format("{} to {}", name(nodes.front()), name(nodes.back()));
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(name(node));
  return join(names);
}

Suspect suspect_of(const NodeSets& split, const topo::Topology& topology) {
  std::vector<std::string> names, sets;
  for (const std::vector<int>& nodes : split.sets) {
    std::vector<std::string> numbers;
    for (const int node : nodes) numbers.push_back(fmt::format("n{}", node));
    names.push_back(join(numbers, ","));
    sets.push_back(names_of(nodes, topology));
  }
  Suspect s;
  s.kind = kind_name(split.between.part);
  s.name = join(names, "-");
  s.fault = fault_name(split.between.fault);
  s.confidence = split.between.confidence;
  s.evidence = fmt::format("the nodes {} reach each other {}: within each of these sets all is fast",
                           join(sets, " and "), figures_of(split.between, topology));
  s.action =
      "what joins these sets of nodes is at fault, such as a spine of the network: compare their placement (aws ec2 "
      "describe-instance-topology), keep each job within one set, and open a case with support.txt";
  return s;
}

}  // namespace

Diagnosis diagnose(const Report& report, const std::vector<Measurement>& again, const WaitingOfNode& waiting) {
  const NicNumbers numbers(report.topology);
  const std::set<int> busy = busy_nodes(waiting);
  const std::vector<TransferRecord> observations = observe(report, again);
  const Paths paths = paths_of(report, numbers);
  const auto busy_nodes_of = [&](const Part& part) {
    const std::set<int> its = nodes_of(part);
    if (its.empty()) return busy;  // a rail
    std::set<int> nodes;
    std::ranges::set_intersection(its, busy, std::inserter(nodes, nodes.end()));
    return nodes;
  };
  // True if the fastest samples show less than half of what the slow ones show.
  const auto may_be_waiting = [&](const FaultyPart& faulty) {
    return faulty.fault == Fault::slow && !busy_nodes_of(faulty.part).empty() &&
           slowdown_of_fastest(faulty, observations) - 1 < (slowdown(faulty.observations) - 1) / 2;
  };
  Diagnosis found;
  // Setting a node aside does not set its parts aside: one of its NICs may be steadily slow.
  const auto set_aside = [&](const FaultyPart& faulty) {
    if (!may_be_waiting(faulty)) return false;
    for (const int node : busy_nodes_of(faulty.part)) {
      std::vector<std::string>& names = found.slow_while_waiting[node];
      if (std::ranges::find(names, full_name(faulty.part)) == names.end()) names.push_back(full_name(faulty.part));
    }
    return true;
  };
  NamedParts named(paths.domain_of_node);
  std::set<Part> known;  // to have a fault
  for (const Fault fault : {Fault::silent, Fault::wrong, Fault::slow}) {
    std::vector<FaultyPart> all = localize(observations, paths, fault, accepted_log_odds, known);
    if (fault == Fault::slow) {
      join_to_rails(all, report.topology, paths);
      const std::optional<NodeSets> split = split_of_nodes(all, observations, report.topology);
      const auto is_sure = [&](const FaultyPart& between) {
        const double its = slowdown(between.observations);
        const bool waited = !busy.empty() && slowdown_of_fastest(between, observations) - 1 < (its - 1) / 2;
        return between.repeated && between.confidence >= least_confidence && its >= least_slowdown && !waited;
      };
      if (split && is_sure(split->between)) {
        found.suspects.push_back(suspect_of(*split, report.topology));
        std::erase_if(all, [&](const FaultyPart& each) { return split->is_between(each.part); });
      }
    }
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
        if (fault == Fault::slow && !busy_nodes_of(faulty.part).empty())
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
  for (const FaultyPart& faulty : slow_without_other_partners(observations, paths, known))
    if (!set_aside(faulty) && named.add_if_new(faulty))
      found.questions.push_back(question_of(faulty, report.topology, numbers));
  if (found.suspects.empty() && found.questions.empty())
    if (std::optional<OpenQuestion> question = question_of_two_nodes(report)) found.questions.push_back(*question);
  return found;
}

namespace {

using TransferKey = std::tuple<Transfers, std::vector<RankLocation>, int>;  // ranks ascending; NIC, or -1
TransferKey key_of(const TransferRecord& record) { return {record.kind, record.ranks, record.nic.value_or(-1)}; }

std::vector<RetestCase> silent_cases_to_retest(const Report& report, std::span<const TransferRecord> observations,
                                               const Paths& paths) {
  std::set<TransferKey> open;
  for (const TransferRecord& each : observations)
    if (each.silent.hits > 0) open.insert(key_of(each));
  for (const FaultyPart& faulty : localize(observations, paths, Fault::silent, accepted_log_odds))
    if (faulty.confidence >= least_confidence)
      for (const TransferRecord* each : faulty.observations) open.erase(key_of(*each));
  const std::vector<RankLocation> places = places_of(report.topology);
  std::vector<RetestCase> all;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    const std::optional<Transfers> kind = transfers_of(m.measured_case);
    if (!kind) continue;
    RetestCase retest{.like = m.measured_case, .pairs = {}, .silent = true};
    bool any = false;
    for (Group group : m.silent_groups) {
      std::ranges::sort(group);
      std::vector<RankLocation> ranks;
      for (const int rank : group) ranks.push_back(places.at(static_cast<std::size_t>(rank)));
      if (open.erase({*kind, ranks, m.measured_case.nic.value_or(-1)}) == 0) continue;
      any = true;
      if (is_of_pairs(*kind) && *kind != Transfers::all_rails) retest.pairs.push_back(std::move(group));
    }
    if (any) all.push_back(std::move(retest));
  }
  return all;
}

// Single NICs whose ranks have met few others, as on two hosts, with other NICs of these ranks: `slow` are such cases.
// The faulty one of two NICs is slow with them too.
std::vector<RetestCase> pairs_of_other_nics(std::span<const RetestCase> slow, const Report& report,
                                            std::span<const TransferRecord> observations, const NicNumbers& numbers) {
  constexpr std::size_t enough_partners = 3;
  const std::vector<RankLocation> places = places_of(report.topology);
  std::map<std::pair<RankLocation, int>, std::size_t> partners;
  std::set<std::tuple<RankLocation, RankLocation, int>> fast;
  for (const TransferRecord& each : observations) {
    if (!each.nic) continue;
    for (const RankLocation& rank : each.ranks) ++partners[{rank, *each.nic}];
    if (each.slow.share() < 0.5) fast.emplace(each.ranks[0], each.ranks[1], *each.nic);
  }
  std::map<std::pair<int, int>, RetestCase> by_nics;
  for (const RetestCase& each : slow) {
    if (!each.like.nic) continue;
    const int nic = *each.like.nic;
    for (const Group& ranks : each.pairs) {
      const auto [a, b] = std::minmax(places.at(static_cast<std::size_t>(ranks.front())),
                                      places.at(static_cast<std::size_t>(ranks.back())));
      if (partners[{a, nic}] >= enough_partners && partners[{b, nic}] >= enough_partners) continue;
      std::vector<int> others;
      const std::vector<int>&of_a = numbers.of(a), &of_b = numbers.of(b);
      for (int other = 0; std::cmp_less(other, std::min(of_a.size(), of_b.size())); ++other) {
        const auto at = static_cast<std::size_t>(other);
        if (other != nic && of_a[at] != NicNumbers::lacking && of_b[at] != NicNumbers::lacking) others.push_back(other);
      }
      std::ranges::stable_partition(others, [&](int other) { return fast.contains({a, b, other}); });
      const auto add = [&](int one, int two) {
        RetestCase& retest = by_nics[{one, two}];
        retest.like = each.like;
        retest.like.nic = one;
        retest.like.other_nic = two;
        retest.slowest = std::max(retest.slowest, each.slowest);
        if (std::ranges::find(retest.pairs, ranks) == retest.pairs.end()) retest.pairs.push_back(ranks);
      };
      for (const int other : others | std::views::take(enough_partners)) add(nic, other), add(other, nic);
      // For comparison: NICs of different numbers may be farther from each other.
      if (others.size() > 1 && fast.contains({a, b, others[0]}) && fast.contains({a, b, others[1]}))
        add(others[0], others[1]);
    }
  }
  std::vector<RetestCase> all;
  for (auto& [nics, retest] : by_nics) all.push_back(std::move(retest));
  return all;
}

}  // namespace

std::vector<RetestCase> to_retest(const Report& report) {
  constexpr std::size_t most = 64;  // slowest pairs per operation: more slow pairs are not the fault of one part
  const NicNumbers numbers(report.topology);
  const std::vector<TransferRecord> observations = observe(report, {});
  const Paths paths = paths_of(report, numbers);
  std::map<TransferKey, double> slow;  // fraction of slow samples
  std::set<Transfers> whole;           // kinds that are retested as a whole
  std::set<std::pair<int, int>> nodes_to_meet;
  for (const FaultyPart& faulty : localize(observations, paths, Fault::slow, doubtful_log_odds)) {
    if (shows_only_in_groups(faulty)) nodes_to_meet.merge(nodes_to_separate(faulty));
    for (const TransferRecord* each : faulty.observations) {
      if (each->slow.hits == 0) continue;
      if (each->is_pair() && each->kind != Transfers::all_rails)
        slow[key_of(*each)] = each->slow.share();
      else
        whole.insert(each->kind);
    }
  }
  const std::vector<RankLocation> places = places_of(report.topology);
  const auto slow_pairs = [&](const Measurement& m) {
    std::set<std::pair<double, Group>, std::greater<>> found;
    for (const GroupResult& result : m.groups) {
      const auto [low, high] = std::minmax(result.group.front(), result.group.back());
      const std::vector<RankLocation> two{places.at(static_cast<std::size_t>(low)),
                                          places.at(static_cast<std::size_t>(high))};
      const auto its = slow.find({*transfers_of(m.measured_case), two, m.measured_case.nic.value_or(-1)});
      if (its != slow.end()) found.insert({its->second, {low, high}});
    }
    // GPUs with equal indices on the two nodes.
    if (!nodes_to_meet.empty() && !m.measured_case.nic && leaves_domain(m.measured_case))
      for (std::size_t a = 0; a < places.size(); ++a)
        for (std::size_t b = a + 1; b < places.size(); ++b)
          if (places[a].number == places[b].number && nodes_to_meet.contains({places[a].node, places[b].node}))
            found.insert({0, {static_cast<int>(a), static_cast<int>(b)}});
    RetestCase retest{.like = m.measured_case, .pairs = {}, .slowest = found.empty() ? 0 : found.begin()->first};
    for (const auto& [its, pair] : found | std::views::take(most)) retest.pairs.push_back(pair);
    return retest;
  };
  std::vector<RetestCase> all = silent_cases_to_retest(report, observations, paths), slow_cases;
  for (const std::size_t at : cases_of_pairs(report)) {
    const Measurement& m = report.results[at].measurement;
    // The most demanding pattern of the plan; cases for fault localization have only one.
    if (!m.measured_case.for_parts && m.measured_case.pattern != "both_ways") continue;
    if (RetestCase retest = slow_pairs(m); !retest.pairs.empty()) slow_cases.push_back(std::move(retest));
  }
  std::ranges::move(pairs_of_other_nics(slow_cases, report, observations, numbers), std::back_inserter(all));
  std::ranges::move(slow_cases, std::back_inserter(all));
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    const std::optional<Transfers> kind = transfers_of(m.measured_case);
    if (kind && whole.contains(*kind) && m.groups.size() > 1) all.push_back({m.measured_case, {}});
  }
  return all;
}

std::string sentence_about(const Suspect& suspect) {
  std::vector<std::string> where;
  for (const std::string* each : {&suspect.host, &suspect.instance, &suspect.device})
    if (!each->empty()) where.push_back(*each);
  return fmt::format("{} {}{}: {}. To do: {}", suspect.kind, suspect.name,
                     where.empty() ? "" : fmt::format(" ({})", join(where)), suspect.evidence, suspect.action);
}

std::string full_name(const Part& part) { return kind_name(part) + " " + name_of(part); }

std::optional<Part> part_named(std::string_view full_name) {
  const std::size_t space = std::min(full_name.find(' '), full_name.size());
  const std::string_view kind = full_name.substr(0, space);
  std::string_view rest = full_name.substr(std::min(space + 1, full_name.size()));
  const auto take_number = [&](std::string_view before, int& number) {
    if (!rest.starts_with(before) || rest.substr(before.size()).starts_with('-')) return false;
    const auto [end, problem] = std::from_chars(rest.data() + before.size(), rest.data() + rest.size(), number);
    if (problem == std::errc()) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return problem == std::errc();
  };
  Part part;
  bool known = false;
  if (kind == "rail") {
    part.kind = PartKind::rail;
    known = take_number("", part.number);
    if (!take_number("-", part.last)) part.last = part.number;
  } else if (kind == "domain") {
    part.kind = PartKind::domain;
    known = take_number("d", part.node);
  } else if (take_number("n", part.node)) {
    if (kind == "node") {
      known = true;
    } else if (kind == "link") {
      part.kind = PartKind::link;
      known = take_number("-n", part.number);
    } else if (kind == "gpu") {
      part.kind = PartKind::gpu;
      known = take_number("g", part.number);
    } else if (kind == "nic" && take_number("g", part.number)) {
      part.kind = PartKind::nics;
      part.number = part.last = -1 - part.number;
      known = true;
    } else if (kind == "nic") {
      known = take_number("r", part.number);
      part.kind = take_number("-", part.last) ? PartKind::nics : PartKind::nic;
    }
  }
  return known && rest.empty() ? std::optional(part) : std::nullopt;
}

std::optional<Part> part_of(const Suspect& suspect) { return part_named(suspect.kind + " " + suspect.name); }

std::set<std::size_t> hosts_of(const Part& part, const topo::Topology& topology) {
  std::set<std::size_t> all;
  const std::vector<int> domains = domains_of_hosts(topology);
  for (std::size_t host = 0; host < topology.hosts.size(); ++host)
    if (part.kind == PartKind::domain ? part.node == domains[host]
        : part.kind == PartKind::rail
            ? true
            : std::cmp_equal(part.node, host) || (part.kind == PartKind::link && std::cmp_equal(part.number, host)))
      all.insert(host);
  return all;
}

std::set<std::size_t> hosts_of(const Suspect& suspect, const topo::Topology& topology) {
  const std::optional<Part> part = part_of(suspect);
  return part ? hosts_of(*part, topology) : std::set<std::size_t>();
}

}  // namespace p5::reports
