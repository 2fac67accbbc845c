#include "bench/model/case.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "bench/model/measurement.hpp"

namespace p5 {

bool is_repeated(const Case& c) {
  return !c.for_parts && c.rounds && c.rounds->size() > 1 &&
         std::ranges::all_of(*c.rounds, [&](const Round& round) { return round == c.rounds->front(); });
}

std::uint64_t elements(const Case& c) { return c.bytes_per_rank.count / size_of(c.type); }

std::string operation_of(const Case& c) {
  std::string text{c.collective->name};
  for (const std::string* part : {&c.pattern, &c.pair})
    if (!part->empty()) text += " " + *part;
  if (c.nic) text += fmt::format(" nic {}", *c.nic);
  return text;
}

std::string describe(const Case& c) {
  std::string text = operation_of(c);
  text += fmt::format(" {} {}", to_text(c.bytes), name_of(c.type));
  if (c.op) text += fmt::format(" {}", name_of(*c.op));
  if (c.root) text += fmt::format(" root {}", *c.root);
  if (c.in_place) text += " in place";
  if (c.group != "world") text += " group " + c.group;
  return text;
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::measured:
      return "measured";
    case Outcome::skipped:
      return "skipped";
    case Outcome::failed:
      break;
  }
  return "failed";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::open:
      return "open";
    case Phase::warm_up:
      return "warm_up";
    case Phase::sample:
      return "sample";
    case Phase::verify:
      break;
  }
  return "verify";
}

GBps algorithm_bandwidth(const Case& c, Seconds time) { return c.bytes / time; }

GBps bus_bandwidth(const Case& c, Seconds time) {
  return algorithm_bandwidth(c, time) * c.collective->bus_factor(c.collective->pairwise ? 2 : c.ranks);
}

}  // namespace p5
