// The JSON of nccl-tests (-J), versions 1 to 3.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/environment.hpp"
#include "bench/base/input.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/text.hpp"
#include "reports/json_values.hpp"
#include "reports/nccl_tests_text.hpp"

namespace p5::reports::nccl_tests {

namespace {

using nlohmann::json;

using json_fields::member;
using json_fields::member_as;
using json_fields::Range;

// nccl-tests writes six decimals; JSON does not keep how many were written.
void read_bandwidth(const json& j, const char* name, double& value, double& rounding) {
  const auto found = j.find(name);
  if (found == j.end() || found->is_null()) return;
  value = member_as<double>(j, name);
  rounding = rounding_in(fmt::format("{}", value));
}

std::optional<Timing> timing(const json& row, const char* which) {
  const auto found = row.find(which);
  if (found == row.end() || found->is_null()) return std::nullopt;
  Timing timing;
  json_fields::at(which, [&] {
    if (found->contains("cpu_time"))
      throw UsageError("these are times of the host (-C), not of the operations; run nccl-tests without -C");
    timing.time_us = member_as<double>(*found, "time", times_us);
    read_bandwidth(*found, "alg_bw", timing.algbw, timing.rounding.algbw);
    read_bandwidth(*found, "bus_bw", timing.busbw, timing.rounding.busbw);
    timing.checked = !member(*found, "nwrong").is_null();
    if (timing.checked) timing.wrong = member_as<std::uint64_t>(*found, "nwrong");
  });
  const std::string iterations = fmt::format("{}_per_iter", which);
  if (const auto each = row.find(iterations); each != row.end() && !each->is_null())
    json_fields::at(iterations, [&] {
      timing.samples_us = member_as<std::vector<double>>(*each, "times_us");
      if (std::ranges::find(timing.samples_us, 0) != timing.samples_us.end())
        throw json_fields::BadValue("/times_us", "has to hold times above 0");
      const auto skipped = member_as<std::uint64_t>(*each, "skipped_iterations");
      timing.samples_us.erase(timing.samples_us.begin(),
                              timing.samples_us.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(
                                                              skipped, timing.samples_us.size())));
    });
  return timing;
}

// The root is a number in a padded string; -1 for none.
int root_of(const json& j) {
  constexpr Range roots{.least = -1};
  if (!j.is_string()) return json_fields::number_of_type<int>(j, roots);
  const std::string& text = json_fields::text_in(j);
  const std::optional<int> root = as_number<int>(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  if (!root || *root < -1) throw UsageError(fmt::format("{} is no root", in_quotes(text)));
  return *root;
}

template <class Number>
Number member_or(const json& j, const char* name, Number otherwise) {
  return j.contains(name) ? member_as<Number>(j, name) : otherwise;
}

ResultRow row_of(const json& j, std::size_t index) {
  ResultRow row{.index = index,
                .size = member_as<std::uint64_t>(j, "size"),
                .count = member_or<std::uint64_t>(j, "count", 0),
                .type = member_as<std::string>(j, "type"),
                .op = member_as<std::string>(j, "redop"),
                .timestamp = {},
                .root = -1,
                .out_of_place = timing(j, "out_of_place"),
                .in_place = timing(j, "in_place")};
  json_fields::at("root", [&, &root = member(j, "root")] { row.root = root_of(root); });
  if (row.out_of_place && row.in_place && row.out_of_place->wrong && !row.in_place->wrong) row.in_place.reset();
  return row;
}

bool allowed(std::string_view variable) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "OMPI_MCA_", "UCX_", "LD_LIBRARY_PATH="};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

void add_context(const json& j, Log& log) {
  if (j.contains("nccl_version")) {
    const int code = member_as<int>(j, "nccl_version");
    log.tables.front().nccl = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }
  if (j.contains("env"))
    for (const std::string& text : member_as<std::vector<std::string>>(j, "env")) {
      const std::size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      if (equals != std::string::npos && allowed(text) && !is_job_specific(name))
        log.context["env." + name] = recorded_value(name, text.substr(equals + 1));
    }
  if (j.contains("start_time")) log.started = member_as<std::string>(j, "start_time");
}

// nccl-tests lists the first GPU of each process only.
void add_devices(const json& device, int per_process, std::vector<Device>& devices) {
  constexpr Range ranks{.most = 1e6};
  const int first = member_as<int>(device, "rank", ranks);
  for (int i = 0; i < per_process; ++i)
    devices.push_back({first + i, member_as<int>(device, "group"), member_as<std::string>(device, "hostname"),
                       member_as<std::string>(device, "device_info"), "",
                       i == 0 ? member_or<std::string>(device, "device_hex", "") : ""});
}

template <class Take>
void each_of(const json& object, const char* name, const Take& take) {
  json_fields::at(name, [&, &list = member(object, name)] { json_fields::each_item(list, take); });
}

// nccl-tests writes booleans as text.
bool is_true(const json& object, const char* name) { return member_as<std::string>(object, name) == "true"; }

// Throws UsageError naming the first row whose size is not that of its elements.
void check_sizes(const Table& table) {
  const Consistency consistency(listed_ranks(table), try_find_collective(table.program));
  std::vector<ResultRow> fit, others;
  for (const ResultRow& row : table.rows) (row.count == 0 || consistency.fits_size(row) ? fit : others).push_back(row);
  if (others.empty() || counts_differently(fit, others)) return;
  throw UsageError(fmt::format("{}: {} B are not the size of {} elements of {}", place_of(others.front()),
                               others.front().size, others.front().count, in_quotes(others.front().type)));
}

// Options that no other member of the document has. nccl-tests falls back where its NCCL is too old for them.
CallOptions calls_in(const std::vector<std::string>& arguments, int nccl) {
  const auto number = [&](const char* brief, const char* full, std::size_t end) {
    const auto value = as_number<std::size_t>(argument(arguments, brief, full)).value_or(0);
    return value < end ? value : 0;
  };
  const auto is_older = [&](int version) { return nccl > 0 && nccl < version; };
  std::size_t registration = number("-R", "--local_register", registration_kinds.size());
  std::size_t policy = number("-x", "--cta_policy", cta_policies.size());
  if (registration == 2 && is_older(22700)) registration = 1;
  if (policy == 2 && is_older(22800)) policy = 0;
  constexpr std::size_t largest_offset = 1 << 20;
  CallOptions calls;
  calls.registration = registration_kinds.at(registration);
  calls.cta_policy = cta_policies.at(policy);
  calls.unalign = static_cast<int>(number("-u", "--unalign", largest_offset));
  return calls;
}

Table table_of(const json& j) {
  Table table;
  table.arguments = member_as<std::vector<std::string>>(j, "args");
  table.calls = calls_in(table.arguments, member_or<int>(j, "nccl_version", 0));
  if (!table.arguments.empty()) {
    const std::string& path = table.arguments.front();
    table.program = path.substr(path.find_last_of('/') + 1);
  }
  std::vector<Device> devices;
  json_fields::at("config", [&, &config = member(j, "config")] {
    constexpr Range few{.least = 1, .most = 64};
    table.iterations = member_as<int>(config, "iterations");
    table.aggregated = member_as<int>(config, "aggregated_iterations");
    table.graphs = member_as<int>(config, "graph");
    table.blocking = is_true(config, "blocking_collectives");
    const int per_process = member_as<int>(config, "nthreads", few) * member_as<int>(config, "ngpus", few);
    each_of(config, "devices", [&](const json& device) { add_devices(device, per_process, devices); });
    table.sizes = {.least = member_or<std::uint64_t>(config, "minimum_bytes", 0),
                   .most = member_or<std::uint64_t>(config, "maximum_bytes", 0),
                   .factor = member_or<std::uint64_t>(config, "step_factor", 0),
                   .bytes = member_or<std::uint64_t>(config, "step_bytes", 0)};
  });
  for (Device& device : devices) add_device(table, std::move(device), "/config/devices");
  each_of(j, "results", [&](const json& row) { table.rows.push_back(row_of(row, table.rows.size())); });
  check_sizes(table);
  json_fields::at("out_of_bounds", [&, &found = member(j, "out_of_bounds")] {
    table.values_out_of_bounds = member_or<std::uint64_t>(found, "count", 0);
    table.out_of_bounds = !is_true(found, "okay") || table.values_out_of_bounds > 0;
  });
  if (j.contains("average_bus_bandwidth"))
    json_fields::at("average_bus_bandwidth", [&, &found = j.at("average_bus_bandwidth")] {
      table.below_demanded = member_as<std::string>(found, "okay") == "false";
    });
  return table;
}

}  // namespace

Log read_json(std::string_view text) {
  json j;
  try {
    j = parse_json(text);
  } catch (const UsageError& problem) {
    // An interrupted run leaves an incomplete file, and a time of 0 iterations is "inf".
    throw UsageError(
        fmt::format("{}; nccl-tests leaves half a file when it is ended early: run it again", problem.what()));
  }
  if (!j.is_object() || !j.contains("results") || !j.contains("config"))
    throw UsageError("line 1: it is JSON, but not that of nccl-tests: it has no \"config\" and no \"results\"");
  try {
    Log log;
    log.tables.push_back(table_of(j));
    log.remarks = missing_sizes(log.tables.back(), true);
    add_context(j, log);
    const std::string registration = argument(log.tables.front().arguments, "-R", "--local_register");
    if (!registration.empty()) log.context["nccl-tests.local_register"] = registration;
    return log;
  } catch (const json_fields::BadValue& problem) {
    throw UsageError(
        fmt::format("it is not the JSON of nccl-tests as far as this version knows it (1 to 3): {}", problem.what()));
  }
}

}  // namespace p5::reports::nccl_tests
