#include "bench/app/run/phases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

constexpr const char* library_path = "LD_LIBRARY_PATH";

using Settings = std::map<std::string, std::string>;

void refuse_unsupported_launches(const Options& options, const Machine& machine) {
  if (machine.backend->relaunches()) return;
  if (options.command == "ab")
    throw UsageError(
        fmt::format("ab needs worker processes for its arms, which the {} backend has not; where no GPU was "
                    "found, --backend nccl says why",
                    machine.backend_name));
  if (options.soak.count > 0) throw UsageError(launches_error(machine.backend_name, 0));
  if (options.launches > 1) throw UsageError(launches_error(machine.backend_name, options.launches));
}

// The first missing folder of the arm's LD_LIBRARY_PATH on this host, as a message; "" if all exist.
std::string missing_folder(const Settings& settings) {
  const auto found = settings.find(library_path);
  if (found == settings.end() || found->second.empty()) return "";
  for (const std::string& folder : split(found->second, ':')) {
    std::error_code problem;
    if (!fs::is_directory(folder, problem)) return fmt::format("there is no folder '{}'", folder);
  }
  return "";
}

void refuse_missing_folders(ControlPlane& control, const std::string& name, const Settings& settings) {
  const auto refuse = [&](const std::vector<std::string>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty()) continue;
      const std::string what = fmt::format("--{}: {}: {}", name, library_path, all[rank]);
      if (rank == 0) throw UsageError(what);
      throw EnvironmentError(
          fmt::format("{} on the host of rank {}; the libraries have to be on all hosts", what, rank));
    }
  };
  agree(
      control, [&] { return missing_folder(settings); }, refuse);
}

// The arm's variables; its library folders are searched before the inherited ones.
Environment variables_of(ControlPlane& control, const Options& options, Settings settings) {
  const char* const own = std::getenv(library_path);
  std::string before = own ? own : "";
  if (options.environment_of_rank0) before = shared_by_leader(control, before);
  const auto found = settings.find(library_path);
  if (found != settings.end() && !found->second.empty() && !before.empty()) found->second += ":" + before;
  return settings;
}

// Variables that an arm's processes on this rank get.
Environment environment_of_arm(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  std::erase_if(environment, [](const auto& variable) { return variable.second.empty(); });
  return environment;
}

// Throws UsageError if no rank's processes differ between the arms. `outside`: the environment without an arm's.
void refuse_equal_arms(ControlPlane& control, const Options& options, const Environment& outside,
                       const std::vector<Environment>& arms) {
  const auto refuse = [&](const std::vector<bool>& are_equal) {
    if (std::ranges::find(are_equal, false) != are_equal.end()) return;
    Settings settings = options.a;
    settings.insert(options.b.begin(), options.b.end());
    std::vector<std::string> in_both;
    for (const auto& [name, value] : settings)
      if (outside.contains(name)) in_both.push_back(name);
    const std::string why =
        in_both.empty() ? "" : fmt::format(" ({}: set outside, which holds in both)", join(in_both));
    throw UsageError(
        fmt::format("both arms get the same variables{}, so that nothing is compared: give --b KEY=VALUE,... that A "
                    "has not (a variable that nothing reads shows how far equal arms differ)",
                    why));
  };
  agree(
      control, [&] { return arms.front() == arms.back(); }, refuse);
}

}  // namespace

Arms make_arms(ControlPlane& control, const Options& options, const Machine& machine) {
  refuse_unsupported_launches(options, machine);
  Arms arms;
  if (options.command != "ab") {
    arms.all.push_back({.backend = machine.backend.get()});
    return arms;
  }
  const Environment outside = environment_of_workers(control, options);
  std::vector<Environment> environments;
  for (const auto& [name, settings] : {std::pair{"a", options.a}, std::pair{"b", options.b}}) {
    if (!machine.backend_info().simulated()) refuse_missing_folders(control, name, settings);
    const Environment changes = variables_of(control, options, settings);
    environments.push_back(environment_of_arm(outside, changes));
    arms.owned.push_back(machine.backend->arm(changes));
    arms.all.push_back({.name = name, .backend = arms.owned.back().get(), .settings = recorded(settings)});
  }
  refuse_equal_arms(control, options, outside, environments);
  machine.backend->abandon();
  control.barrier();
  return arms;
}

std::string launch_mismatch(const std::vector<Environment>& of_ranks, const Machine& machine) {
  const auto value = [&](std::size_t rank, const char* key) { return value_or_empty(of_ranks[rank], key); };
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (value(rank, "nccl") != value(0, "nccl"))
      return fmt::format("rank {} loaded {} ({}), rank 0 {} ({})", rank, value(rank, "nccl"), value(rank, "nccl.path"),
                         value(0, "nccl"), value(0, "nccl.path"));
    if (rank < machine.gpu_of_rank.size() && value(rank, "gpu.uuid") != machine.gpu_of_rank[rank])
      return fmt::format("rank {} is on another GPU ({}) than the job ({})", rank, value(rank, "gpu.uuid"),
                         machine.gpu_of_rank[rank]);
  }
  return "";
}

std::vector<reports::ArmInfo> describe_arms(const Options& options) {
  if (options.command != "ab") return {};
  return {{.name = "a", .settings = recorded(options.a), .context = {}, .problem = {}},
          {.name = "b", .settings = recorded(options.b), .context = {}, .problem = {}}};
}

}  // namespace p5
