#include "bench/control/collective_errors.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace p5 {

namespace {

// The first character of a message. A problem is CODE:WHAT.
constexpr char plain = '+', problem_mark = '-';

// Ends the attempt here: this participant has been told of a problem. Not to be caught by who looks for exceptions.
struct Told {};

std::string to_message(const Problem& problem) {
  return fmt::format("{}{}:{}", problem_mark, static_cast<int>(problem.code), problem.what);
}

// The watchdog watches as long as this lives.
class Wait {
 public:
  Wait(Watchdog* watchdog, const std::string& step, Seconds limit)
      : watchdog_(watchdog && watchdog->disarmed() ? watchdog : nullptr) {
    if (watchdog_) watchdog_->arm(step, limit);
  }
  ~Wait() {
    if (watchdog_) watchdog_->disarm();
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  Watchdog* watchdog_;
};

Problem from_message(const std::string& message) {
  return {static_cast<ExitCode>(std::atoi(message.c_str() + 1)), message.substr(message.find(':') + 1)};
}

}  // namespace

void Problem::raise() const {
  if (code == ExitCode::usage) throw UsageError(what);
  if (code == ExitCode::environment) throw EnvironmentError(what);
  throw std::runtime_error(what);
}

void CollectiveErrors::begin_step(std::string step, Seconds longest_wait) {
  step_ = std::move(step);
  longest_wait_ = longest_wait;
}

std::optional<Problem> CollectiveErrors::attempt(const std::function<void()>& action) {
  told_.reset();
  try {
    action();
    barrier();  // those that are done learn of those that are not
    return std::nullopt;
  } catch (const Told&) {
    return told_;
  } catch (const JobLost&) {
    throw;
  } catch (const UsageError& problem) {
    return share({ExitCode::usage, problem.what()});
  } catch (const EnvironmentError& problem) {
    return share({ExitCode::environment, problem.what()});
  } catch (const std::exception& problem) {
    if (inside_) throw;
    return share({ExitCode::unfinished, describe(problem)});
  }
}

std::vector<std::string> CollectiveErrors::gather(const std::string& mine) {
  if (told_) throw Told{};
  if (!gather_is_next_) take_turn_broadcasting({plain});
  std::vector<std::string> all = take_turn_gathering(plain + mine);
  for (std::string& each : all) each.erase(0, 1);
  return all;
}

std::string CollectiveErrors::broadcast(const std::string& leaders) {
  if (told_) throw Told{};
  if (gather_is_next_) take_turn_gathering({plain});
  return take_turn_broadcasting(plain + leaders).substr(1);
}

std::vector<std::string> CollectiveErrors::take_turn_gathering(const std::string& message) {
  inside_ = true;
  const Wait wait(watchdog_, step_, longest_wait_);
  std::vector<std::string> all = inner_.gather(message);
  inside_ = gather_is_next_ = false;
  const auto problem = std::ranges::find(all, problem_mark, [](const std::string& each) { return each.front(); });
  if (problem != all.end()) take_turn_broadcasting(*problem);
  return all;
}

std::string CollectiveErrors::take_turn_broadcasting(const std::string& message) {
  inside_ = true;
  const Wait wait(watchdog_, step_, longest_wait_);
  std::string leaders = inner_.broadcast(message);
  inside_ = false;
  gather_is_next_ = true;
  if (leaders.front() != problem_mark) return leaders;
  told_ = from_message(leaders);
  throw Told{};
}

// Until the leader's broadcast tells of this problem, or of one that comes before it.
Problem CollectiveErrors::share(const Problem& mine) try {
  const std::string message =
      to_message(is_leader() ? mine : Problem{mine.code, fmt::format("rank {}: {}", hosted().front(), mine.what)});
  for (;;) {
    if (gather_is_next_) take_turn_gathering(message);
    take_turn_broadcasting(message);
  }
} catch (const Told&) {
  return *told_;
}

}  // namespace p5
