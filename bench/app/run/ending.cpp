// Early ends of a run: by a signal, a hung rank or a lost rank. The leader writes the report, and the other ranks give
// it time to.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/app/machine/workers.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/base/console.hpp"
#include "bench/base/names.hpp"

namespace p5 {

namespace {

// Time that ranks other than the leader wait before they exit, so that the leader writes its report first: the launcher
// ends the leader with them. After a signal the launcher allows about a second; after a hang there is no such limit,
// and a busy machine may need long. Progress within that time cancels the hang.
constexpr Seconds grace{0.7}, grace_after_hang{10};

// Longer than anything that backends give up by themselves: coming together, for which more ranks have more time, then
// the end of what did not. The steps of a case have limits of their own.
constexpr Seconds longest_to_end{30};
constexpr double ranks_of_longest = 1024;
constexpr double rounds_in_a_wait = 20, timeouts_in_a_wait = 4;

void wait_while(const std::function<bool()>& condition, Seconds longest) {
  const auto start = Clock::now();
  while (condition() && since(start).count < longest.count) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

std::string describe_rank(const Run& run, int rank) {
  const OwnGpus* const own = run.request.own_gpus;
  if (own && std::cmp_less(rank, own->usable.size()))
    return fmt::format("rank {} ({})", rank, own->usable[static_cast<std::size_t>(rank)]);
  if (!run.opened) return fmt::format("rank {}", rank);
  const topo::Topology& topology = run.machine.topology;
  const int host = topology.host_of_rank.at(static_cast<std::size_t>(rank));
  return fmt::format("rank {} on {}", rank, topology.hosts.at(static_cast<std::size_t>(host)).name);
}

void write_abort_note(const Run& run, const std::string& why) {
  if (!run.folder.empty()) write_note_for_leader(run.folder, run.control.participant(), why);
}

// Empty if unknown, as within the operation under test.
std::string describe_missing_ranks(const Run& run) {
  constexpr std::size_t most = 4;
  std::vector<std::string> names;
  const std::vector<int> awaited = run.control.missing_participants();
  for (const int rank : awaited)
    if (names.size() < most) names.push_back(describe_rank(run, rank));
  if (names.empty()) return "";
  const std::string more = awaited.size() > most ? fmt::format(" and {} more", awaited.size() - most) : "";
  return fmt::format(": all others wait for {}{}", join(names, ", "), more);
}

}  // namespace

Seconds longest_wait(const Run& run) {
  if (const auto& wanted = run.request.fault_hooks.longest_wait) return *wanted;
  const double together = join_limit(run.options).count + longest_to_end.count;
  double longest = std::max(together * std::max(1.0, run.control.ranks() / ranks_of_longest),
                            timeouts_in_a_wait * run.options.timeout.count);
  if (!run.opened) return {longest};
  const CostModel cost = run.machine.backend->cost();
  for (const Case& c : run.plan.cases) longest = std::max(longest, rounds_in_a_wait * predict_round(c, cost).count);
  return {longest};
}

void handle_hang(Run& run, const Watchdog::Hang& hang) {
  std::string why =
      fmt::format("no progress in {} within {}{}", hang.step, to_text(hang.limit), describe_missing_ranks(run));
  if (!run.control.is_leader()) {
    wait_while(hang.lasts, grace_after_hang);
    if (!hang.lasts()) return;
    // The leader itself got on, or stands still: else it would have ended the job by now.
    why += fmt::format(": nothing came from {}, which leads (told by rank {})", describe_rank(run, 0),
                       run.control.participant());
    write_abort_note(run, why);
  }
  if (!run.control.is_leader() || !run.opened) print_error(why);
  run.request.shutdown.exit(run.recorder.end_early(why));
}

void abort_job(Run& run, const JobLost& lost) {
  if (!run.control.is_leader()) {
    print_error(lost.what());
    write_abort_note(run, lost.what());
  }
  run.request.shutdown.exit(run.recorder.end_early(lost.what(), lost.code));
}

namespace {

std::optional<ExitCode> end_by_signal(Run& run, const std::string& signal) {
  if (!run.opened) return ExitCode::unfinished;
  const ExitCode code = run.recorder.end_early(fmt::format("ended by {} while {}", signal, run.phase.load()));
  // A rank that is finishing may still complete.
  if (!run.control.is_leader())
    wait_while([&] { return !run.recorder.finished(); }, run.finishing ? grace_after_hang : grace);
  return run.recorder.finished() ? std::nullopt : std::optional(code);
}

// Names the ranks that have not answered. Timeouts of the leader's own workers are shorter than the limit.
void end_by_limit(Run& run) {
  if (!run.control.is_leader()) return;
  const std::string awaited = describe_missing_ranks(run);
  const std::string why =
      fmt::format("no answer within {} while {}{}", to_text(run.options.limit_with_burn()), run.phase.load(),
                  awaited.empty() ? ": " + describe_rank(run, run.control.participant()) : awaited);
  if (!run.opened) print_result(fmt::format("{}: NOT FINISHED: {}\n", topo::host_name().name, why));
  run.recorder.end_early(why);
}

}  // namespace

Shutdown::Actions actions_before_end(Run& run) {
  return {.on_signal = [&run](const std::string& signal) { return end_by_signal(run, signal); },
          .on_limit = [&run] { end_by_limit(run); }};
}

}  // namespace p5
