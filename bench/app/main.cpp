// p5bench: the composition root. Who am I among the ranks, what was asked for, and the table that says who does it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/app/command_line.hpp"
#include "bench/app/commands/commands.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/base/error.hpp"
#include "bench/worlds/worlds.hpp"

namespace {

using namespace p5;

int report_problem(bool speaks, ExitCode code, const char* what) {
  if (speaks && *what) std::fprintf(stderr, "p5bench: %s\n", what);
  return speaks ? static_cast<int>(code) : 0;
}

// Others may wait for this rank for ever: leave without the farewells of MPI, so that the launcher ends them.
[[noreturn]] void leave_at_once(const std::exception& problem) {
  std::fprintf(stderr, "p5bench: %s\n", problem.what());
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

// Only the leader speaks and returns non-zero: a launcher kills the other ranks as soon as one does.
int dispatch(World& world, const std::vector<std::string>& arguments, EndingSignals& signals) {
  try {
    const Parsed parsed = parse_options(arguments);
    if (parsed.early) return world.leads() ? std::fputs(parsed.early->text.c_str(), stdout), 0 : 0;
    const ExitCode code = find_command(parsed.options.command).run({world, parsed.options, arguments, signals});
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

int main(int argc, char** argv) {
  EndingSignals signals;
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (!needs_mpi(arguments)) return dispatch(*make_solo_world(1), arguments, signals);
    const MpiJob job(!measures_over_mpi(arguments));
    // Rank 0's words count for all.
    return dispatch(job.world(), share_arguments(job.world(), arguments), signals);
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
