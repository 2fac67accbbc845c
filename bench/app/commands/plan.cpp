// p5bench plan: what a run would do. Measures nothing.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/base/console.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/runner.hpp"
#include "reports/markup.hpp"
#include "reports/traffic.hpp"

namespace p5 {

namespace {

// The cost model of the planned machine, also if it is simulated here: the binding part's rate.
CostModel cost_of(const Machine& machine, const topo::Limits& parts, const Case& c) {
  const topo::Operation op{.route = c.collective->route,
                           .ranks = c.ranks,
                           .nodes = c.nodes,
                           .domains = domains_of(c),
                           .nodes_per_domain = c.nodes_per_domain};
  std::optional<topo::Limit> limit;
  if (c.shape.traffic) limit = reports::traffic_limit(c, parts, machine.topology);
  if (!limit) limit = limit_of(parts, op, topo::Level::achievable);
  if (!limit) limit = limit_of(parts, op, topo::Level::wire);
  if (!limit) return machine.backend->cost();
  Seconds latency = machine.backend->cost().latency;
  if (machine.platform) latency = domains_of(c) < 2 ? machine.platform->link_latency : machine.platform->nic_latency;
  return cost_on_gpus(latency, limit->rate);
}

std::string label_of(const Case& c) {
  return c.group == "world" ? operation_of(c) : fmt::format("{}, group {}", operation_of(c), c.group);
}

// Communicators of groups smaller than the job, in one launch; none if they cost nothing.
struct Communicators {
  int count = 0;
  double seconds = 0;
};

Communicators communicators_of_plan(const Machine& machine, const topo::Limits& parts, const Plan& plan) {
  Communicators all;
  for (const CommunicatorBatch& batch :
       batches_of(plan.cases, static_cast<int>(machine.topology.host_of_rank.size()))) {
    const double each = cost_of(machine, parts, plan.cases[batch.repetitions.front().at]).communicator.count;
    if (batch.communicators.empty() || each <= 0) continue;
    ++all.count;
    all.seconds += each;
  }
  return all;
}

std::string text_of(const Machine& machine, const Plan& plan, const Options& options) {
  std::string text;
  const auto add = [&]<class... Parts>(fmt::format_string<Parts...> format, Parts&&... parts) {
    text += fmt::format(format, std::forward<Parts>(parts)...);
  };
  const std::size_t nodes = machine.topology.hosts.size(), ranks = machine.topology.host_of_rank.size();
  add("{} on {}, backend {}{}\n", reports::counted(ranks, "rank"), reports::counted(nodes, "node"),
      machine.backend_name, machine.platform ? ", platform " + machine.platform->name : "");
  struct PlanRow {
    int cases = 0;
    Bytes smallest{~std::uint64_t{0}}, largest;
    double seconds = 0;
  };
  std::map<std::string, PlanRow> rows;
  const topo::Limits parts = gpu_limits(machine);
  double all = 0;
  for (const Case& c : plan.cases) {
    PlanRow& row = rows[label_of(c)];
    const double seconds = predict_round(c, cost_of(machine, parts, c)).count * static_cast<double>(c.rounds->size());
    ++row.cases;
    row.smallest = std::min(row.smallest, c.bytes);
    row.largest = std::max(row.largest, c.bytes);
    row.seconds += seconds;
    all += seconds;
  }
  for (const auto& [name, row] : rows)
    add("{:<25} {:>4} cases  {:>9} to {:<9} about {}\n", name, row.cases, to_text(row.smallest), to_text(row.largest),
        to_text(Seconds{row.seconds}));
  if (const auto [count, seconds] = communicators_of_plan(machine, parts, plan); count > 0) {
    add("{:<25} {:>4} times, {} each: about {}\n", "communicators of groups", count, to_text(Seconds{seconds / count}),
        to_text(Seconds{seconds}));
    all += seconds;
  }
  if (const Seconds around = machine.backend_info().fixed_time; around.count > 0) {
    add("{:<25} about {}\n", "starting and finishing", to_text(around));
    all += around.count;
  }
  for (const std::string& remark : plan.remarks) add("{}\n", remark);
  text += reports::traffic_lines(reports::describe_traffic(plan.cases, parts, machine.topology));
  const bool soaks = options.soak.count > 0;
  const Seconds whole = soaks ? options.soak : options.budget;
  const double expected = soaks ? whole.count : std::min(all * options.launches, whole.count);
  if (options.launches > 1) add("each in {} launches, as far as the budget goes\n", options.launches);
  if (soaks) add("each in as many launches as fit in {}\n", to_text(options.soak));
  add("{}, buffers of {:.3f} GiB a rank, about {} within a budget of {}\n", reports::counted(plan.cases.size(), "case"),
      static_cast<double>(plan.memory_per_rank.count) / (1 << 30), to_text(Seconds{expected}), to_text(whole));
  if (machine.platform && machine.platform->dollars_per_hour)
    add("at {:.2f} dollars an hour a node (on demand, {}): {:.2f} dollars for that, {:.2f} for the whole budget\n",
        *machine.platform->dollars_per_hour, machine.platform->price_date,
        *machine.platform->dollars_per_hour * static_cast<double>(nodes) * expected / 3600,
        *machine.platform->dollars_per_hour * static_cast<double>(nodes) * whole.count / 3600);
  return text;
}

ExitCode plan_in(ControlPlane& control, const Options& options) {
  const std::uint64_t seed = options.seed.value_or(1);
  const Machine machine = find_machine(control, options, seed);
  const Plan plan = make_plan(options, job_facts(machine, seed), *machine.backend, machine.backend_name);
  return control.is_leader() ? print_result_for(ExitCode::ok, text_of(machine, plan, options)) : ExitCode::ok;
}

}  // namespace

ExitCode plan_command(const Request& request) {
  if (!simulates(request.options)) return plan_in(request.control, request.options);
  if (!request.control.is_leader()) return ExitCode::ok;
  return plan_in(*make_solo_control_plane(topo::find_platform(request.options.platform).gpus * request.options.nodes),
                 request.options);
}

}  // namespace p5
