#include "reports/suspects.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "bench/base/inference.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"
#include "bench/model/backends.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

constexpr double matters = 0.10;          // less passes for what GPUs, switches and routes differ by
constexpr double chance_of_alarm = 0.01;  // of all parts together
constexpr double share_of_slow = 0.9;     // of a suspect's pairs: one may have been measured at a good moment
constexpr std::size_t least_partners = 2, most_suspects = 16;

// The place of a rank: its node, and its number among the ranks there.
struct Place {
  int node = 0, gpu = 0;
  auto operator<=>(const Place&) const = default;
};

// Two ranks, and how much longer they take than the fast ones of their kind: 1 is as long.
struct PairTime {
  Place a, b;
  std::vector<double> ratios;  // of each case, and each way
  double ratio = 1;            // their median
};

std::vector<Place> places_of(const topo::Topology& topology) {
  std::vector<Place> places;
  std::map<int, int> seen;
  for (const int node : topology.host_of_rank) places.push_back({node, seen[node]++});
  return places;
}

// Pairs of a kind that have equal ways: within nodes all, through a switch; between nodes those as far apart by their
// place on the node, counted round and round, because the way from rail to rail may be longer.
using Alike = std::tuple<std::size_t, bool, int>;  // case, same node, distance

std::vector<PairTime> pair_times(const Report& report) {
  const std::vector<Place> places = places_of(report.topology);
  std::map<int, int> ranks_on;
  for (const Place& place : places) ++ranks_on[place.node];
  std::map<Alike, std::vector<std::pair<std::pair<Place, Place>, double>>> alike;
  for (std::size_t at = 0; at < report.results.size(); ++at) {
    const Measurement& m = report.results[at].measurement;
    const Case& c = m.measured_case;
    if (!c.collective->pairwise || c.bytes < MiB(64) || c.arm != "default") continue;
    if (find_backend(c.backend).parts != BackendInfo::Parts::gpus) continue;
    for (const GroupResult& result : m.groups) {
      if (result.group.size() != 2 || result.median.count <= 0) continue;
      const auto ranks = std::minmax(result.group[0], result.group[1]);
      if (ranks.first < 0 || std::cmp_greater_equal(ranks.second, places.size())) continue;
      const Place a = places[static_cast<std::size_t>(ranks.first)], b = places[static_cast<std::size_t>(ranks.second)];
      const bool same = a.node == b.node;
      const int ranks_there = ranks_on[a.node];
      alike[{at, same, same ? 0 : (b.gpu - a.gpu + ranks_there) % ranks_there}].push_back(
          {{a, b}, result.median.count});
    }
  }
  std::map<std::pair<Place, Place>, std::vector<double>> ratios;
  for (const auto& [kind, times] : alike) {
    // The fast ones, not the median: of three nodes one that is slow slows two thirds of the pairs.
    std::vector<double> sorted;
    for (const auto& [two, time] : times) sorted.push_back(time);
    std::ranges::sort(sorted);
    const double fast = sorted[sorted.size() / 10];
    for (const auto& [two, time] : times) ratios[two].push_back(time / fast);
  }
  std::vector<PairTime> all;
  for (auto& [two, of_pair] : ratios) all.push_back({two.first, two.second, of_pair, median(of_pair)});
  return all;
}

// A part, by which its pairs are known.
struct Part {
  // node: what it passes to others; board: what joins its GPUs.
  enum class Kind { node, board, nic, gpu, link } kind = Kind::node;  // the wider first
  Place place;                                                        // node: of gpu 0; link: of the first node
  int other = 0;                                                      // link: the second node
  auto operator<=>(const Part&) const = default;
};

// Parts that a pair passes.
std::vector<Part> parts_of(const PairTime& two) {
  using enum Part::Kind;
  if (two.a.node == two.b.node) return {{board, {two.a.node, 0}}, {gpu, two.a}, {gpu, two.b}};
  const auto [first, second] = std::minmax(two.a.node, two.b.node);
  return {{node, {two.a.node, 0}}, {node, {two.b.node, 0}}, {nic, two.a}, {nic, two.b}, {link, {first, 0}, second}};
}

