#include "bench/agreement.hpp"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "bench/error.hpp"
#include "bench/runner.hpp"

namespace p5 {

namespace {

// The first character of a message says what follows.
constexpr char good = '+', bad = '-';

struct Part {
  std::string message;
  bool failed = false;
};

Part do_part(World& world, const LocalPart& local) {
  try {
    return {good + local(), false};
  } catch (const JobLost&) {
    throw;
  } catch (const CaseError& problem) {
    return {fmt::format("{}{}:{}", bad, problem.rank.value_or(world.hosted().front()), problem.what()), true};
  } catch (const std::exception& problem) {
    return {fmt::format("{}{}:{}", bad, world.hosted().front(), problem.what()), true};
  }
}

// "-RANK:WHAT"
PhaseFailed failure(Phase phase, const std::string& message) {
  const std::size_t colon = message.find(':');
  return {phase, std::atoi(message.c_str() + 1), message.substr(colon + 1)};
}

}  // namespace

std::string agree(World& world, Phase phase, bool recovers, const LocalPart& local, const Decide& decide) {
  const Part part = do_part(world, local);
  if (part.failed && phase != Phase::open && !recovers) {
    const PhaseFailed problem = failure(phase, part.message);
    throw JobLost(fmt::format("rank {} failed in {}: {}", problem.rank, name_of(phase), problem.what));
  }
  std::vector<std::string> parts = world.gather(part.message);
  std::string answer;
  if (world.leads()) {
    for (const std::string& each : parts)
      if (each.front() == bad && answer.empty()) answer = each;
    if (answer.empty()) {
      for (std::string& each : parts) each.erase(0, 1);
      answer = good + decide(parts);
    }
  }
  answer = world.broadcast(answer);
  if (answer.front() == bad) throw failure(phase, answer);
  return answer.substr(1);
}

}  // namespace p5
