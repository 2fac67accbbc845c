#include "tuner/constraints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "bench/base/names.hpp"

namespace p5::tuner {

namespace {

constexpr std::array all_functions{Function::broadcast, Function::reduce, Function::all_gather,
                                   Function::reduce_scatter, Function::all_reduce};

template <class Value>
struct Named {
  std::string_view name;
  Value value;
};

// NCCL's own spellings, compared without case.
constexpr std::array<Named<Function>, 5> nccl_function_names{{{"broadcast", Function::broadcast},
                                                              {"reduce", Function::reduce},
                                                              {"allgather", Function::all_gather},
                                                              {"reducescatter", Function::reduce_scatter},
                                                              {"allreduce", Function::all_reduce}}};
constexpr std::array<Named<Algorithm>, 7> nccl_algorithm_names{{{"tree", Algorithm::tree},
                                                                {"ring", Algorithm::ring},
                                                                {"collnetdirect", Algorithm::collnet_direct},
                                                                {"collnetchain", Algorithm::collnet_chain},
                                                                {"nvls", Algorithm::nvls},
                                                                {"nvlstree", Algorithm::nvls_tree},
                                                                {"pat", Algorithm::pat}}};
constexpr std::array<Named<Protocol>, 3> nccl_protocol_names{
    {{"ll", Protocol::ll}, {"ll128", Protocol::ll128}, {"simple", Protocol::simple}}};

template <class Value, std::size_t count>
std::optional<Value> find(const std::array<Named<Value>, count>& names, std::string_view text) {
  const std::string name = lower(text);
  for (const Named<Value>& each : names)
    if (each.name == name) return each.value;
  return std::nullopt;
}

template <class Value, std::size_t count>
std::optional<std::set<Value>> parse_list(const std::array<Named<Value>, count>& names, std::string_view list) {
  const bool inverted = list.starts_with('^');
  if (inverted) list.remove_prefix(1);
  std::set<Value> listed;
  for (const std::string& part : split(list)) {
    const std::optional<Value> value = find(names, part);
    if (!value) return std::nullopt;
    listed.insert(*value);
  }
  if (!inverted) return listed;
  std::set<Value> others;
  for (const Named<Value>& each : names)
    if (!listed.contains(each.value)) others.insert(each.value);
  return others;
}

template <class Value, std::size_t count>
std::optional<std::set<std::tuple<Function, Value>>> parse_mask(const std::array<Named<Value>, count>& names,
                                                                std::string_view text) {
  std::map<Function, std::set<Value>> allowed;
  bool first = true;
  for (const std::string& entry : split(text, ';')) {
    const std::size_t colon = entry.find(':');
    const auto list = parse_list(names, colon == std::string::npos ? entry : entry.substr(colon + 1));
    if (!list) return std::nullopt;
    if (colon == std::string::npos) {
      if (!first) return std::nullopt;
      for (const Function function : all_functions) allowed[function] = *list;
    } else {
      const auto function = find(nccl_function_names, entry.substr(0, colon));
      if (!function) return std::nullopt;
      allowed[*function] = *list;
    }
    first = false;
  }
  std::set<std::tuple<Function, Value>> result;
  for (const Function function : all_functions)
    for (const Named<Value>& each : names)
      // A function that no entry names is not limited.
      if (!allowed.contains(function) || allowed[function].contains(each.value)) result.insert({function, each.value});
  return result;
}

template <class Value, std::size_t count>
std::set<std::tuple<Function, Value>> all_but(const std::array<Named<Value>, count>& names,
                                              const std::set<std::tuple<Function, Value>>& allowed) {
  std::set<std::tuple<Function, Value>> result;
  for (const Function function : all_functions)
    for (const Named<Value>& each : names)
      if (!allowed.contains({function, each.value})) result.insert({function, each.value});
  return result;
}

std::optional<int> whole(const std::string& text) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

void forbid_algorithm(Constraints& constraints, Algorithm algorithm) {
  for (const Function function : all_functions) constraints.forbidden_algorithms.insert({function, algorithm});
}

void not_understood(Constraints& constraints, const std::string& name, const std::string& value,
                    std::string_view consequence) {
  constraints.remarks.push_back(fmt::format("{}={} is not understood: {}", name, value, consequence));
}

void read_masks(Constraints& constraints, const Environment& environment) {
  const auto read = [&]<class Value>(const char* name, auto parse, std::set<Value>& forbidden, const auto& names) {
    const auto found = environment.find(name);
    if (found == environment.end()) return;
    const auto allowed = parse(found->second);
    if (!allowed) not_understood(constraints, name, found->second, "no algorithm or protocol is tried against it");
    forbidden.merge(all_but(names, allowed.value_or(std::set<Value>{})));
  };
  read("NCCL_ALGO", parse_algorithms, constraints.forbidden_algorithms, nccl_algorithm_names);
  read("NCCL_PROTO", parse_protocols, constraints.forbidden_protocols, nccl_protocol_names);
}

void read_channels(Constraints& constraints, const Environment& environment) {
  const auto read = [&](const char* name, auto apply) {
    const auto found = environment.find(name);
    if (found == environment.end()) return;
    if (const std::optional<int> value = whole(found->second); value && *value > 0)
      apply(*value);
    else if (!value)
      not_understood(constraints, name, found->second, "channel counts stay NCCL's"), constraints.most_channels = -1;
  };
  // NCCL takes the larger of the minima and the smaller of the maxima (src/graph/connect.cc).
  const auto at_least = [&](int value) { constraints.least_channels = std::max(constraints.least_channels, value); };
  const auto at_most = [&](int value) {
    if (constraints.most_channels == 0 || value < constraints.most_channels) constraints.most_channels = value;
  };
  for (const char* name : {"NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_CTAS"}) read(name, at_least);
  for (const char* name : {"NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS"}) read(name, at_most);
}

}  // namespace

bool Constraints::allows(Function function, const Setting& setting) const {
  if (forbidden_algorithms.contains({function, setting.algorithm})) return false;
  if (forbidden_protocols.contains({function, setting.protocol})) return false;
  if (setting.channels == 0) return true;
  return setting.channels >= least_channels && (most_channels == 0 || setting.channels <= most_channels);
}

bool concerns_tuning(std::string_view name) {
  if (name.starts_with("NCCL_DEBUG")) return false;
  return name.starts_with("NCCL_") || name.starts_with("FI_") || name.starts_with("OFI_NCCL_");
}

std::optional<std::set<std::tuple<Function, Algorithm>>> parse_algorithms(std::string_view text) {
  return parse_mask(nccl_algorithm_names, text);
}

std::optional<std::set<std::tuple<Function, Protocol>>> parse_protocols(std::string_view text) {
  return parse_mask(nccl_protocol_names, text);
}

Constraints constraints_of(const Environment& environment) {
  Constraints constraints;
  for (const auto& [name, value] : environment)
    if (concerns_tuning(name)) constraints.taken.insert(name);
  read_masks(constraints, environment);
  read_channels(constraints, environment);
  if (const auto nvls = environment.find("NCCL_NVLS_ENABLE"); nvls != environment.end() && nvls->second == "0") {
    forbid_algorithm(constraints, Algorithm::nvls);
    forbid_algorithm(constraints, Algorithm::nvls_tree);
  }
  if (const auto pat = environment.find("NCCL_PAT_ENABLE"); pat != environment.end() && pat->second == "0")
    forbid_algorithm(constraints, Algorithm::pat);
  return constraints;
}

}  // namespace p5::tuner
