#include "bench/control/collective_errors.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace p5 {

namespace {

// First character of a message. A problem is CODE:WHAT.
constexpr char plain = '+', problem_mark = '-';

// Ends the attempt here after a received problem. No std::exception, so that callers do not catch it.
struct ProblemReceived {};

std::string to_message(const Problem& problem) {
  return fmt::format("{}{}:{}", problem_mark, static_cast<int>(problem.code), problem.what);
}

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
  received_.reset();
  try {
    action();
    barrier();  // finished participants learn of failed ones here
    return std::nullopt;
  } catch (const ProblemReceived&) {
    return received_;
  } catch (const JobLost&) {
    throw;
  } catch (const UsageError& problem) {
    return distribute({ExitCode::usage, problem.what()});
  } catch (const EnvironmentError& problem) {
    return distribute({ExitCode::environment, problem.what()});
  } catch (const std::exception& problem) {
    if (in_inner_call_) throw;
    return distribute({ExitCode::unfinished, describe(problem)});
  }
}

std::vector<std::string> CollectiveErrors::gather(const std::string& mine) {
  if (received_) throw ProblemReceived{};
  if (!gather_is_next_) exchange_broadcast({plain});
  std::vector<std::string> all = exchange_gather(plain + mine);
  for (std::string& each : all) each.erase(0, 1);
  return all;
}

std::string CollectiveErrors::broadcast(const std::string& text_of_leader) {
  if (received_) throw ProblemReceived{};
  if (gather_is_next_) exchange_gather({plain});
  return exchange_broadcast(plain + text_of_leader).substr(1);
}

std::vector<std::string> CollectiveErrors::exchange_gather(const std::string& message) {
  in_inner_call_ = true;
  const WatchdogScope wait(watchdog_ && watchdog_->disarmed() ? watchdog_ : nullptr, step_, longest_wait_);
  std::vector<std::string> all = inner_.gather(message);
  in_inner_call_ = gather_is_next_ = false;
  const auto problem = std::ranges::find(all, problem_mark, [](const std::string& each) { return each.front(); });
  if (problem != all.end()) exchange_broadcast(*problem);
  return all;
}

std::string CollectiveErrors::exchange_broadcast(const std::string& message) {
  in_inner_call_ = true;
  const WatchdogScope wait(watchdog_ && watchdog_->disarmed() ? watchdog_ : nullptr, step_, longest_wait_);
  std::string text_of_leader = inner_.broadcast(message);
  in_inner_call_ = false;
  gather_is_next_ = true;
  if (text_of_leader.front() != problem_mark) return text_of_leader;
  received_ = from_message(text_of_leader);
  throw ProblemReceived{};
}

// Alternates until the leader's broadcast has this problem, or an earlier one.
Problem CollectiveErrors::distribute(const Problem& mine) try {
  const std::string message =
      to_message(is_leader() ? mine : Problem{mine.code, fmt::format("rank {}: {}", hosted().front(), mine.what)});
  for (;;) {
    if (gather_is_next_) exchange_gather(message);
    exchange_broadcast(message);
  }
} catch (const ProblemReceived&) {
  return *received_;
}

}  // namespace p5
