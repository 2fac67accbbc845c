#include "bench/app/machine/leader.hpp"

#include <fmt/format.h>

#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/traffic.hpp"

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

std::string read_traffic_file(const Options& options) {
  if (options.traffic.empty() || is_generated(options.traffic)) return "";
  constexpr Bytes largest_file = MiB(32);
  std::vector<std::string> forms;
  for (const TrafficGenerator& each : traffic_generators()) forms.emplace_back(each.form);
  const std::string remedy = fmt::format("name a CSV file or one of: {}", join(forms, "; "));
  std::string text;
  try {
    text = read_input(options.traffic, largest_file, remedy);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--traffic: {}", problem.what()));
  }
  if (!is_utf8(text))
    throw UsageError(fmt::format("--traffic: {} is no text in UTF-8; {}", in_quotes(options.traffic), remedy));
  return text;
}

}  // namespace p5