// Whom it met: nodes of a node, ranks of a GPU and its NICs, pairs of ranks of a link.
std::size_t partners_of(const Part& part, const std::vector<const PairTime*>& pairs) {
  std::set<Place> met;
  for (const PairTime* two : pairs) {
    const bool first = two->a.node == part.place.node && (part.kind == Part::Kind::node || two->a == part.place);
    const Place other = first ? two->b : two->a;
    if (part.kind == Part::Kind::link || part.kind == Part::Kind::board)
      met.insert(two->a);
    else
      met.insert(part.kind == Part::Kind::node ? Place{other.node, 0} : other);
  }
  return met.size();
}

struct Accused {
  Part part;
  double ratio = 1;  // the median of its pairs over that of the others
  double p = 1;      // that chance made it so, for all parts together
  std::size_t pairs = 0, partners = 0;
};

class Trial {
 public:
  explicit Trial(const std::vector<PairTime>& pairs) {
    for (const PairTime& two : pairs)
      for (const Part& part : parts_of(two)) of_part_[part].push_back(&two);
    for (const PairTime& two : pairs) (is_within(two) ? within_ : between_).push_back(&two);
  }

  // The part that explains most of the slow pairs that nobody has explained, then the next.
  std::vector<Accused> run() {
    std::vector<Accused> accused;
    while (accused.size() < most_suspects) {
      const Part* best = nullptr;
      std::size_t explained = 0;
      bool only = true;  // nothing elsewhere explains the same pairs as well
      for (const auto& [part, pairs] : of_part_) {
        const std::size_t slow = slow_if_guilty(part, pairs);
        if (slow > explained) {
          best = &part;
          explained = slow;
          only = true;
        } else if (best && slow == explained && slow > 0 && part.place.node != best->place.node &&
                   pairs == of_part_.at(*best)) {
          only = false;
        }
      }
      if (!best) break;
      const std::vector<const PairTime*> pairs = of_part_.at(*best);
      const Accused found = weigh(*best, pairs);
      for (const PairTime* two : pairs) explained_.insert(two);
      if (only && found.p < chance_of_alarm) accused.push_back(found);
    }
    return accused;
  }

 private:
  static bool is_within(const PairTime& two) { return two.a.node == two.b.node; }
  static bool is_slow(const PairTime& two) { return two.ratio > 1 + matters; }

  // How many slow pairs it would explain; 0 when too many of its pairs are fast, or too few are left to say.
  std::size_t slow_if_guilty(const Part& part, const std::vector<const PairTime*>& pairs) const {
    std::vector<const PairTime*> open;
    for (const PairTime* two : pairs)
      if (!explained_.contains(two)) open.push_back(two);
    const auto slow =
        static_cast<std::size_t>(std::ranges::count_if(open, [](const PairTime* p) { return is_slow(*p); }));
    if (open.empty() || static_cast<double>(slow) < share_of_slow * static_cast<double>(open.size())) return 0;
    if (part.kind != Part::Kind::link && partners_of(part, open) < least_partners) return 0;
    return slow;
  }

  Accused weigh(const Part& part, const std::vector<const PairTime*>& pairs) {
    std::vector<double> its, others;
    for (const PairTime* two : pairs)
      if (!explained_.contains(two)) its.insert(its.end(), two->ratios.begin(), two->ratios.end());
    const std::set<const PairTime*> own(pairs.begin(), pairs.end());
    for (const PairTime* two : is_within(*pairs.front()) ? within_ : between_)
      if (!own.contains(two) && !explained_.contains(two))
        others.insert(others.end(), two->ratios.begin(), two->ratios.end());
    Accused found{
        .part = part, .ratio = median(its), .p = 1, .pairs = pairs.size(), .partners = partners_of(part, pairs)};
    if (others.empty()) return found;
    found.p = std::min(1.0, test_.above(others, its) * static_cast<double>(of_part_.size()));
    found.ratio /= median(std::move(others));
    return found;
  }

  std::map<Part, std::vector<const PairTime*>> of_part_;
  std::vector<const PairTime*> within_, between_;
  std::set<const PairTime*> explained_;
  RankTest test_;
};

// The NICs near a GPU as numbers among those of its host, as --fault counts them; empty where that is not known.
std::vector<std::size_t> nics_of(const topo::Host& host, int gpu) {
  std::vector<std::size_t> numbers;
  if (std::cmp_greater_equal(gpu, host.gpu_devices.size())) return numbers;
  const std::vector<std::string>& names = host.gpu_devices[static_cast<std::size_t>(gpu)].nics;
  std::vector<std::string> fabric;
  for (const topo::Nic& nic : host.nics)
    if (nic.kind == "efa" || nic.kind == "infiniband") fabric.push_back(nic.name);
  for (std::size_t i = 0; i < fabric.size(); ++i)
    if (std::ranges::find(names, fabric[i]) != names.end()) numbers.push_back(i);
  return numbers;
}

