#include "bench/app/tuning/obstacles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "tuner/candidates.hpp"
#include "tuner/files.hpp"

namespace p5 {

bool on_efa(const topo::Topology& topology) { return std::ranges::any_of(topology.hosts, topo::has_efa); }

std::string tuner_to_keep(const topo::Topology& topology, const Environment& environment) {
  if (std::string named = value_or_empty(environment, tuner::chain_variable); !named.empty()) return named;
  if (environment.contains("NCCL_NET_PLUGIN") || !on_efa(topology)) return "";
  std::optional<std::string> found;
  for (const topo::Host& host : topology.hosts) {
    std::string here;
    std::set<std::string> folders;
    for (const std::string& path : host.net_plugins.value_or(std::vector<std::string>())) {
      folders.insert(path.substr(0, path.rfind('/')));
      if (here.empty() || path.ends_with("/libnccl-net-ofi.so")) here = path;
    }
    if (folders.size() != 1 || (found && *found != here)) return "";
    found = here;
  }
  return found.value_or("");
}

bool lacks_tuner(const std::string& library) {
  const std::optional<std::string> content = library.empty() ? std::nullopt : bytes_of(library);
  return content && content->find("ncclTunerPlugin_v") == std::string::npos;
}

std::string how_to_keep_tuner(const std::string& named) {
  if (named.empty() || named == "STATIC_PLUGIN" || lower(named) == "none" || named == "p5bench" ||
      named.ends_with(tuner::plugin_file_name))
    return "";
  // NCCL makes a file name of a short one.
  const bool is_file = named.find('/') != std::string::npos || named.find(".so") != std::string::npos;
  return fmt::format(", and set {}={}, which keeps that tuner for all calls that get no setting", tuner::chain_variable,
                     printable(is_file ? named : "libnccl-tuner-" + named + ".so"));
}

std::string reason_for_no_rows(const Environment& environment, int nccl_version,
                               const std::vector<std::string>& collectives) {
  const bool leaves_some = std::ranges::any_of(collectives, [](const std::string& name) {
    const std::optional<tuner::Function> function = tuner::parse_function(name);
    return function && tuner::has_both_buffers_everywhere(*function);
  });
  const bool told = nccl_version >= tuner::first_nccl_with_registration;
  if (!told || !leaves_some || tuner::rows_decide_registered_calls(environment)) return "";
  for (const char* const hook : tuner::allocator_hooks)
    if (tuner::is_on(value_or_empty(environment, hook)))
      return fmt::format(
          "{} is set, with which the plugin leaves all_reduce, all_gather and reduce_scatter to NCCL: unset it to tune "
          "jobs without it, or set {}={} to let settings decide calls on registered buffers too.",
          hook, tuner::registered_variable, tuner::rows_for_registered);
  return "";
}

std::string reason_for_no_tuner(const topo::Topology& topology, const Environment& environment,
                                const std::string& chain, const std::string& library_without_tuner,
                                const std::vector<HostProblem>& others) {
  if (lacks_tuner(chain))
    return fmt::format("{} is {}, which has no tuner of NCCL's: name the library that has it, or unset the variable.",
                       tuner::chain_variable, printable(chain));
  if (!others.empty())
    return fmt::format(
        "The tuner that keeps all other calls is not the same on all hosts ({}), whose ranks would decide differently, "
        "and hang: have one file there, or let --delivery=env try variables.",
        to_text(others));
  if (!chain.empty()) return "";
  if (on_efa(topology) && library_without_tuner.empty())
    return "On EFA aws-ofi-nccl brings a tuner of its own, which p5bench's would displace, and it is not certain which "
           "library NCCL loads it from: name it with P5BENCH_TUNER_CHAIN to keep it for all other calls.";
  if (const std::string policy = tuner::efficiency_policy(environment); !policy.empty())
    return fmt::format(
        "NCCL_CTA_POLICY={} is set, which NCCL ignores where a tuner is loaded: unset it to tune sizes, "
        "or let --delivery=env try variables.",
        printable(policy));
  return "";
}

std::string reason_for_no_plugin(const std::string& plugin) {
  if (bytes_of(plugin)) return "";
  return fmt::format(
      "The plugin {} cannot be read, without which jobs cannot load settings for sizes: put it there, beside p5bench, "
      "or let --delivery=env try variables.",
      printable(plugin));
}

}  // namespace p5
