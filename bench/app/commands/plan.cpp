// p5bench plan: what a run would do. Measures nothing.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/app/tuning/limits.hpp"
#include "bench/base/console.hpp"
#include "bench/base/embedded.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/load.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/job.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/traffic.hpp"

namespace p5 {

namespace {

CostModel cost_of(const Machine& machine, const topo::Limits& parts, const Case& c);

// That of a job's step: with it all operations together take as long as each with its own.
CostModel cost_of_step(const Machine& machine, const topo::Limits& parts, const Replay& replay) {
  const std::vector<int> uses = uses_of_works(replay);
  double steps = 0, waiting_s = 0, moved = 0, moving_s = 0;
  CostModel cost = machine.backend->cost();
  for (std::size_t at = 0; at < uses.size(); ++at) {
    const Case& c = *replay.works[at].planned;
    cost = cost_of(machine, parts, c);
    const double its_steps = uses[at] * c.collective->steps(c.ranks);
    const double its_bytes = uses[at] * static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.ranks);
    steps += its_steps;
    waiting_s += its_steps * cost.latency.count;
    moved += its_bytes;
    moving_s += its_bytes / cost.bandwidth.count;
  }
  if (steps > 0) cost.latency = {waiting_s / steps};
  if (moving_s > 0) cost.bandwidth = {moved / moving_s};
  return cost;
}

// The cost model of the planned machine, also if it is simulated here: the binding part's rate.
CostModel cost_of(const Machine& machine, const topo::Limits& parts, const Case& c) {
  if (c.replay) return cost_of_step(machine, parts, *c.replay);
  const topo::Operation op{.route = c.collective->route,
                           .ranks = c.ranks,
                           .nodes = c.nodes,
                           .domains = domains_of(c),
                           .nodes_per_domain = c.nodes_per_domain};
  std::optional<topo::Limit> limit;
  if (c.shape.traffic) limit = reports::traffic_limit(c, parts, machine.topology);
  if (!limit) limit = reports::limit_over_domains(c, machine.topology, op, parts, topo::Level::achievable);
  if (!limit) limit = reports::limit_over_domains(c, machine.topology, op, parts, topo::Level::wire);
  if (!limit) return machine.backend->cost();
  Seconds latency = machine.backend->cost().latency;
  if (machine.platform) latency = domains_of(c) < 2 ? machine.platform->link_latency : machine.platform->nic_latency;
  return cost_on_gpus(latency, limit->rate, ranks_on_host(machine));
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
  const std::vector<CommunicatorBatch> batches =
      batches_of(plan.cases, static_cast<int>(machine.topology.host_of_rank.size()));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const double each = cost_of(machine, parts, plan.cases[batches[i].repetitions.front().at]).communicator.count;
    if (!batches[i].forms_after(i > 0 ? &batches[i - 1] : nullptr) || each <= 0) continue;
    ++all.count;
    all.seconds += each;
  }
  return all;
}

// The figures of a planned run.
struct PlanFigures {
  struct Row {
    std::string name;
    std::size_t cases = 0;
    Bytes smallest{~std::uint64_t{0}}, largest{};
    double seconds = 0;  // predicted, as all times here
  };
  std::vector<Row> rows{};
  Communicators communicators{};
  double around = 0;    // starting and finishing a launch
  double alone = 0;     // each GPU alone and under load, once
  double tuning = 0;    // once
  double needed = 0;    // of all of it, where it does not soak
  double expected = 0;  // of the whole run, within its time
  double whole = 0;     // its time: the budget, or that of a soak
};

// The checks of each GPU after the cases.
double time_of_gpus_alone(const Machine& machine) {
  constexpr std::uint64_t any_seed = 1;
  const std::size_t loads = load_cases(machine.backend_name, job_facts(machine, any_seed)).size();
  return time_for_gpus_alone().count + time_for_host_copies(machine.topology.host_of_rank).count +
         time_under_load(loads, cost_on_gpus({0}, {1}, ranks_on_host(machine))).count;
}

