#include "bench/model/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5 {

namespace {

// True for the name of a library's variable: after a comma it is a variable without a value, not part of a value.
bool is_library_variable(std::string_view text) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_", "CUDA_", "LD_"};
  return std::ranges::any_of(prefixes, [&](const char* prefix) { return text.starts_with(prefix); });
}

}  // namespace

std::map<std::string, std::string> parse_arm(const std::string& text) {
  std::map<std::string, std::string> variables;
  if (text.empty()) return variables;
  // Both arms run on the GPUs and nodes that the job found.
  constexpr std::array of_the_job{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NCCL_HOSTID"};
  std::string* last = nullptr;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (equals != std::string::npos && is_variable_name(name)) {
      const auto [place, fresh] = variables.emplace(name, part.substr(equals + 1));
      if (!fresh) throw UsageError(fmt::format("'{}' sets {} twice", text, name));
      if (std::ranges::find(of_the_job, name) != of_the_job.end())
        throw UsageError(
            fmt::format("an arm cannot set {}: both arms have the GPUs and nodes of the job; set it outside, "
                        "for both",
                        name));
      last = &place->second;
    } else if (last && !is_library_variable(part)) {
      *last += "," + part;
    } else {
      throw UsageError(
          fmt::format("'{}' is not KEY=VALUE; write an arm like NCCL_MAX_CTAS=8,LD_LIBRARY_PATH=/opt/nccl", part));
    }
  }
  return variables;
}

}  // namespace p5
