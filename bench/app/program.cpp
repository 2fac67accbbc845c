#include "bench/app/program.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/app/command_line.hpp"
#include "bench/app/commands/commands.hpp"
#include "bench/app/run/shutdown.hpp"
#include "bench/app/variables.hpp"
#include "bench/base/console.hpp"
#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/text.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/agreement.hpp"
#include "topo/topology.hpp"

namespace p5 {

namespace {

// Threads per GPU that a check needs: a supervisor, a worker, and those that CUDA and NCCL start in it. A check is
// refused where limits forbid so many. An estimate, not measured on GPUs.
constexpr int threads_per_gpu = 16;

// Timeout for MPI_Init, which waits for all ranks: hosts may start processes minutes apart.
constexpr Seconds start_limit{600};
// Timeout for MPI_Finalize, which waits for ranks that may be gone.
constexpr Seconds teardown_limit{60};

// A command line, parsed.
struct CommandLine {
  explicit CommandLine(std::vector<std::string> words) : arguments(std::move(words)) {
    try {
      parsed = parse_options(arguments);
    } catch (const UsageError& problem) {
      refused = problem;
    }
  }
  // The options of a command that measures; null for others.
  const Options* measuring() const {
    return !refused && !parsed.early && measures(parsed.options.command) ? &parsed.options : nullptr;
  }

  // Commands that do not measure need a job only so that one rank prints; `topo` looks at the host of each.
  bool asks_all_ranks() const { return measuring() || (!refused && !parsed.early && parsed.options.command == "topo"); }

  std::vector<std::string> arguments;
  Parsed parsed;
  std::optional<UsageError> refused;
};

ExitCode print_problem(bool prints_reason, ExitCode code, const char* what) {
  if (prints_reason && *what) print_error(what);
  return prints_reason ? code : ExitCode::ok;
}

// The job of a check without a launcher: the GPUs found and a process for each.
class CheckJob {
 public:
  explicit CheckJob(const Options& options) {
    if (!finds_own_gpus(options)) return;
    refuse_wrong_variables();  // the NVML query uses them
    own_gpus_ = take_own_gpus(options);
    const int gpus = static_cast<int>(own_gpus_->usable.size());
    check_thread_limit(gpus * threads_per_gpu, fmt::format("a check of {} GPUs", gpus));
    job_.emplace(std::max(1, gpus));
  }

  // Null with a launcher.
  ControlPlane* control() { return job_ ? &job_->control() : nullptr; }
  const OwnGpus* own_gpus() const { return own_gpus_ ? &*own_gpus_ : nullptr; }

