#include "reports/suspect_text.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "reports/markup.hpp"
#include "reports/part_names.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;

bool is_one_nic(const Part& part) { return part.kind == PartKind::nic || part.kind == PartKind::only_nic; }

std::string name_of_direction(const Part& part, bool receives, const topo::Topology& topology) {
  if (part.kind == PartKind::links)
    return receives ? " from the latter to the former" : " from the former to the latter";
  if (part.kind != PartKind::link) return receives ? " when it receives" : " when it sends";
  const auto host = [&](int node) { return topology.hosts.at(static_cast<std::size_t>(node)).name; };
  return fmt::format(" from {} to {}", host(receives ? part.number : part.node),
                     host(receives ? part.node : part.number));
}

}  // namespace

bool shows_only_in_groups(const FaultyPart& faulty) { return std::ranges::none_of(faulty.shows_in, is_of_pairs); }

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

std::string figures_of(const FaultyPart& faulty, const topo::Topology& topology) {
  const bool groups = shows_only_in_groups(faulty);
  const auto transfers =
      std::ranges::count_if(faulty.observations, [&](const TransferRecord* each) { return each->is_pair() != groups; });
  const std::string over = counted(static_cast<std::size_t>(transfers), groups ? "group" : "pair");
  if (faulty.fault != Fault::slow) {
    SampleCounts rounds;
    for (const TransferRecord* each : faulty.observations)
      rounds += faulty.fault == Fault::silent ? each->silent : each->wrong;
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

namespace {

// Number of partners in the transfers that show the fault: nodes if the part is a node, else ranks. Each NIC of
// another number that was measured with it counts too, if the part is a NIC.
std::size_t partners_of(const FaultyPart& faulty) {
  std::set<std::pair<RankLocation, int>> met;
  for (const TransferRecord* each : faulty.observations)
    for (std::size_t end = 0; end < each->ranks.size(); ++end) {
      const RankLocation& rank = each->ranks[end];
      if (faulty.part.kind == PartKind::link && !nodes_of(faulty.part).contains(rank.node)) continue;
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

// "the 18 nodes n0 to n17".
std::string hosts_of_domain(int domain, const topo::Topology& topology) {
  const std::vector<int> domains = domains_of_hosts(topology);
  std::vector<std::string> names;
  for (std::size_t host = 0; host < domains.size(); ++host)
    if (domains[host] == domain) names.push_back(topology.hosts[host].name);
  return fmt::format("the {} {} to {}", counted(names.size(), "node"), names.front(), names.back());
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
    case PartKind::links: {
      std::vector<std::string> sets;
      for (const std::vector<int>& nodes : part.sets) sets.push_back(names_of(nodes, topology));
      return {fmt::format("the nodes {} reach each other", join(sets, " and ")),
              "what joins these sets of nodes is at fault, such as a spine of the network: compare their placement "
              "(aws ec2 describe-instance-topology), keep each job within one set, and open a case with support.txt"};
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

// Evidence about the NICs beside a GPU, of which one or all are at fault. Only measurements of single NICs, with a node
// that is not slow, distinguish them.
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

}  // namespace

Suspect suspect_of(const FaultyPart& faulty, const topo::Topology& topology, std::span<const TransferRecord> records,
                   const std::set<int>& slow_nodes, const NicNumbers& numbers) {
  const Part& part = faulty.part;
  Suspect s;
  s.kind = kind_name(part);
  s.name = name_of(part);
  if (is_in_node(part) || part.kind == PartKind::link) {
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
  if (part.kind == PartKind::links)
    s.evidence += ": within each of these sets nodes reach each other faster, but for other parts that are named";
  if (part.kind == PartKind::nics) s.evidence += about_nics(faulty, records, slow_nodes, numbers);
  if (shows_only_in_groups(faulty)) s.evidence += "; pairs are fast: the fault appears only when many ranks take part";
  return s;
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
    nodes.insert(is_in_node(part) ? part.node : -1);
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

std::string next_step(const std::vector<Part>& candidates, std::string_view fault) {
  std::set<int> nodes, domains;
  for (const Part& part : candidates) {
    nodes.merge(nodes_of(part));
    if (part.kind == PartKind::domain) domains.insert(part.node);
  }
  std::vector<std::string> names;
  for (const int node : nodes) names.push_back(fmt::format("n{}", node));
  for (const int domain : domains) names.push_back(fmt::format("domain d{}", domain));
  if (std::ranges::find(candidates, PartKind::links, &Part::kind) != candidates.end())
    return fmt::format("measure each of these sets of nodes by itself: if none is {}, what joins them is at fault",
                       fault);
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

std::string sentence_about(const Suspect& suspect) {
  std::vector<std::string> where;
  for (const std::string* each : {&suspect.host, &suspect.instance, &suspect.device})
    if (!each->empty()) where.push_back(*each);
  return fmt::format("{} {}{}: {}. To do: {}", suspect.kind, suspect.name,
                     where.empty() ? "" : fmt::format(" ({})", join(where)), suspect.evidence, suspect.action);
}

}  // namespace p5::reports
