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
#include "bench/app/run/termination.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/descendants.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

// Threads per GPU that a check reserves: a supervisor, a worker, and what CUDA and NCCL start in it. An estimate, not
// measured on GPUs.
constexpr int threads_per_gpu = 16;

// Timeout for MPI_Finalize, which waits for ranks that may be gone.
constexpr Seconds teardown_limit{60};

int print_problem(bool prints_reason, ExitCode code, const char* what) {
  if (prints_reason && *what) print_error(what);
  return prints_reason ? static_cast<int>(code) : 0;
}

// Other ranks may wait for this one: exits without MPI_Finalize, so that the launcher ends them.
[[noreturn]] void exit_without_teardown(const std::exception& problem) {
  print_error(p5::describe(problem));
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

// The job of a check: its time limit, and without a launcher the GPUs found and a process for each.
class CheckJob {
 public:
  CheckJob(Options options, Clock::time_point start) : options_(std::move(options)), start_(start) {
    if (!finds_own_gpus(options_)) return;
    refuse_wrong_variables();  // the NVML query uses them
    own_gpus_ = take_own_gpus(options_);
    const int gpus = static_cast<int>(own_gpus_->usable.size());
    check_thread_limit(gpus * threads_per_gpu, fmt::format("a check of {} GPUs", gpus));
    job_.emplace(std::max(1, gpus));
  }

  // Null with a launcher, or if there is nothing to launch.
  ControlPlane* control() { return job_ ? &job_->control() : nullptr; }
  // Starts the limit's thread; processes must have been forked before.
  void limit_time() {
    limit_.emplace(start_, options_.limit, job_ ? job_->control().is_leader() : is_first_launched());
  }

  Clock::time_point deadline() const { return last_wait_deadline(start_, options_.limit); }
  WallLimit* limit() { return &*limit_; }
  const OwnGpus* own_gpus() const { return own_gpus_ ? &*own_gpus_ : nullptr; }

 private:
  const Options options_;
  const Clock::time_point start_;
  std::optional<OwnGpus> own_gpus_;
  std::optional<WallLimit> limit_;
  std::optional<ProcessJob> job_;  // declared last: it may wait for other processes, within the limit
};

// Only the leader prints and returns non-zero: a launcher kills the other ranks as soon as one does.
int dispatch(ControlPlane& control, const std::vector<std::string>& arguments, TerminationSignals& signals,
             const FaultHooks& fault_hooks, CheckJob* check) {
  try {
    Parsed parsed = parse_options(arguments);
    if (parsed.early)
      return control.is_leader() ? static_cast<int>(print_result_for(ExitCode::ok, parsed.early->text)) : 0;
    parsed.options.traffic_file_content = from_leader(control, [&] {
      refuse_wrong_variables();
      return read_traffic_file(parsed.options);
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
    return print_problem(control.is_leader(), ExitCode::usage, problem.what());
  } catch (const EnvironmentError& problem) {
    return print_problem(control.is_leader(), ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    if (check) end_descendants();
    exit_without_teardown(problem);  // before leaving the job, which would wait for other ranks
  }
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const FaultHooks& fault_hooks) {
  const Clock::time_point start = Clock::now();
  prepare_console();
  raise_stack_limits();
  // Exceeding the file size limit (ulimit -f) is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  try {
    // Processes are forked before threads start.
    std::optional<CheckJob> check;
    if (std::optional<Options> options = check_options(arguments)) check.emplace(std::move(*options), start);
    TerminationSignals signals;
    if (check) check->limit_time();
    Watchdog watchdog([&code](const Watchdog::Hang& hang) {
      print_error(fmt::format("no progress in {} within {}", hang.step, to_text(hang.limit)));
      std::_Exit(code);
    });
    CheckJob* const check_job = check ? &*check : nullptr;
    if (check_job && check_job->control())
      return dispatch(*check_job->control(), arguments, signals, fault_hooks, check_job);
    if (!needs_mpi(arguments)) return dispatch(*make_solo_world(1), arguments, signals, fault_hooks, check_job);
    const MpiJob job(!measures_over_mpi(arguments));
    // Rank 0's arguments are used on all ranks.
    code = dispatch(job.control(), share_arguments(job.control(), arguments), signals, fault_hooks, check_job);
    watchdog.arm("leaving MPI", teardown_limit);
    return code;
  } catch (const UsageError& problem) {
    // No control plane yet: an error of this process alone.
    return print_problem(*problem.what() != '\0', ExitCode::usage, problem.what());
  } catch (const UnreachableError& problem) {
    // MPI_Finalize would wait for unreachable ranks.
    print_problem(*problem.what() != '\0', ExitCode::environment, problem.what());
    std::_Exit(static_cast<int>(ExitCode::environment));
  } catch (const EnvironmentError& problem) {
    // No control plane yet: copies of a job other than the first exit silently.
    return print_problem(*problem.what() != '\0', ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    exit_without_teardown(problem);
  }
}

}  // namespace p5