PlanFigures figures_of(const Machine& machine, const topo::Limits& parts, const Plan& plan, const Options& options) {
  PlanFigures figures;
  std::map<std::string, PlanFigures::Row> rows;
  double all = 0;
  for (const Case& c : plan.cases) {
    PlanFigures::Row& row = rows[label_of(c)];
    const double seconds = predict_round(c, cost_of(machine, parts, c)).count * static_cast<double>(c.rounds->size());
    ++row.cases;
    row.smallest = std::min(row.smallest, c.bytes);
    row.largest = std::max(row.largest, c.bytes);
    row.seconds += seconds;
    all += seconds;
  }
  for (auto& [name, row] : rows) {
    row.name = name;
    figures.rows.push_back(std::move(row));
  }
  figures.communicators = communicators_of_plan(machine, parts, plan);
  figures.around = time_to_start(machine).count;
  all += figures.communicators.seconds + figures.around;
  if (machine.backend_info().parts == BackendInfo::Parts::gpus && machine.why_not_judged.empty()) {
    figures.alone = time_of_gpus_alone(machine);
    if (const std::string mode = tuning_mode(options); mode != "off") {
      const Case* const step = options.job.empty() ? nullptr : &plan.cases.front();
      figures.tuning =
          predict_tuning_time(mode, time_to_start(machine),
                              step ? std::optional(predict_round(*step, cost_of(machine, parts, *step))) : std::nullopt)
              .count;
    }
  }
  const bool soaks = options.soak.count > 0;
  figures.whole = (soaks ? options.soak : options.budget).count;
  figures.needed = soaks ? figures.whole : all * options.launches + figures.alone + figures.tuning;
  figures.expected = std::min(figures.needed, figures.whole);
  return figures;
}

// Remark on a budget that is too short; "" if it suffices.
std::string about_budget(const PlanFigures& figures) {
  constexpr double matters = 1.05;
  if (figures.needed < matters * figures.whole) return "";
  return fmt::format(
      "All of it takes about {}, so that the budget leaves cases or samples out: give a longer --budget, or fewer "
      "--collectives and --sizes",
      to_text(Seconds{std::ceil(figures.needed)}));
}

// Remarks on the figures: a budget that is too short, and a simulator that stands for GPUs.
std::vector<std::string> remarks_on(const Machine& machine, const PlanFigures& figures) {
  std::vector<std::string> remarks;
  if (figures.tuning > 0 && !machine.backend_info().tunable)
    remarks.push_back(
        fmt::format("Tuning takes this long with --backend nccl; --backend {} tunes nothing", machine.backend_name));
  if (std::string short_of = about_budget(figures); !short_of.empty()) remarks.push_back(std::move(short_of));
  return remarks;
}

// Price of all nodes for a time; null where the platform has none.
std::optional<double> dollars_for(const Machine& machine, double seconds) {
  if (!machine.platform || !machine.platform->dollars_per_hour) return std::nullopt;
  return *machine.platform->dollars_per_hour * static_cast<double>(machine.topology.hosts.size()) * seconds / 3600;
}

