#include "reports/part_names.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace p5::reports {

namespace {
using PartKind = Part::Kind;
}  // namespace

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

std::set<int> nodes_of(const Part& part) {
  if (part.kind == PartKind::link) return {part.node, part.number};
  if (part.kind == PartKind::rail || part.kind == PartKind::domain) return {};
  return {part.node};
}

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
