#include "reports/part_names.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/names.hpp"

namespace p5::reports {

namespace {
using PartKind = Part::Kind;
}  // namespace

std::string kind_name(const Part& part) {
  constexpr std::array names{"node", "gpu",  "nic",  "nic",   "nic",
                             "link", "link", "rail", "domain"};  // indexed by PartKind
  return names[static_cast<std::size_t>(part.kind)];
}

std::string name_of(const Part& part) {
  const auto& [kind, node, number, last, sets] = part;
  if (kind == PartKind::links) {
    std::vector<std::string> names;
    for (const std::vector<int>& set : sets) {
      std::vector<std::string> nodes;
      for (const int each : set) nodes.push_back(fmt::format("n{}", each));
      names.push_back(join(nodes, ","));
    }
    return join(names, "-");
  }
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
      std::vector<std::vector<int>> sets{{part.node}};
      for (int node = 0; !rest.empty();) {
        const bool next_set = take_number("-n", node);
        if (!next_set && !take_number(",n", node)) break;
        if (next_set) sets.emplace_back();
        sets.back().push_back(node);
      }
      known = sets.size() > 1;
      part = sets.size() == 2 && sets[0].size() == 1 && sets[1].size() == 1
                 ? Part{PartKind::link, sets[0][0], sets[1][0]}
                 : Part{PartKind::links, 0, 0, 0, sets};
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

std::set<int> nodes_of(const Part& part) {
  if (part.kind == PartKind::link) return {part.node, part.number};
  return is_in_node(part) ? std::set{part.node} : std::set<int>();
}

std::set<std::pair<int, int>> pairs_joined_by(const Part& part) {
  std::set<std::pair<int, int>> pairs;
  if (part.kind == PartKind::link) pairs.emplace(part.node, part.number);
  for (auto one = part.sets.begin(); one != part.sets.end(); ++one)
    for (auto other = std::next(one); other != part.sets.end(); ++other)
      for (const int a : *one)
        for (const int b : *other) pairs.insert(std::minmax(a, b));
  return pairs;
}

std::set<std::size_t> hosts_of(const Part& part, const topo::Topology& topology) {
  std::set<std::size_t> all;
  const std::vector<int> domains = domains_of_hosts(topology);
  std::set<int> nodes = nodes_of(part);
  for (const std::vector<int>& set : part.sets) nodes.insert(set.begin(), set.end());
  for (std::size_t host = 0; host < topology.hosts.size(); ++host)
    if (part.kind == PartKind::domain ? part.node == domains[host]
                                      : part.kind == PartKind::rail || nodes.contains(static_cast<int>(host)))
      all.insert(host);
  return all;
}

std::set<std::size_t> hosts_of(const Suspect& suspect, const topo::Topology& topology) {
  const std::optional<Part> part = part_of(suspect);
  return part ? hosts_of(*part, topology) : std::set<std::size_t>();
}

}  // namespace p5::reports