std::string name_of(const Part& part, const topo::Host& host) {
  using enum Part::Kind;
  switch (part.kind) {
    case node:
    case board:
      return fmt::format("n{}", part.place.node);
    case link:
      return fmt::format("n{}-n{}", part.place.node, part.other);
    case gpu:
      return fmt::format("n{}g{}", part.place.node, part.place.gpu);
    case nic:
      break;
  }
  const std::vector<std::size_t> nics = nics_of(host, part.place.gpu);
  if (nics.empty()) return fmt::format("n{}g{}", part.place.node, part.place.gpu);
  if (nics.size() == 1) return fmt::format("n{}r{}", part.place.node, nics.front());
  return fmt::format("n{}r{}-{}", part.place.node, nics.front(), nics.back());
}

// within: whether pairs of its node were measured, and so are known to be fast.
Suspect suspect_of(const Accused& accused, bool within, const topo::Topology& topology) {
  using enum Part::Kind;
  const Part& part = accused.part;
  const topo::Host& host = topology.hosts.at(static_cast<std::size_t>(part.place.node));
  Suspect s;
  s.name = name_of(part, host);
  s.host = host.name;
  s.instance = host.instance;
  s.partners_tested = static_cast<int>(accused.partners);
  s.confidence = 1 - accused.p;
  const std::string rate = fmt::format("{:.0f} % of the others' rate, over {} {}", 100 / accused.ratio, accused.pairs,
                                       accused.pairs == 1 ? "pair" : "pairs");
  if (part.kind == node) {
    s.kind = "node";
    s.evidence = fmt::format("all its GPUs reach other nodes at {}; {} other nodes agree", rate, accused.partners);
    s.action = "replace the instance; its own settings first, where other jobs run on it";
  } else if (part.kind == board) {
    s.kind = "node";
    s.evidence = fmt::format("all its GPUs reach each other at {}", rate);
    s.action = "look at its fabric manager, NVSwitches and power, reboot it; if it stays, replace the instance";
  } else if (part.kind == nic) {
    s.kind = "nic";
    s.evidence = fmt::format(
        "GPU {} reaches other nodes at {}; {} partners agree{}: it is one of the NICs beside it, which "
        "pairs of GPUs do not tell apart",
        part.place.gpu, rate, accused.partners, within ? ", and within its node it is fast" : "");
    s.action = "replace the instance, and open a case with support.txt";
  } else if (part.kind == gpu) {
    s.kind = "gpu";
    s.evidence = fmt::format("GPU {} reaches the other GPUs of its node at {}; {} partners agree", part.place.gpu, rate,
                             accused.partners);
    s.action =
        "look at its NVLinks (nvidia-smi nvlink -s -e) and clocks, reset it or reboot; if it stays, replace the "
        "instance";
  } else {
    const topo::Host& other = topology.hosts.at(static_cast<std::size_t>(part.other));
    s.kind = "link";
    s.evidence = fmt::format("between {} and {} pairs run at {}, and either is fast with other nodes", host.name,
                             other.name, rate);
    s.action = "it is what lies between the two: keep one of them out of a job, and open a case with support.txt";
  }
  return s;
}

std::set<std::string> unfit_hosts(const Report& report) {
  std::set<std::string> unfit;
  for (const Suspect& suspect : report.suspects)
    if (suspect.kind != "link") unfit.insert(suspect.host);
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding) && !finding.subject.host.empty()) unfit.insert(finding.subject.host);
  return unfit;
}

}  // namespace

