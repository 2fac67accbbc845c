#include "bench/app/program.hpp"

#include <csignal>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include "bench/app/command_line.hpp"
#include "bench/app/commands/commands.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/watchdog.hpp"
#include "bench/worlds/worlds.hpp"

namespace p5 {

namespace {

// For the farewells of MPI, which wait for ranks that may be gone.
constexpr Seconds longest_farewell{60};

int report_problem(bool speaks, ExitCode code, const char* what) {
  if (speaks && *what) complain(what);
  return speaks ? static_cast<int>(code) : 0;
}

// Others may wait for this rank for ever: leave without the farewells of MPI, so that the launcher ends them.
[[noreturn]] void leave_at_once(const std::exception& problem) {
  complain(words_of(problem));
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

// Only the leader speaks and returns non-zero: a launcher kills the other ranks as soon as one does.
int dispatch(World& world, const std::vector<std::string>& arguments, EndingSignals& signals,
             const Intrusion& intrusion) {
  try {
    const Parsed parsed = parse_options(arguments);
    if (parsed.early) return world.leads() ? static_cast<int>(said(ExitCode::ok, parsed.early->text)) : 0;
    const ExitCode code =
        find_command(parsed.options.command).run({world, parsed.options, arguments, signals, intrusion});
    return world.leads() ? static_cast<int>(code) : 0;
  } catch (const UsageError& problem) {
    return report_problem(world.leads(), ExitCode::usage, problem.what());
  } catch (const EnvironmentError& problem) {
    return report_problem(world.leads(), ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    leave_at_once(problem);  // before the job is left, which would wait for the others
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Intrusion& intrusion) {
  prepare_console();
  // A file beyond the limit of its size (ulimit -f) is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  try {
    EndingSignals signals;
    Watchdog watchdog([&code](const Watchdog::Hang& hang) {
      complain(fmt::format("no progress in {} within {}", hang.step, to_text(hang.limit)));
      std::_Exit(code);
    });
    if (!needs_mpi(arguments)) return dispatch(*make_solo_world(1), arguments, signals, intrusion);
    const MpiJob job(!measures_over_mpi(arguments));
    // Rank 0's words count for all.
    code = dispatch(job.world(), share_arguments(job.world(), arguments), signals, intrusion);
    watchdog.expect("leaving MPI", longest_farewell);
    return code;
  } catch (const UnreachableError& problem) {
    // The farewells of MPI would wait for those that cannot be reached.
    report_problem(*problem.what() != '\0', ExitCode::environment, problem.what());
    std::_Exit(static_cast<int>(ExitCode::environment));
  } catch (const EnvironmentError& problem) {
    // Before there is a world: copies of a job other than the first say nothing and leave quietly.
    return report_problem(*problem.what() != '\0', ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    leave_at_once(problem);
  }
}

}  // namespace p5
