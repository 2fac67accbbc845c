// What `check` does otherwise than `run`: a plan of one size, and an end that tells what was left out.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "bench/app/run/phases.hpp"
#include "reports/nodes.hpp"
#include "reports/reachability.hpp"

namespace p5 {

namespace {

// Without NVLinks a large message takes long, and shows no more.
constexpr Bytes largest_without_links = MiB(64);
// Each GPU alone, after the cases, without --burn.
constexpr Seconds alone{5};

bool has_links(const topo::Topology& topology) {
  return std::ranges::any_of(topology.hosts, [](const topo::Host& host) {
    return std::ranges::any_of(host.gpu_devices, [](const topo::Gpu& gpu) { return gpu.links.value_or(0) > 0; });
  });
}

// Of the sizes that fit the largest; a way there and back shows no more than the ways.
void keep_the_telling(Plan& plan) {
  Bytes largest;
  for (const Case& c : plan.cases) largest = std::max(largest, c.bytes);
  std::erase_if(plan.cases, [&](const Case& c) { return c.bytes < largest || c.pattern == "ping_pong"; });
}

}  // namespace

Plan plan_check(const Run& run) {
  const Machine& machine = run.machine;
  if (!machine.why_idle.empty()) return {};
  Options options = run.options;
  if (machine.backend_info().on_gpus() && !has_links(machine.topology)) options.max = largest_without_links;
  const auto plan_with = [&](std::vector<std::string> collectives, const std::string& group) {
    options.collectives = std::move(collectives);
    options.group = group;
    Plan plan = make_plan(options, job_facts(machine, run.seed), *machine.backend, machine.backend_name);
    keep_the_telling(plan);
    return plan;
  };
  Plan plan = plan_with(run.options.collectives, run.options.group);
  if (machine.topology.hosts.size() < 2) return plan;
  Plan together = plan_with({"all_reduce"}, "world");
  std::ranges::move(together.cases, std::back_inserter(plan.cases));
  plan.max = std::max(plan.max, together.max);
  plan.memory_per_rank = std::max(plan.memory_per_rank, together.memory_per_rank);
  return plan;
}

Seconds time_for_cases(const Run& run) {
  const Seconds all = run.options.deadline ? Seconds{-since(*run.options.deadline).count} : run.options.limit;
  return {all.count - alone.count - run.options.burn.count};
}

RanksOnHosts gpus_as_hosts(const Run& run) {
  const topo::Topology& topology = run.machine.topology;
  const topo::Host& host = topology.hosts.front();
  RanksOnHosts gpus{.host_of_rank = {}, .names = {}, .one_host = host.name};
  for (int rank = 0; rank < run.control.ranks(); ++rank) {
    gpus.host_of_rank.push_back(rank);
    const auto at = static_cast<std::size_t>(rank);
    const auto gpu = at < topology.gpu_of_rank.size()
                         ? std::ranges::find(host.gpu_devices, topology.gpu_of_rank[at], &topo::Gpu::uuid)
                         : host.gpu_devices.end();
    gpus.names.push_back(gpu == host.gpu_devices.end() ? fmt::format("rank {}", rank)
                                                       : fmt::format("GPU {}", gpu - host.gpu_devices.begin()));
  }
  return gpus;
}

bool all_have_time(Run& run) { return run.control.broadcast(has_time(run) ? "y" : "n") == "y"; }

bool has_time(const Run& run) { return !run.options.deadline || Clock::now() < *run.options.deadline; }

void sum_up_check(Run& run) {
  const Machine& machine = run.machine;
  if (const OwnGpus* const own = run.request.own_gpus)
    for (const std::string& each : own->skipped) run.recorder.remark("skipped: " + each);
  if (!machine.why_idle.empty()) run.recorder.remark("nothing measured: " + machine.why_idle);
  ExitCode code = machine.code_of_idle;
  run.recorder.add([&](ReportBuilder& builder) {
    const reports::Report& report = builder.report();
    if (reports::ran_out_of_time(report)) code = ExitCode::unfinished;
    if (reports::never_joined(report)) code = ExitCode::environment;
    // Hosts that did not answer are silent.
    if (code == ExitCode::environment && !has_time(run)) code = ExitCode::unfinished;
  });
  run.code = worse(run.code, code);
}

}  // namespace p5
