// The JSON of nccl-tests (-J, versions 1 to 3 of its layout, from nccl-tests 2.17.3 on). It holds the whole environment
// of whoever ran it: only what p5bench would record itself is taken from there.
#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/environment.hpp"
#include "reports/nccl_tests.hpp"

namespace p5::reports::nccl_tests {

namespace {

using nlohmann::json;

std::optional<Timing> timing(const json& row, const std::string& which) {
  const auto found = row.find(which);
  if (found == row.end() || found->is_null()) return std::nullopt;
  if (found->contains("cpu_time"))
    throw UsageError("these are times of the host (-C), not of the operations; run nccl-tests without -C");
  Timing timing;
  timing.time_us = found->at("time");
  if (!(timing.time_us > 0))
    throw UsageError(fmt::format("{} of {} B has the time {}", which, row.at("size").dump(), timing.time_us));
  if (const json& wrong = found->at("nwrong"); !wrong.is_null()) {
    const double count = wrong;
    if (!(count >= 0)) throw UsageError(fmt::format("'{}' is no number of wrong elements", wrong.dump()));
    timing.wrong = static_cast<std::uint64_t>(count);
  }
  if (const auto each = row.find(which + "_per_iter"); each != row.end() && !each->is_null()) {
    timing.samples_us = each->at("times_us").get<std::vector<double>>();
    const std::size_t skipped = each->at("skipped_iterations");
    timing.samples_us.erase(
        timing.samples_us.begin(),
        timing.samples_us.begin() + static_cast<std::ptrdiff_t>(std::min(skipped, timing.samples_us.size())));
  }
  return timing;
}

// The root is a number in a string, with blanks before it.
int root_of(const json& j) {
  if (!j.is_string()) return j;
  const std::string text = j;
  const std::size_t first = text.find_first_not_of(' ');
  int root = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data() + std::min(first, text.size()), end, root);
  if (problem != std::errc() || stop != end) throw UsageError(fmt::format("'{}' is no root", text));
  return root;
}

Row row_of(const json& j) {
  Row row{.size = j.at("size"),
          .type = j.at("type"),
          .op = j.at("redop"),
          .root = root_of(j.at("root")),
          .out_of_place = timing(j, "out_of_place"),
          .in_place = timing(j, "in_place")};
  if (row.out_of_place && row.in_place && row.out_of_place->wrong && !row.in_place->wrong) row.in_place.reset();
  return row;
}

bool allowed(std::string_view variable) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "OMPI_MCA_", "UCX_", "LD_LIBRARY_PATH="};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

void add_context(const json& j, Log& log) {
  if (const auto version = j.find("nccl_version"); version != j.end()) {
    const int code = *version;
    log.context["nccl"] = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  }
  for (const json& entry : j.value("env", json::array())) {
    const std::string text = entry;
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals != std::string::npos && allowed(text) && !is_of_the_job(name))
      log.context["env." + name] = recorded_value(name, text.substr(equals + 1));
  }
  if (const auto start = j.find("start_time"); start != j.end())
    log.context["nccl-tests.started"] = start->get<std::string>() + " (local time)";
}

// Options that the results depend on and that only the arguments tell: the value after a short or long name, or "".
std::string argument(const std::vector<std::string>& arguments, const std::string& brief, const std::string& full) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& each = arguments[i];
    if ((each == brief || each == full) && i + 1 < arguments.size()) return arguments[i + 1];
    if (each.starts_with(full + "=")) return each.substr(full.size() + 1);
    if (each.starts_with(brief) && each.size() > brief.size() && !each.starts_with("--"))
      return each.substr(brief.size());
  }
  return "";
}

Table table_of(const json& j) {
  Table table;
  table.arguments = j.at("args").get<std::vector<std::string>>();
  if (!table.arguments.empty()) {
    const std::string& path = table.arguments.front();
    table.program = path.substr(path.find_last_of('/') + 1);
  }
  const json& config = j.at("config");
  table.iterations = config.at("iterations");
  table.aggregated = config.at("aggregated_iterations");
  table.graphs = config.at("graph");
  table.blocking = config.at("blocking_collectives") == "true";
  const int per_process = config.at("nthreads").get<int>() * config.at("ngpus").get<int>();
  // Only the first GPU of each process is listed.
  for (const json& device : config.at("devices"))
    for (int i = 0; i < per_process; ++i)
      table.devices.push_back(
          {device.at("rank").get<int>() + i, device.at("group"), device.at("hostname"), device.at("device_info")});
  for (const json& row : j.at("results")) table.rows.push_back(row_of(row));
  table.out_of_bounds = j.at("out_of_bounds").at("okay") != "true";
  return table;
}

}  // namespace

Log read_json(std::string_view text) {
  json j;
  try {
    j = json::parse(text);
  } catch (const json::parse_error& problem) {
    // The message names line and column. A run that was ended leaves half a file, and a time of 0 iterations is "inf".
    throw UsageError(fmt::format("it is no JSON, which nccl-tests leaves when it is ended early: {}", problem.what()));
  }
  try {
    if (!j.is_object() || !j.contains("results") || !j.contains("config"))
      throw UsageError("line 1: it is JSON, but not that of nccl-tests: it has no \"config\" and no \"results\"");
    Log log;
    log.tables.push_back(table_of(j));
    add_context(j, log);
    const std::string registration = argument(log.tables.front().arguments, "-R", "--local_register");
    if (!registration.empty()) log.context["nccl-tests.local_register"] = registration;
    return log;
  } catch (const json::exception& problem) {
    throw UsageError(
        fmt::format("it is not the JSON of nccl-tests as far as this version knows it (1 to 3): {}", problem.what()));
  }
}

}  // namespace p5::reports::nccl_tests
