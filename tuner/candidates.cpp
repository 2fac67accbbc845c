#include "tuner/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "bench/base/names.hpp"

namespace p5::tuner {

namespace {

// NCCL's spelling is ours without underscores; case does not matter.
template <class Value, std::size_t count>
std::optional<Value> parse_nccl_name(const std::array<Value, count>& values, std::string_view text) {
  for (const Value value : values) {
    std::string name(name_of(value));
    std::erase(name, '_');
    if (name == lower(text)) return value;
  }
  return std::nullopt;
}

template <class Value, std::size_t count>
std::optional<std::set<Value>> parse_list(const std::array<Value, count>& values, std::string_view list) {
  const bool inverted = list.starts_with('^');
  if (inverted) list.remove_prefix(1);
  std::set<Value> listed;
  for (const std::string& part : split(list)) {
    const std::optional<Value> value = parse_nccl_name(values, part);
    if (!value) return std::nullopt;
    listed.insert(*value);
  }
  if (!inverted) return listed;
  std::set<Value> others(values.begin(), values.end());
  for (const Value value : listed) others.erase(value);
  return others;
}

// Parses NCCL_ALGO and NCCL_PROTO: "ring,tree", "^nvls", and since NCCL 2.24 "allreduce:tree,ring;allgather:ring".
// Returns the allowed values of each function; functions without an entry are not limited. Null: malformed. (NCCL
// src/graph/tuning.cc)
template <class Value, std::size_t count>
std::optional<std::map<Function, std::set<Value>>> parse_mask(const std::array<Value, count>& values,
                                                              std::string_view text) {
  std::map<Function, std::set<Value>> allowed;
  for (const std::string& entry : split(text, ';')) {
    const std::size_t colon = entry.find(':');
    const auto list = parse_list(values, colon == std::string::npos ? entry : entry.substr(colon + 1));
    if (!list) return std::nullopt;
    if (colon != std::string::npos) {
      const auto function = parse_nccl_name(all_functions, entry.substr(0, colon));
      if (!function) return std::nullopt;
      allowed[*function] = *list;
    } else if (allowed.empty()) {
      for (const Function function : all_functions) allowed[function] = *list;
    } else {
      return std::nullopt;
    }
  }
  return allowed;
}

void add_remark(Constraints& constraints, const std::string& name, const std::string& value,
                std::string_view consequence) {
  constraints.remarks.push_back(fmt::format("{}={} is not understood: {}", name, value, consequence));
}

template <class Value, std::size_t count>
void read_mask(Constraints& constraints, const Environment& environment, const char* name,
               const std::array<Value, count>& values, std::set<std::pair<Function, Value>>& forbidden) {
  const auto found = environment.find(name);
  if (found == environment.end()) return;
  const auto allowed = parse_mask(values, found->second);
  if (!allowed) add_remark(constraints, name, found->second, "no algorithm or protocol is tried against it");
  for (const Function function : all_functions)
    for (const Value value : values)
      if (!allowed || (allowed->contains(function) && !allowed->at(function).contains(value)))
        forbidden.insert({function, value});
}

constexpr std::array channel_minima{"NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_CTAS"};
constexpr std::array channel_maxima{"NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS"};

void read_channels(Constraints& constraints, const Environment& environment) {
  const auto read = [&](const char* name, auto apply) {
    const auto found = environment.find(name);
    if (found == environment.end()) return;
    const std::string& text = found->second;
    int value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || value < 0)
      add_remark(constraints, name, text, "channel counts stay NCCL's"), constraints.most_channels = -1;
    else if (value > 0)
      apply(value);
  };
  // NCCL applies the largest of the minima and the smallest of the maxima (src/graph/connect.cc).
  const auto at_least = [&](int value) { constraints.least_channels = std::max(constraints.least_channels, value); };
  const auto at_most = [&](int value) {
    if (constraints.most_channels == 0 || value < constraints.most_channels) constraints.most_channels = value;
  };
  for (const char* name : channel_minima) read(name, at_least);
  for (const char* name : channel_maxima) read(name, at_most);
}

}  // namespace

bool Constraints::allows(Function function, const Setting& setting) const {
  if (forbidden_algorithms.contains({function, setting.algorithm})) return false;
  if (forbidden_protocols.contains({function, setting.protocol})) return false;
  return setting.channels == 0 || allows_channels(setting.channels);
}

bool Constraints::allows_channels(int channels) const {
  return channels >= least_channels && (most_channels == 0 || channels <= most_channels);
}

// NCCL takes the smallest maximum and then the largest minimum (src/graph/connect.cc), and since 2.30 the number for
// NVLS within both, so that each of these variables would undo what the operator set by another.
bool Constraints::allows_variable(const std::string& name) const {
  if (operator_variables.contains(name)) return false;
  std::set<std::string> of_channels{"NCCL_NVLS_NCHANNELS"};
  of_channels.insert(channel_minima.begin(), channel_minima.end());
  of_channels.insert(channel_maxima.begin(), channel_maxima.end());
  return !of_channels.contains(name) ||
         std::ranges::none_of(of_channels, [&](const auto& each) { return operator_variables.contains(each); });
}