 private:
  std::optional<OwnGpus> own_gpus_;
  std::optional<ProcessJob> job_;
};

using Arguments = std::vector<std::string>;

// The words in which a rank's arguments differ from rank 0's, with the option whose value differs.
std::string describe_difference(const Arguments& of_rank, const Arguments& of_leader) {
  auto [begin, leaders_begin] = std::ranges::mismatch(of_rank, of_leader);
  const auto [end, leaders_end] = std::mismatch(of_rank.rbegin(), std::make_reverse_iterator(begin), of_leader.rbegin(),
                                                std::make_reverse_iterator(leaders_begin));
  const auto is_value = [](auto word, auto last) { return word != last && !word->starts_with('-'); };
  if (begin != of_rank.begin() && is_value(begin, end.base()) && is_value(leaders_begin, leaders_end.base())) {
    --begin;
    --leaders_begin;
  }
  const auto words = [](auto first, auto last) {
    return first == last ? "nothing" : in_quotes(fmt::format("{}", fmt::join(first, last, " ")));
  };
  return fmt::format("{} where rank 0 has {}", words(begin, end.base()), words(leaders_begin, leaders_end.base()));
}

// A launcher may start parts of a job with different arguments (mpirun -np 1 p5bench A : -np 1 p5bench B), and each
// rank has started MPI as its own arguments require; hosts may have different versions of this program, whose ranks
// take other steps. Returns the host of each rank, at the leader. Throws UsageError or EnvironmentError on all ranks.
std::vector<std::string> require_same_arguments(ControlPlane& control, const Arguments& arguments) {
  // The words before the arguments, the same in all versions: version and host.
  constexpr std::size_t before = 2;
  std::vector<std::string> hosts;
  agree(
      control,
      [&] {
        Arguments words{std::string(version()), topo::host_name().name};
        words.insert(words.end(), arguments.begin(), arguments.end());
        return words;
      },
      [&](const std::vector<Arguments>& all) {
        for (const Arguments& words : all) hosts.push_back(words.at(1));
        const Arguments& leaders = all.front();
        for (std::size_t rank = 1; rank < all.size(); ++rank)
          if (all[rank].at(0) != leaders.at(0))
            throw EnvironmentError(
                fmt::format("rank {} on {} runs p5bench {}, rank 0 on {} p5bench {}: install the same version on all "
                            "hosts",
                            rank, all[rank].at(1), all[rank].at(0), leaders.at(1), leaders.at(0)));
        const auto arguments_of = [](const Arguments& words) { return Arguments(words.begin() + before, words.end()); };
        for (std::size_t rank = 1; rank < all.size(); ++rank)
          if (arguments_of(all[rank]) != arguments_of(leaders))
            throw UsageError(fmt::format("all ranks of a job need the same arguments: rank {} has {}", rank,
                                         describe_difference(arguments_of(all[rank]), arguments_of(leaders))));
      });
  return hosts;
}

// After an error that all ranks share only the leader prints and returns non-zero, because a launcher kills the other
// ranks as soon as one does. Any other exception ends its own process with a message.
// start: of the process, from which the limit of a check counts.
ExitCode dispatch(ControlPlane& control, const CommandLine& line, Shutdown& shutdown, const FaultHooks& fault_hooks,
                  Clock::time_point start, const OwnGpus* own_gpus) {
  try {
    const std::vector<std::string> hosts = require_same_arguments(control, line.arguments);
    if (line.refused) throw *line.refused;
    if (line.parsed.early)
      return control.is_leader() ? print_result_for(ExitCode::ok, line.parsed.early->text) : ExitCode::ok;
    Options options = line.parsed.options;
    take_variables_of_leader(control);
    options.traffic_file_content = from_leader(control, [&] { return read_traffic_file(options); });
    options.job_file_content = from_leader(control, [&] { return read_job_file(options); });
    if (options.checks()) options.deadline = last_wait_deadline(start, options.limit);
    const ExitCode code =
        find_command(options.command).run({control, options, line.arguments, shutdown, fault_hooks, own_gpus, hosts});
    return control.is_leader() ? code : ExitCode::ok;
  } catch (const UsageError& problem) {
    return print_problem(control.is_leader(), ExitCode::usage, problem.what());
  } catch (const EnvironmentError& problem) {
    return print_problem(control.is_leader(), ExitCode::environment, problem.what());
  } catch (const std::exception& problem) {
    print_error(p5::describe(problem));
    shutdown.exit(shutdown.final_exit_code_or(ExitCode::unfinished));  // leaving the job would wait for other ranks
  }
}

ExitCode run_in_job(const CommandLine& line, Shutdown& shutdown, const FaultHooks& fault_hooks) {
  const Clock::time_point start = Clock::now();
  // Processes are forked before threads start.
  const Options* const measuring = line.measuring();
  std::optional<CheckJob> check;
  if (measuring && measuring->checks()) check.emplace(*measuring);
  shutdown.handle_signals();
  ControlPlane* const forked = check ? check->control() : nullptr;
  if (check)
    shutdown.limit_time(start, measuring->limit_with_burn(), forked ? forked->is_leader() : is_first_launched());
  if (forked) return dispatch(*forked, line, shutdown, fault_hooks, start, check->own_gpus());
  if (!needs_mpi(measuring)) return dispatch(*make_solo_control_plane(1), line, shutdown, fault_hooks, start, nullptr);
  std::optional<MpiJob> job;
  if (!check) shutdown.limit_start(duration_variable("P5BENCH_START_LIMIT").value_or(start_limit), is_first_launched());
  try {
    job.emplace(!measures_over_mpi(measuring));
    shutdown.has_started();
  } catch (const EnvironmentError&) {
    shutdown.has_started();
    // A launcher of another MPI, or one of its variables that was inherited: only what asks all ranks needs the job.
    if (line.asks_all_ranks()) throw;
    shutdown.exit(dispatch(*make_solo_control_plane(1), line, shutdown, fault_hooks, start, nullptr));
  }
  const ExitCode code = dispatch(job->control(), line, shutdown, fault_hooks, start, nullptr);
  shutdown.set_final_exit_code(code);
  shutdown.limit_teardown("leaving MPI", teardown_limit);
  return code;
}

int run_with(const std::vector<std::string>& arguments, Shutdown& shutdown, const FaultHooks& fault_hooks) {
  try {
    return static_cast<int>(run_in_job(CommandLine(arguments), shutdown, fault_hooks));
  } catch (const UsageError& problem) {
    // No control plane yet: an error of this process alone.
    return static_cast<int>(print_problem(*problem.what() != '\0', ExitCode::usage, problem.what()));
  } catch (const UnreachableError& problem) {
    // MPI_Finalize would wait for unreachable ranks.
    print_problem(*problem.what() != '\0', ExitCode::environment, problem.what());
    shutdown.exit(ExitCode::environment);
  } catch (const EnvironmentError& problem) {
    // No control plane yet: all ranks but the first exit silently.
    return static_cast<int>(print_problem(*problem.what() != '\0', ExitCode::environment, problem.what()));
  } catch (const std::exception& problem) {
    print_error(p5::describe(problem));
    shutdown.exit(shutdown.final_exit_code_or(ExitCode::unfinished));
  }
}

// Where even the memory for a message is missing, on any thread: a plain end instead of a core dump.
std::terminate_handler handler_of_others = nullptr;
std::atomic<Shutdown*> shutdown_of_process = nullptr;

void end_without_memory() {
  Shutdown* const shutdown = shutdown_of_process.load();
  if (const std::exception_ptr problem = std::current_exception(); problem && shutdown) try {
      std::rethrow_exception(problem);
    } catch (const std::bad_alloc&) {
      print_stderr("p5bench: there is no memory left. Raise the limit of a process (ulimit -d, -v) or of the job\n");
      shutdown->exit(shutdown->final_exit_code_or(ExitCode::unfinished));
    } catch (...) {
      // Handled below.
    }
  if (handler_of_others) handler_of_others();
  std::abort();
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const FaultHooks& fault_hooks) {
  prepare_console();
  raise_stack_limits();
  // Exceeding the file size limit (ulimit -f) is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  Shutdown shutdown;
  shutdown_of_process = &shutdown;
  handler_of_others = std::set_terminate(end_without_memory);
  const int code = run_with(arguments, shutdown, fault_hooks);
  std::set_terminate(handler_of_others);
  shutdown_of_process = nullptr;
  return code;
}

}  // namespace p5
