#include "bench/app/program.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "bench/app/command_line.hpp"
#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/leader.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/descendants.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/watchdog.hpp"
#include "bench/worlds/worlds.hpp"

namespace p5 {

namespace {

// Threads that a check asks for beforehand, for each GPU: a supervisor, a worker, and what CUDA and NCCL start in it.
// An estimate; nobody has counted them on GPUs.
constexpr int threads_of_gpu = 16;

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

// A check: its time, from here on, and without a launcher the GPUs that it has found and a process for each of them.
class CheckJob {
 public:
  CheckJob(Options options, Clock::time_point start) : options_(std::move(options)), start_(start) {
    if (!finds_own_gpus(options_)) return;
    refuse_wrong_variables();  // by which NVML is asked
    own_gpus_ = take_own_gpus(options_);
    const int gpus = static_cast<int>(own_gpus_->usable.size());
    prove_room_for_threads(gpus * threads_of_gpu, fmt::format("a check of {} GPUs", gpus));
    job_.emplace(std::max(1, gpus));
  }

  // Null where there is a launcher, or nothing to launch.
  World* world() { return job_ ? &job_->world() : nullptr; }
  // Threads may start.
  void limit_time() { limit_.emplace(start_, options_.limit, job_ ? job_->world().leads() : first_of_several()); }

  Clock::time_point deadline() const { return last_wait(start_, options_.limit); }
  WallLimit* limit() { return &*limit_; }
  const OwnGpus* own_gpus() const { return own_gpus_ ? &*own_gpus_ : nullptr; }

 private:
  const Options options_;
  const Clock::time_point start_;
  std::optional<OwnGpus> own_gpus_;
  std::optional<WallLimit> limit_;
  std::optional<ProcessJob> job_;  // the last: others may have to be waited for, within the limit
};

// Only the leader speaks and returns non-zero: a launcher kills the other ranks as soon as one does.
int dispatch(World& world, const std::vector<std::string>& arguments, EndingSignals& signals,
             const Intrusion& intrusion, CheckJob* check) {
  try {
    Parsed parsed = parse_options(arguments);
    if (parsed.early) return world.leads() ? static_cast<int>(said(ExitCode::ok, parsed.early->text)) : 0;
    from_leader(world, [] {
      refuse_wrong_variables();
      return std::string();
    });
    Request request{world, parsed.options, arguments, signals, intrusion};
    if (check && parsed.options.checks()) {
      parsed.options.deadline = check->deadline();
      request.wall_limit = check->limit();
      request.own_gpus = check->own_gpus();
    }
    const ExitCode code = find_command(parsed.options.command).run(request);
    return world.leads() ? static_cast<int>(code) : 0;
  } catch (const UsageError& problem) {
    return report_problem(world.leads(), ExitCode::usage, problem.what());
  } catch (const EnvironmentError& problem) {
    return report_problem(world.leads(), ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    if (check) end_descendants();
    leave_at_once(problem);  // before the job is left, which would wait for the others
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Intrusion& intrusion) {
  const Clock::time_point start = Clock::now();
  prepare_console();
  provide_stacks();
  // A file beyond the limit of its size (ulimit -f) is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  try {
    // Processes before threads.
    std::optional<CheckJob> check;
    if (std::optional<Options> options = check_in(arguments)) check.emplace(std::move(*options), start);
    EndingSignals signals;
    if (check) check->limit_time();
    Watchdog watchdog([&code](const Watchdog::Hang& hang) {
      complain(fmt::format("no progress in {} within {}", hang.step, to_text(hang.limit)));
      std::_Exit(code);
    });
    CheckJob* const checking = check ? &*check : nullptr;
    if (checking && checking->world()) return dispatch(*checking->world(), arguments, signals, intrusion, checking);
    if (!needs_mpi(arguments)) return dispatch(*make_solo_world(1), arguments, signals, intrusion, checking);
    const MpiJob job(!measures_over_mpi(arguments));
    // Rank 0's words count for all.
    code = dispatch(job.world(), share_arguments(job.world(), arguments), signals, intrusion, checking);
    watchdog.expect("leaving MPI", longest_farewell);
    return code;
  } catch (const UsageError& problem) {
    // Before there is a world: of one process alone.
    return report_problem(*problem.what() != '\0', ExitCode::usage, problem.what());
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