bool is_tuning_variable(std::string_view name) {
  if (name.starts_with("NCCL_DEBUG")) return false;
  return name.starts_with("NCCL_") || name.starts_with("FI_") || name.starts_with("OFI_NCCL_");
}

Environment tuning_variables_of(const Environment& environment) {
  Environment found;
  for (const auto& [name, value] : environment)
    if (is_tuning_variable(name) && name != "NCCL_HOSTID" && !name.starts_with("NCCL_TUNER_")) found[name] = value;
  return found;
}

bool rows_decide_registered_calls(const Environment& environment) {
  return value_or_empty(environment, registered_variable) == rows_for_registered;
}

// NCCL takes one number, or in later versions names. ZERO wins over EFFICIENCY, and NCCL_ALGO or NCCL_PROTO too
// (src/init.cc, src/enqueue.cc).
std::string efficiency_policy(const Environment& environment) {
  const std::string as_set = value_or_empty(environment, "NCCL_CTA_POLICY"), value = lower(as_set);
  const bool wins =
      value == "1" || (value.find("efficiency") != std::string::npos && value.find("zero") == std::string::npos);
  return wins && !environment.contains("NCCL_ALGO") && !environment.contains("NCCL_PROTO") ? as_set : "";
}

Constraints constraints_of(const Environment& environment) {
  Constraints constraints;
  for (const auto& [name, value] : environment)
    if (is_tuning_variable(name)) constraints.operator_variables.insert(name);
  read_mask(constraints, environment, "NCCL_ALGO", all_algorithms, constraints.forbidden_algorithms);
  read_mask(constraints, environment, "NCCL_PROTO", all_protocols, constraints.forbidden_protocols);
  read_channels(constraints, environment);
  const auto forbid_where_disabled = [&](const char* variable, Algorithm algorithm) {
    const auto found = environment.find(variable);
    if (found == environment.end() || found->second != "0") return;
    for (const Function function : all_functions) constraints.forbidden_algorithms.insert({function, algorithm});
  };
  forbid_where_disabled("NCCL_NVLS_ENABLE", Algorithm::nvls);
  forbid_where_disabled("NCCL_NVLS_ENABLE", Algorithm::nvls_tree);
  forbid_where_disabled("NCCL_PAT_ENABLE", Algorithm::pat);
  return constraints;
}

std::string to_text(const Candidate& candidate) {
  return candidate.setting ? to_text(*candidate.setting) : std::string("default");
}

std::vector<CostEntry> prune_cost_entries(const SizePoint& point, std::span<const CostEntry> offered,
                                          const CandidateRules& rules, const Constraints& constraints) {
  const std::optional<Function> function = parse_function(point.collective);
  if (!function) return {};
  std::vector<CostEntry> possible;
  for (const CostEntry& entry : offered)
    if (std::isfinite(entry.microseconds) && entry.microseconds >= 0 &&
        constraints.allows(*function, {entry.setting.algorithm, entry.setting.protocol}))
      possible.push_back(entry);
  std::ranges::stable_sort(possible, {}, &CostEntry::microseconds);
  if (possible.empty()) return possible;
  const double most = rules.prune * possible.front().microseconds;
  std::erase_if(possible, [&](const CostEntry& entry) { return entry.microseconds > most; });
  return possible;
}

std::vector<int> channel_counts(const SizePoint& point, const CandidateRules& rules, const Constraints& constraints) {
  std::vector<int> counts;
  for (const int channels : rules.channels)
    if (constraints.allows_channels(channels) &&
        point.bytes / rules.bytes_per_channel >= static_cast<std::uint64_t>(channels))
      counts.push_back(channels);
  return counts;
}

std::vector<Setting> full_grid(const SizePoint& point, std::span<const CostEntry> offered, const CandidateRules& rules,
                               const Constraints& constraints) {
  std::vector<int> counts = channel_counts(point, rules, constraints);
  counts.insert(counts.begin(), 0);
  std::vector<Setting> grid;
  for (const CostEntry& entry : prune_cost_entries(point, offered, rules, constraints))
    for (const int channels : counts) grid.push_back({entry.setting.algorithm, entry.setting.protocol, channels});
  return grid;
}

std::vector<Setting> channel_neighbours(const Setting& setting, std::span<const int> counts,
                                        std::span<const Setting> tried) {
  std::vector<Setting> found;
  const auto add = [&](int channels) {
    Setting next = setting;
    next.channels = channels;
    if (std::ranges::find(tried, next) == tried.end() && std::ranges::find(found, next) == found.end())
      found.push_back(next);
  };
  if (counts.empty()) return found;
  const auto at = std::ranges::find(counts, setting.channels);
  if (at == counts.end()) {
    add(counts.back());
    add(counts[counts.size() / 2]);
    return found;
  }
  if (at != counts.begin()) add(*std::prev(at));
  if (std::next(at) != counts.end()) add(*std::next(at));
  return found;
}

}  // namespace p5::tuner
