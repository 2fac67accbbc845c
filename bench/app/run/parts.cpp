#include "bench/app/run/phases.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"
#include "reports/observations.hpp"
#include "reports/reachability.hpp"
#include "reports/suspect_text.hpp"
#include "topo/tables.hpp"

namespace p5 {

namespace {

// Smallest message that EFA devices transfer by RDMA themselves. Many are in flight, which hides the overhead per
// message.
constexpr Bytes size_of_nic_messages = MiB(1);
constexpr Bytes largest_of_groups = MiB(256);

class NullObserver final : public Observer {
  void repetition_started(const Case&, const RunProgress&) override {}
  void repetition_finished(const Measurement&, bool) override {}
  void case_finished(const Measurement&, bool) override {}
};

RunnerOptions options_beside(const Run& run) {
  RunnerOptions options = run.runner;
  options.budget = run.options.checks() ? time_for_parts(run) : Seconds{run.options.budget.count * share_of_parts};
  options.kept_from_pairs = {0};
  options.precision = reports::tolerated_difference / 2;
  options.latency = false;
  options.launches = 1;
  options.soak = {0};
  options.done.clear();
  return options;
}

// True if the plan includes pairs, which parts are located by. The same on all ranks.
bool names_parts(const Run& run) {
  return run.options.command == "run" && run.options.soak.count == 0 && run.runner.skip_all_because.empty() &&
         std::ranges::any_of(run.plan.cases, [](const Case& c) { return c.collective->pairwise; });
}

// `again` may let NICs of other indices meet than the known case. Groups of one name differ in size: the plan's rails
// are of nodes, and those that parts are located by are of NVLink domains.
bool is_same(const Case& known, Case again) {
  again.other_nic.reset();
  const Case &a = known, &b = again;
  return a.backend == b.backend && a.bytes == b.bytes && a.ranks == b.ranks && a.nodes == b.nodes &&
         describe(a) == describe(b);
}

// Rounds of a retest: the suspect pairs again, or suspect ranks paired with others.
std::vector<Round> rounds_of_pairs_again(const reports::RetestCase& doubt, const RetestPairs& doubts,
                                         const JobFacts& job) {
  constexpr int most_rounds = 12, most_drawn = 48;
  if (doubt.like.pair == "same_node")
    return select_retest_rounds(doubts, all_pairs(job.placement(), 1, job.seed).same_node, most_rounds);
  // Pairs that were measured; if only some were, other pairs between the same places, too.
  const bool directed = doubt.like.pattern == "one_way";
  std::vector<Round> rounds = directed ? first_directions(*doubt.like.rounds) : *doubt.like.rounds;
  std::vector<bool> takes_part(job.node_of_rank.size());
  for (const Round& round : rounds)
    for (const Group& pair : round)
      for (const int rank : pair) takes_part[static_cast<std::size_t>(rank)] = true;
  const Placement placement = job.placement();
  if (leaves_domain(doubt.like)) {
    const NodeOfRank& sides = doubt.like.nic ? placement.node_of_rank : placement.domain_of_rank;
    const int of_same_places = std::min(most_drawn, count_nodes(sides) - 1);
    std::ranges::move(pairs_between(sides, takes_part, of_same_places, job.seed + 1), std::back_inserter(rounds));
  } else {
    std::ranges::move(all_pairs(placement, most_drawn, job.seed + 1).same_domain, std::back_inserter(rounds));
  }
  rounds = select_retest_rounds(doubts, rounds, most_rounds);
  return directed ? both_directions(rounds) : rounds;
}

// Both directions of each pair, a node in one pair at a time.
std::vector<Round> rounds_of_single_pairs(const std::vector<Group>& pairs, const NodeOfRank& node_of_rank) {
  std::vector<Round> rounds;
  std::vector<std::set<int>> busy;
  for (const Group& pair : pairs) {
    std::set<int> nodes;
    for (const int rank : pair) nodes.insert(node_of_rank[static_cast<std::size_t>(rank)]);
    const auto is_free = [&](const std::set<int>& taken) {
      return std::ranges::none_of(nodes, [&](int node) { return taken.contains(node); });
    };
    const auto at = static_cast<std::size_t>(std::ranges::find_if(busy, is_free) - busy.begin());
    if (at == busy.size()) busy.emplace_back(), rounds.emplace_back();
    busy[at].insert(nodes.begin(), nodes.end());
    rounds[at].push_back(pair);
  }
  return both_directions(rounds);
}

// Each silent round takes the timeout. So those without a silent pair come first: a rank that is silent with another
// partner too is at fault, and one that is not is cleared.
std::vector<Round> rounds_again(const reports::RetestCase& doubt, const JobFacts& job) {
  if (doubt.pairs.empty()) {
    std::vector<Round> rounds = *doubt.like.rounds;
    // Two silent repetitions name the part of a group even if few other groups use the same parts.
    if (doubt.silent) rounds.insert(rounds.end(), doubt.like.rounds->begin(), doubt.like.rounds->end());
    return rounds;
  }
  if (doubt.like.other_nic) return rounds_of_single_pairs(doubt.pairs, job.node_of_rank);
  RetestPairs doubts;
  for (const Group& pair : doubt.pairs) doubts.pairs.insert(pair);
  if (!doubt.silent) return rounds_of_pairs_again(doubt, doubts, job);
  doubts.partners = 2;
  std::vector<Round> rounds = rounds_of_pairs_again(doubt, doubts, job);
  std::ranges::stable_partition(rounds, [&](const Round& round) {
    return std::ranges::none_of(round, [&](Group pair) {
      std::ranges::sort(pair);
      return doubts.pairs.contains(pair);
    });
  });
  return rounds;
}

bool are_pretended(const Run& run) { return std::ranges::any_of(run.machine.topology.hosts, &topo::Host::pretended); }

bool nics_can_be_measured(const Run& run) {
  const topo::Topology& topology = run.machine.topology;
  if (!(names_parts(run) || run.options.checks()) || topology.hosts.size() < 2 || are_pretended(run)) return false;
  return !topology.nics_of_rank.empty() || (run.machine.backend_info().on_gpus() && all_have_efa(topology));
}

// Cases that libfabric's workers measure beside those of the backend under test.
bool is_of_fabric(const Run& run, const Case& c) { return run.fabric && c.backend == "ofi"; }

bool groups_can_be_measured(const Run& run) {
  return names_parts(run) && !are_pretended(run) && run.machine.backend_info().parts == BackendInfo::Parts::gpus &&
         run.machine.backend->performs(find_collective("all_reduce"));
}

// A subset of the rounds in which each source rank still occurs as a source.
std::vector<Round> rounds_with_all_sources(const std::vector<Round>& rounds) {
  std::set<int> seen;
  std::vector<Round> kept;
  for (const Round& round : rounds) {
    const std::size_t before = seen.size();
    for (const Group& pair : round) seen.insert(pair.front());
    if (seen.size() > before) kept.push_back(round);
  }
  return kept;
}

// Distances to the other GPUs that a NIC's data also comes from, counted on from the GPU nearest to it: one on the far
// side of the node, and the next one if several GPUs have the same nearest NICs.
std::vector<int> other_gpus(const Machine& machine) {
  const auto& all = machine.gpus_of_nics.gpus_of_rank;
  const int gpus = static_cast<int>(std::ranges::min_element(all, {}, &std::vector<std::string>::size)->size());
  if (gpus < 2) return {};
  const auto shared = [](const topo::Gpu& gpu) { return gpu.nics_shared.value_or(1) > 1; };
  const bool next = std::ranges::any_of(
      machine.topology.hosts, [&](const topo::Host& host) { return std::ranges::any_of(host.gpu_devices, shared); });
  return next && gpus > 2 ? std::vector<int>{1, gpus / 2} : std::vector<int>{gpus / 2};
}

// Rates of GPU-NIC paths, one after the other. `cases` and `nics` are of single NICs with data in the nearest GPU.
void measure_gdr(Run& run, Backend& backend, const std::vector<Case>& cases, const std::vector<Measurement>& nics) {
  std::vector<Case> others;
  for (const int gpu : from_leader(run.control, [&] { return other_gpus(run.machine); }))
    for (const Case& c : cases) {
      if (!c.nic) continue;
      others.push_back(with_rounds(c, rounds_with_all_sources(*c.rounds)));
      others.back().gpu = gpu;
    }
  std::vector<Measurement> measured = measure_beside(run.control, backend, others, options_beside(run));
  measured.insert(measured.end(), nics.begin(), nics.end());
  if (run.control.is_leader())
    run.recorder.add([&](ReportBuilder& report) {
      report.add_gdr(reports::gdr_paths(run.machine.topology, run.machine.gpus_of_nics, measured));
    });
}

std::vector<Measurement> measure_nics(Run& run) {
  Machine& machine = run.machine;
  Backend* backend = run.arms.all.front().backend;
  std::string name = machine.backend_name;
  const bool besides = machine.backend_info().on_gpus();
  Environment software;
  if (besides) {
    std::error_code problem;
    const bool there = std::filesystem::exists(file_of_ours(fabric_worker_program), problem);
    if (!shared_by_leader(run.control, there)) return {};
    FabricBackend made;
    try {
      made = make_fabric_backend(run.control, run.options, machine.topology);
    } catch (const EnvironmentError& refused) {  // the same on all ranks
      run.recorder.add([&](ReportBuilder& report) {
        report.remark(fmt::format("single NICs were not measured: {}", refused.what()));
      });
      return {};
    }
    software = std::move(made.software);
    machine.topology.nics_of_rank = std::move(made.nics_of_rank);
    machine.memory_of_nics = made.memory;
    machine.gpus_of_nics = std::move(made.gpus);
    run.fabric = std::move(made.backend);
    backend = run.fabric.get();
    name = "ofi";
  }
  const bool direct = machine.memory_of_nics == memory_of_gpus;
  const std::vector<Case> cases =
      nic_cases(name, job_facts(machine, run.seed), machine.topology.nics_of_rank,
                std::min(size_of_nic_messages, run.plan.max), besides ? std::optional(run.plan.max) : std::nullopt,
                machine.platform && !direct ? topo::nics_fed_by_host_memory(*machine.platform) : std::nullopt);
  run.beside.insert(run.beside.end(), cases.begin(), cases.end());
  // A NIC has a pair with each other node, both ways: few samples of each find those to measure again.
  constexpr int most_samples = 12;
  RunnerOptions options = options_beside(run);
  options.most_samples = std::min(options.most_samples, most_samples);
  std::vector<Measurement> measured = measure_beside(run.control, *backend, cases, options);
  if (besides) run.recorder.add([&](ReportBuilder& report) { report.remark(remark_on_nics(software, measured)); });
  if (direct && !run.options.checks()) measure_gdr(run, *backend, cases, measured);
  // An additional measurement that fails does not fail the test.
  for (Measurement& m : measured)
    if (besides && m.outcome == Outcome::failed) m.outcome = Outcome::skipped, m.because = "failed: " + m.because;
  return measured;
}

std::string remark_on_retest(bool silent, const std::vector<reports::RetestCase>& to_retest,
                             const std::vector<Case>& cases) {
  std::size_t rounds = 0, pairs = 0;
  std::vector<std::string> groups;
  for (const Case& c : cases) rounds += c.rounds->size();
  for (const reports::RetestCase& doubt : to_retest) {
    pairs += doubt.pairs.size();
    if (doubt.pairs.empty() && std::ranges::find(groups, doubt.like.group) == groups.end())
      groups.push_back(doubt.like.group);
  }
  std::vector<std::string> what;
  if (pairs > 0) what.push_back(fmt::format("{} pairs", pairs));
  if (!groups.empty()) what.push_back(fmt::format("groups ({})", join(groups)));
  return fmt::format("{} {} and were measured again in {} rounds{}", join(what, " and "),
                     silent ? "were silent" : "seemed slow", rounds, silent ? " at most" : "");
}

std::vector<Measurement> measure_groups(Run& run) {
  const std::vector<Case> cases = group_cases(run.machine.backend_name, job_facts(run.machine, run.seed),
                                              std::min(largest_of_groups, run.plan.max));
  run.beside.insert(run.beside.end(), cases.begin(), cases.end());
  return measure_beside(run.control, *run.arms.all.front().backend, cases, options_beside(run));
}

}  // namespace

std::vector<Measurement> measure_beside(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                        const RunnerOptions& options) {
  NullObserver nobody;
  return run_cases(control, backend, cases, options, nobody);
}

std::string remark_on_nics(const Environment& software, const std::vector<Measurement>& measured) {
  const std::string with = fmt::format("with {} over {}", software.at("libfabric.memory"), software.at("libfabric"));
  const auto missing =
      std::ranges::count_if(measured, [](const Measurement& m) { return m.outcome != Outcome::measured; });
  // The other cases of a run whose ranks do not join refer to the first one.
  const Measurement* first = nullptr;
  for (const Measurement& m : measured)
    if (m.outcome != Outcome::measured && (!first || first->because.find(see_findings) != std::string::npos))
      first = &m;
  if (!first) return fmt::format("single NICs were {}measured {}", measured.empty() ? "not " : "", with);
  const std::string because = first->because == "budget" ? "the time did not suffice" : first->because;
  if (std::cmp_equal(missing, measured.size()))
    return fmt::format("single NICs were not measured {}: {}", with, because);
  return fmt::format("single NICs were measured {}, but for {} of {} measurements: {}", with, missing, measured.size(),
                     because);
}

std::vector<Case> cases_again(ControlPlane& control, const std::vector<reports::RetestCase>& to_retest,
                              const std::vector<Case>& known, const JobFacts& job) {
  constexpr int same_nic = -1;
  std::vector<std::vector<int>> places;  // index of the known case, and Case::other_nic
  std::vector<std::vector<Round>> rounds;
  for (const reports::RetestCase& doubt : to_retest) {
    const auto found = std::ranges::find_if(known, [&](const Case& each) { return is_same(each, doubt.like); });
    if (found == known.end()) continue;
    reports::RetestCase retest{*found, doubt.pairs, doubt.silent};
    retest.like.other_nic = doubt.like.other_nic;
    std::vector<Round> again = rounds_again(retest, job);
    if (again.empty()) continue;
    places.push_back({static_cast<int>(found - known.begin()), doubt.like.other_nic.value_or(same_nic)});
    rounds.push_back(std::move(again));
  }
  places = shared_by_leader(control, places);
  rounds = shared_by_leader(control, rounds);
  std::vector<Case> cases;
  for (std::size_t i = 0; i < places.size(); ++i) {
    cases.push_back(with_rounds(known[static_cast<std::size_t>(places[i].front())], std::move(rounds[i])));
    cases.back().for_parts = true;
    if (places[i].back() != same_nic) cases.back().other_nic = places[i].back();
  }
  return cases;
}

namespace {

enum class Retested { nics, others, all };

// Names the suspects so far as soon as they are known: the rest of the run may take long.
void name_suspects(Run& run) {
  run.recorder.add([&](ReportBuilder& report) {
    for (const reports::Suspect& each : report.diagnose())
      if (run.named.insert(each.name).second) print_error("so far: " + reports::sentence_about(each));
  });
  run.recorder.write_report();
}

// True once the ranks of the backend under test were given up: they do not join in another phase either. Called by all
// ranks.
bool do_not_join(Run& run) {
  bool failed = false;
  run.recorder.add(
      [&](ReportBuilder& report) { failed = std::ranges::any_of(report.report().findings, reports::is_join_error); });
  return shared_by_leader(run.control, failed);
}

// Measures what seemed slow or silent once more: single NICs, one after the other and the most suspicious first,
// everything else, or all of it.
void measure_again(Run& run, Retested which) {
  const auto start = Clock::now();
  const bool of_fabric_alone = do_not_join(run);
  std::vector<reports::RetestCase> to_retest;
  if (run.control.is_leader())
    run.recorder.add([&](ReportBuilder& report) {
      std::ranges::copy_if(report.to_retest(), std::back_inserter(to_retest), [&](const reports::RetestCase& each) {
        if (of_fabric_alone && !is_of_fabric(run, each.like)) return false;
        return which == Retested::all || each.like.nic.has_value() == (which == Retested::nics);
      });
    });
  std::vector<Case> known = run.plan.cases;
  known.insert(known.end(), run.beside.begin(), run.beside.end());
  if (which == Retested::nics) std::ranges::stable_sort(to_retest, std::greater(), &reports::RetestCase::slowest);
  const JobFacts job = job_facts(run.machine, run.seed);
  for (const bool silent : {true, false}) {
    std::vector<reports::RetestCase> its;
    std::ranges::copy_if(to_retest, std::back_inserter(its),
                         [&](const reports::RetestCase& each) { return each.silent == silent; });
    const std::vector<Case> cases = cases_again(run.control, its, known, job);
    if (cases.empty()) continue;
    std::ptrdiff_t left_out = 0;  // at the leader
    for (const bool of_fabric : {false, true}) {
      Backend* const backend = of_fabric ? run.fabric.get() : run.arms.all.front().backend;
      std::vector<Case> cases_of_backend;
      for (const Case& c : cases)
        if (is_of_fabric(run, c) == of_fabric) cases_of_backend.push_back(c);
      if (cases_of_backend.empty()) continue;
      std::vector<std::vector<Case>> turns;
      for (Case& c : cases_of_backend)
        if (turns.empty() || which == Retested::nics)
          turns.push_back({std::move(c)});
        else
          turns.back().push_back(std::move(c));
      for (std::size_t i = 0; i < turns.size(); ++i) {
        RunnerOptions options = options_beside(run);
        options.budget.count -= run.retesting.count + since(start).count;
        options.budget.count /= static_cast<double>(turns.size() - i);
        options.in_order = silent;
        std::vector<Measurement> measured = measure_beside(run.control, *backend, turns[i], options);
        left_out += std::ranges::count(measured, Outcome::skipped, &Measurement::outcome);
        run.recorder.add([&](ReportBuilder& report) { report.add_retests(std::move(measured)); });
        if (which == Retested::nics) name_suspects(run);
      }
    }
    run.recorder.remark(remark_on_retest(silent, its, cases) +
                        (left_out == 0 ? ""
                                       : fmt::format("; the time did not suffice for {} of these {} measurements",
                                                     left_out, cases.size())));
  }
  run.retesting.count += since(start).count;
}

}  // namespace

// Where ranks are the job's own processes, only parts are judged.
bool may_wait_for_cores(const Run& run) {
  const bool judges = run.options.command == "run" || run.options.checks();
  return judges && run.runner.skip_all_because.empty() &&
         (run.machine.backend_info().ranks != BackendInfo::Ranks::of_job || names_parts(run));
}

// A rank that waits for processor cores looks like a slow part. Asked only where something is slow.
void add_waiting_for_cores(Run& run) {
  bool slow = false;
  run.recorder.add([&](ReportBuilder& report) { slow = report.seems_slow(); });
  if (!shared_by_leader(run.control, slow)) return;
  std::optional<double> mine;
  for (const Backend* const backend : {run.arms.all.front().backend, static_cast<Backend*>(run.fabric.get())})
    if (const std::optional<double> its = backend ? backend->share_of_waiting() : std::nullopt)
      mine = std::max(mine.value_or(0), *its);
  const std::vector<std::optional<double>> shares = gather_at_leader(run.control, mine);
  run.recorder.add([&](ReportBuilder& report) { report.add_waiting(shares); });
}

bool nics_come_first(const Run& run) {
  return nics_can_be_measured(run) && run.machine.backend_info().parts == BackendInfo::Parts::nics;
}

void measure_nics_first(Run& run) {
  const std::vector<Measurement> measured = measure_nics(run);
  if (run.control.is_leader()) run.recorder.add_unplanned(run.machine.topology.nics_of_rank, measured);
  measure_again(run, Retested::nics);
  if (run.options.launches == 1) return;
  run.arms.all.front().backend->abandon();  // the first launch has fresh processes too
  run.control.barrier();
}

bool parts_can_be_measured(const Run& run) { return nics_can_be_measured(run) || groups_can_be_measured(run); }

bool parts_are_left(const Run& run) { return parts_can_be_measured(run) && !nics_come_first(run); }

void measure_parts(Run& run) {
  std::vector<Measurement> measured;
  if (nics_can_be_measured(run)) measured = measure_nics(run);
  if (groups_can_be_measured(run) && !do_not_join(run))
    std::ranges::move(measure_groups(run), std::back_inserter(measured));
  if (run.control.is_leader()) run.recorder.add_unplanned(run.machine.topology.nics_of_rank, measured);
}

bool may_need_retest(const Run& run) { return names_parts(run); }

void measure_again(Run& run) { measure_again(run, nics_come_first(run) ? Retested::others : Retested::all); }

}  // namespace p5
