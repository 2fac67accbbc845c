#include "bench/app/machine/leader.hpp"

#include "bench/base/error.hpp"

namespace p5 {

std::string from_leader(ControlPlane& control, const std::function<std::string()>& action) {
  std::string answer;
  if (control.is_leader()) {
    try {
      answer = "+" + action();
    } catch (const UsageError& problem) {
      answer = std::string("u") + problem.what();
    } catch (const EnvironmentError& problem) {
      answer = std::string("e") + problem.what();
    }
  }
  answer = control.broadcast(answer);
  const std::string text = answer.substr(1);
  if (answer.front() == 'u') throw UsageError(text);
  if (answer.front() == 'e') throw EnvironmentError(text);
  return text;
}

}  // namespace p5