std::string text_of(const Machine& machine, const topo::Limits& parts, const Plan& plan, const PlanFigures& figures,
                    const Options& options) {
  std::string text;
  const auto add = [&]<class... Parts>(fmt::format_string<Parts...> format, Parts&&... given) {
    text += fmt::format(format, std::forward<Parts>(given)...);
  };
  add("{} on {}, backend {}{}\n", reports::counted(machine.topology.host_of_rank.size(), "rank"),
      reports::counted(machine.topology.hosts.size(), "node"), machine.backend_name,
      machine.platform ? ", platform " + machine.platform->name : "");
  for (const PlanFigures::Row& row : figures.rows)
    add("{:<25} {:>4} cases  {:>9} to {:<9} about {}\n", row.name, row.cases, to_text(row.smallest),
        to_text(row.largest), to_text(Seconds{row.seconds}));
  if (const auto [count, seconds] = figures.communicators; count > 0)
    add("{:<25} {:>4} times, {} each: about {}\n", "communicators of groups", count, to_text(Seconds{seconds / count}),
        to_text(Seconds{seconds}));
  for (const auto& [what, seconds] : {std::pair("starting and finishing", figures.around),
                                      {"each GPU alone", figures.alone},
                                      {"tuning", figures.tuning}})
    if (seconds > 0) add("{:<25} about {}\n", what, to_text(Seconds{seconds}));
  if (machine.topology.host_of_rank.size() > 2 &&
      std::ranges::any_of(plan.cases, [](const Case& c) { return c.collective->pairwise; }))
    add("and a few pairs and groups more, which show the part at fault\n");
  for (const std::string& remark : plan.remarks) add("{}\n", remark);
  text += reports::traffic_lines(reports::describe_traffic(plan.cases, parts, machine.topology));
  if (options.launches > 1) add("each in {} launches, as far as the budget goes\n", options.launches);
  if (options.soak.count > 0) add("each in as many launches as fit in {}\n", to_text(options.soak));
  add("{}, buffers of {:.3f} GiB per rank, about {} within a budget of {}\n",
      reports::counted(plan.cases.size(), "case"), static_cast<double>(plan.memory_per_rank.count) / (1 << 30),
      to_text(Seconds{figures.expected}), to_text(Seconds{figures.whole}));
  for (const std::string& remark : remarks_on(machine, figures)) add("{}\n", remark);
  if (const std::optional<double> dollars = dollars_for(machine, figures.expected))
    add("at {:.2f} dollars per hour and node (on demand, {}): {:.2f} dollars for that, {:.2f} for the whole budget\n",
        *machine.platform->dollars_per_hour, machine.platform->price_date, *dollars,
        *dollars_for(machine, figures.whole));
  return text;
}

std::string json_of(const Machine& machine, const Plan& plan, const PlanFigures& figures, const Options& options) {
  using nlohmann::json;
  json j{{"schema", "p5bench.plan/1"},
         {"version", version()},
         {"backend", machine.backend_name},
         {"platform", machine.platform ? json(machine.platform->name) : json()},
         {"ranks", machine.topology.host_of_rank.size()},
         {"nodes", machine.topology.hosts.size()},
         {"cases", plan.cases.size()},
         {"operations", json::array()},
         {"communicators", {{"count", figures.communicators.count}, {"predicted_s", figures.communicators.seconds}}},
         {"fixed_s", figures.around},
         {"gpus_alone_s", figures.alone},
         {"tuning_s", figures.tuning},
         {"memory_per_rank", plan.memory_per_rank.count},
         {"launches", options.launches},
         {"soaks", options.soak.count > 0},
         {"predicted_s", figures.expected},
         {"time_s", figures.whole},
         {"dollars", nullptr},
         {"remarks", plan.remarks}};
  for (std::string& remark : remarks_on(machine, figures)) j["remarks"].push_back(std::move(remark));
  for (const PlanFigures::Row& row : figures.rows)
    j["operations"].push_back({{"operation", row.name},
                               {"cases", row.cases},
                               {"smallest", row.smallest.count},
                               {"largest", row.largest.count},
                               {"predicted_s", row.seconds}});
  if (const std::optional<double> dollars = dollars_for(machine, figures.expected))
    j["dollars"] = {{"per_node_hour", *machine.platform->dollars_per_hour},
                    {"date", machine.platform->price_date},
                    {"predicted", *dollars},
                    {"time", *dollars_for(machine, figures.whole)}};
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

ExitCode plan_in(ControlPlane& control, const Options& options) {
  const std::uint64_t seed = options.seed.value_or(1);
  const Machine machine = find_machine(control, options, seed);
  const Plan plan = make_plan(options, job_facts(machine, seed), *machine.backend, machine.backend_name);
  if (!control.is_leader()) return ExitCode::ok;
  const topo::Limits parts = gpu_limits(machine);
  const PlanFigures figures = figures_of(machine, parts, plan, options);
  return print_result_for(ExitCode::ok, options.prints_json() ? json_of(machine, plan, figures, options)
                                                              : text_of(machine, parts, plan, figures, options));
}

}  // namespace

ExitCode plan_command(const Request& request) {
  if (!simulates(request.options)) return plan_in(request.control, request.options);
  if (!request.control.is_leader()) return ExitCode::ok;
  return plan_in(*make_solo_control_plane(topo::find_platform(request.options.platform).gpus * request.options.nodes),
                 request.options);
}

}  // namespace p5