std::vector<Suspect> find_suspects(const Report& report) {
  const topo::Topology& topology = report.topology;
  std::vector<PairTime> pairs = pair_times(report);
  const auto leave_out = [&](bool within) {
    std::erase_if(pairs, [&](const PairTime& two) { return (two.a.node == two.b.node) == within; });
  };
  // Without a switch some GPUs of a node are farther apart than others, and that is no fault.
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  if (topo::gpu_model(topology).empty() || (platform && !platform->nvswitch)) leave_out(true);
  // What passes between pretended nodes passes no NIC.
  if (std::ranges::any_of(topology.hosts, &topo::Host::pretended)) leave_out(false);
  std::vector<Accused> accused = Trial(pairs).run();
  // What is slow within its node is slow beyond it too, and its NICs are not to blame.
  const auto is_accused = [&](Part::Kind kind, Place place) {
    return std::ranges::any_of(accused, [&](const Accused& e) { return e.part.kind == kind && e.part.place == place; });
  };
  std::vector<Accused> last;
  for (const Accused& each : accused) {
    const bool told = (each.part.kind == Part::Kind::nic && is_accused(Part::Kind::gpu, each.part.place)) ||
                      (each.part.kind == Part::Kind::board && is_accused(Part::Kind::node, each.part.place));
    if (!told) last.push_back(each);
  }
  accused = std::move(last);
  std::vector<Suspect> suspects;
  for (const Accused& each : accused) {
    const bool within = std::ranges::any_of(pairs, [&](const PairTime& two) {
      return two.a.node == two.b.node && (two.a == each.part.place || two.b == each.part.place);
    });
    suspects.push_back(suspect_of(each, within, topology));
  }
  return suspects;
}

std::string sentence_about(const Suspect& suspect) {
  return fmt::format("{} {} ({}{}): {}. To do: {}", suspect.kind, suspect.name, suspect.host,
                     suspect.instance.empty() ? "" : ", " + suspect.instance, suspect.evidence, suspect.action);
}

std::string healthy_hosts(const Report& report) {
  const std::set<std::string> unfit = unfit_hosts(report);
  std::map<int, int> ranks;
  for (const int host : report.topology.host_of_rank) ++ranks[host];
  std::string text;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < report.topology.hosts.size(); ++i) {
    const std::string& name = report.topology.hosts[i].name;
    if (unfit.contains(name)) continue;
    ++kept;
    text += fmt::format("{} slots={}\n", printable(name), ranks[static_cast<int>(i)]);
  }
  return kept == report.topology.hosts.size() ? "" : text;
}

std::string support_text(const Report& report) {
  const bool found = std::ranges::any_of(report.findings, topo::condemns);
  if (report.suspects.empty() && !found) return "";
  std::string text = fmt::format("p5bench {}: {} on {}, {} ranks on {} nodes, {}, {}\n", report.run.version,
                                 report.provenance, report.run.cluster, report.run.ranks, report.run.nodes,
                                 report.topology.platform.empty() ? "platform not known" : report.topology.platform,
                                 report.run.started);
  text += "\nWhat is wrong\n";
  for (const Suspect& suspect : report.suspects)
    text += fmt::format("- {} (confidence {:.4f})\n", printable(sentence_about(suspect)), suspect.confidence);
  std::set<std::string> hosts;
  for (const Suspect& suspect : report.suspects) hosts.insert(suspect.host);
  for (const topo::Finding& finding : report.findings) {
    if (!topo::condemns(finding)) continue;
    text += fmt::format("- {}{}: {}. To do: {}\n", finding.id,
                        finding.subject.host.empty() ? "" : " on " + printable(finding.subject.host),
                        printable(finding.evidence), printable(finding.action));
    hosts.insert(finding.subject.host);
  }
  text += "\nHosts\n";
  for (const topo::Host& host : report.topology.hosts) {
    if (!hosts.contains(host.name)) continue;
    text += fmt::format("- {}: instance {}, {}, kernel {}\n", printable(host.name),
                        host.instance.empty() ? "not known" : printable(host.instance),
                        host.instance_type.empty() ? "type not known" : printable(host.instance_type),
                        host.kernel.empty() ? "not known" : printable(host.kernel));
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      text += fmt::format("    GPU {}: {} {} {}\n", i, printable(host.gpu_devices[i].name),
                          printable(host.gpu_devices[i].uuid), printable(host.gpu_devices[i].pci.address));
    for (const topo::Nic& nic : host.nics)
      if (nic.kind == "efa" || nic.kind == "infiniband")
        text += fmt::format("    NIC {}: {} {}\n", printable(nic.name), nic.kind, printable(nic.pci.address));
  }
  text += "\nSoftware\n";
  for (const auto& [key, value] : report.context)
    if (!key.starts_with("env.")) text += fmt::format("- {}: {}\n", printable(key), printable(value));
  return text;
}

}  // namespace p5::reports
