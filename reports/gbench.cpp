// A report in the JSON of Google Benchmark 1.9 (its docs/tools.md and src/json_reporter.cc tell the fields), so that
// its tools/compare.py can read ours: each launch of a case is a repetition, and its median is the time.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reports/writer.hpp"

namespace p5::reports {

namespace {

using nlohmann::json;

std::string name_of_case(const Case& c, std::string_view quantity) {
  std::string name(c.collective->name);
  const auto add = [&](std::string_view part) {
    if (!part.empty()) name += fmt::format("/{}", part);
  };
  add(c.pattern);
  add(c.pair);
  if (c.nic) add(fmt::format("nic:{}", *c.nic));
  add(quantity);
  add(name_of(c.type));
  if (c.op) add(name_of(*c.op));
  if (c.root) add(fmt::format("root:{}", *c.root));
  if (c.in_place) add("in_place");
  if (c.cuda_graph) add("graph");
  if (c.registration != "none") add("register:" + c.registration);
  if (c.group != "world") add("group:" + c.group);
  if (c.arm != "default") add("arm:" + c.arm);
  add(fmt::format("ranks:{}", c.ranks));
  add(fmt::format("{}", c.bytes.count));
  return name;
}

void add_repetitions(json& out, const Measurement& m, std::string_view quantity, const std::optional<Series>& series,
                     std::vector<double> launches, int family) {
  if (!series) return;
  if (launches.empty()) launches = {series->summary.median};
  const std::string name = name_of_case(m.measured_case, quantity);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    json row{{"name", name},
             {"family_index", family},
             {"per_family_instance_index", 0},
             {"run_name", name},
             {"run_type", "iteration"},
             {"repetitions", launches.size()},
             {"repetition_index", i},
             {"threads", 1},
             {"iterations", series->summary.samples * series->operations_per_sample},
             {"real_time", launches[i] * 1e6},
             {"cpu_time", launches[i] * 1e6},
             {"time_unit", "us"}};
    if (quantity == "throughput")
      row["bytes_per_second"] = algorithm_bandwidth(m.measured_case, {launches[i]}).count * 1e9;
    out.push_back(std::move(row));
  }
}

}  // namespace

std::string render_gbench(const Report& report) {
  json benchmarks = json::array();
  int family = 0;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    if (m.outcome != Outcome::measured) continue;
    add_repetitions(benchmarks, m, "latency", m.latency, m.latency_launches_s, family++);
    add_repetitions(benchmarks, m, "throughput", m.throughput, m.launches_s, family++);
  }
  const std::string host = report.topology.hosts.empty() ? "" : report.topology.hosts.front().host_name;
  const json context{{"date", report.run.started},
                     {"host_name", host},
                     {"executable", fmt::format("p5bench {} ({})", report.run.version, report.provenance)},
                     {"num_cpus", report.topology.hosts.empty() ? 0 : report.topology.hosts.front().threads},
                     {"mhz_per_cpu", 0},
                     {"cpu_scaling_enabled", false},
                     {"caches", json::array()},
                     {"library_build_type", "release"},
                     {"p5bench_provenance", report.provenance},
                     {"p5bench_cluster", report.run.cluster}};
  return json{{"context", context}, {"benchmarks", benchmarks}}.dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

}  // namespace p5::reports
