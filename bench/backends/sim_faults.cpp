// Faults of the simulator as text, --fault KIND:WHERE:FACTOR[:MODE], and the NVLink domains that they leave.
#include <fmt/format.h>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

constexpr double least_share = 0.001;  // a run has some thousand samples

struct Reader {
  const std::string& text;

  UsageError refuse(const std::string& why) const {
    return UsageError(
        fmt::format("--fault: '{}': {}. Write KIND:WHERE:FACTOR[:MODE], such as gpu:n3g2:0.5, nic:n3r5:0:always, "
                    "node:n3:0.9:20%, link:n3-n5:0.5:all-rails or domain:d1:0.9",
                    text, why));
  }

  // Consumes `letter` and a number at the start of `rest`, and returns the number.
  int number(std::string_view& rest, std::string_view letter, int count, std::string_view what) const {
    if (!rest.starts_with(letter))
      throw refuse(fmt::format("'{}' stands where '{}' and a number are wanted", rest, letter));
    rest.remove_prefix(letter.size());
    int value = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (problem != std::errc() || value < 0) throw refuse(fmt::format("'{}' is not the number of a {}", rest, what));
    if (value >= count) throw refuse(fmt::format("there is no {} {}: they are 0 to {}", what, value, count - 1));
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
  }

  double real(const std::string& part, std::string_view what) const {
    const double value = as_number<double>(part).value_or(-1);
    if (!(value >= 0 && value <= 1e6)) throw refuse(fmt::format("'{}' is not a {}", part, what));
    return value;
  }
};

void read_mode(const Reader& reader, const std::string& mode, const SimMachine& machine, Fault& fault) {
  if (mode == "always") return;
  if (mode == "all-rails") {
    fault.mode = Fault::Mode::all_rails;
  } else if (mode == "at-scale") {
    fault.mode = Fault::Mode::at_scale;
  } else if (mode == "lies") {
    fault.mode = Fault::Mode::lies;
  } else if (mode == "communicators") {
    fault.mode = Fault::Mode::communicators;
  } else if (mode == "under-load") {
    if (fault.kind != Fault::Kind::gpu && fault.kind != Fault::Kind::nic && fault.kind != Fault::Kind::node)
      throw reader.refuse("'under-load' is a fault of a GPU, a NIC or a node");
    if (fault.factor == 0) throw reader.refuse("a part that is silent under load is not simulated");
    fault.mode = Fault::Mode::under_load;
  } else if (mode == "clique") {
    if (fault.kind != Fault::Kind::node || machine.nodes_per_domain < 2)
      throw reader.refuse("'clique' is a fault of a node that shares an NVLink domain with others");
    fault.mode = Fault::Mode::clique;
  } else if (mode == "plane") {
    if (fault.kind != Fault::Kind::domain) throw reader.refuse("'plane' is a fault of an NVLink domain");
    fault.mode = Fault::Mode::plane;
  } else if (mode == "compute" || mode == "memory" || mode == "miscompute") {
    if (fault.kind != Fault::Kind::gpu) throw reader.refuse(fmt::format("'{}' is a fault of a GPU alone", mode));
    fault.mode = mode == "compute"  ? Fault::Mode::compute
                 : mode == "memory" ? Fault::Mode::memory
                                    : Fault::Mode::miscompute;
  } else if (mode.ends_with("%")) {
    fault.mode = Fault::Mode::sometimes;
    fault.share = reader.real(mode.substr(0, mode.size() - 1), "share of samples in percent") / 100;
    if (fault.share > 1) throw reader.refuse(fmt::format("'{}' is more than all samples", mode));
    if (fault.share < least_share)
      throw reader.refuse(fmt::format("'{}' is too rare to show; 0.1% is the least", mode));
  } else {
    throw reader.refuse(
        unknown_name("mode", mode,
                     std::vector<std::string>{"always", "P%", "all-rails", "at-scale", "lies", "communicators",
                                              "clique", "plane", "compute", "memory", "miscompute", "under-load"}));
  }
}

}  // namespace

int SimMachine::domain_of(int node) const {
  for (const Fault& fault : faults)
    if (fault.mode == Fault::Mode::clique && fault.node == node) return domains() + node;
  return node / nodes_per_domain;
}

Fault parse_fault(const std::string& text, const SimMachine& machine) {
  const Reader reader{text};
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 3 || parts.size() > 4)
    throw reader.refuse(fmt::format("it needs 3 or 4 parts and has {}", parts.size()));
  Fault fault;
  std::string_view where = parts[1];
  const bool domain = parts[0] == "domain";
  if (domain && machine.nodes_per_domain < 2)
    throw reader.refuse("nodes of this platform share no NVLink domain; node:nN is the fault of a whole node");
  fault.node = domain ? reader.number(where, "d", machine.domains(), "NVLink domain")
                      : reader.number(where, "n", machine.nodes, "node");
  if (domain) {
    fault.kind = Fault::Kind::domain;
  } else if (parts[0] == "gpu") {
    fault.kind = Fault::Kind::gpu;
    fault.part = reader.number(where, "g", machine.gpus, "GPU");
  } else if (parts[0] == "nic") {
    fault.kind = Fault::Kind::nic;
    fault.part = reader.number(where, "r", machine.nics, "NIC");
  } else if (parts[0] == "link") {
    fault.kind = Fault::Kind::link;
    fault.part = reader.number(where, "-n", machine.nodes, "node");
    if (fault.part == fault.node) throw reader.refuse("a link has two different nodes");
    if (machine.domain_of(fault.part) == machine.domain_of(fault.node))
      throw reader.refuse("between nodes of one NVLink domain is nothing but its switches: domain:dN");
  } else if (parts[0] != "node") {
    throw reader.refuse(
        unknown_name("kind", parts[0], std::vector<std::string>{"gpu", "nic", "node", "link", "domain"}));
  }
  if (!where.empty()) throw reader.refuse(fmt::format("'{}' is left over behind the place", where));
  fault.factor = reader.real(parts[2], "share of speed left, from 0 to 1");
  if (fault.factor > 1) throw reader.refuse(fmt::format("'{}' is above 1, which would be no fault", parts[2]));
  if (parts.size() == 4) read_mode(reader, parts[3], machine, fault);
  return fault;
}

}  // namespace p5
