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
#include "bench/control/control_planes.hpp"

namespace p5 {

namespace {

// Threads that a check asks for beforehand, for each GPU: a supervisor, a worker, and what CUDA and NCCL start in it.
// An estimate; nobody has counted them on GPUs.
constexpr int threads_of_gpu = 16;

// For the teardown of MPI, which wait for ranks that may be gone.
constexpr Seconds teardown_limit{60};

int report_problem(bool speaks, ExitCode code, const char* what) {
  if (speaks && *what) print_error(what);
  return speaks ? static_cast<int>(code) : 0;
}

// Others may wait for this rank for ever: leave without the teardown of MPI, so that the launcher ends them.
[[noreturn]] void leave_at_once(const std::exception& problem) {
  print_error(describe(problem));
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
    check_thread_limit(gpus * threads_of_gpu, fmt::format("a check of {} GPUs", gpus));
    job_.emplace(std::max(1, gpus));
  }

  // Null where there is a launcher, or nothing to launch.
  ControlPlane* control() { return job_ ? &job_->control() : nullptr; }
  // Threads may start.
  void limit_time() {
    limit_.emplace(start_, options_.limit, job_ ? job_->control().is_leader() : is_first_launched());
  }

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
int dispatch(ControlPlane& control, const std::vector<std::string>& arguments, TerminationSignals& signals,
             const FaultHooks& fault_hooks, CheckJob* check) {
  try {
    Parsed parsed = parse_options(arguments);
    if (parsed.early)
      return control.is_leader() ? static_cast<int>(print_result_for(ExitCode::ok, parsed.early->text)) : 0;
    from_leader(control, [] {
      refuse_wrong_variables();
      return std::string();
    });
    Request request{control, parsed.options, arguments, signals, fault_hooks};
    if (check && parsed.options.checks()) {
      parsed.options.deadline = check->deadline();
      request.wall_limit = check->limit();
      request.own_gpus = check->own_gpus();
    }
    const ExitCode code = find_command(parsed.options.command).run(request);
    return control.is_leader() ? static_cast<int>(code) : 0;
  } catch (const UsageError& problem) {
    return report_problem(control.is_leader(), ExitCode::usage, problem.what());
  } catch (const EnvironmentError& problem) {
    return report_problem(control.is_leader(), ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    if (check) end_descendants();
    leave_at_once(problem);  // before the job is left, which would wait for the others
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const FaultHooks& fault_hooks) {
  const Clock::time_point start = Clock::now();
  prepare_console();
  raise_stack_limits();
  // A file beyond the limit of its size (ulimit -f) is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  try {
    // Processes before threads.
    std::optional<CheckJob> check;
    if (std::optional<Options> options = check_in(arguments)) check.emplace(std::move(*options), start);
    TerminationSignals signals;
    if (check) check->limit_time();
    Watchdog watchdog([&code](const Watchdog::Hang& hang) {
      print_error(fmt::format("no progress in {} within {}", hang.step, to_text(hang.limit)));
      std::_Exit(code);
    });
    CheckJob* const checking = check ? &*check : nullptr;
    if (checking && checking->control())
      return dispatch(*checking->control(), arguments, signals, fault_hooks, checking);
    if (!needs_mpi(arguments)) return dispatch(*make_solo_world(1), arguments, signals, fault_hooks, checking);
    const MpiJob job(!measures_over_mpi(arguments));
    // Rank 0's words count for all.
    code = dispatch(job.control(), share_arguments(job.control(), arguments), signals, fault_hooks, checking);
    watchdog.arm("leaving MPI", teardown_limit);
    return code;
  } catch (const UsageError& problem) {
    // Before there is a world: of one process alone.
    return report_problem(*problem.what() != '\0', ExitCode::usage, problem.what());
  } catch (const UnreachableError& problem) {
    // The teardown of MPI would wait for those that cannot be reached.
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
