#include "bench/control/launcher.hpp"

#include <link.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

struct Launcher {
  const char *size, *rank;
};

// torchrun's names are generic: they count only if all three are set.
constexpr Launcher torchrun{"WORLD_SIZE", "RANK"};
constexpr const char* torchrun_local_rank = "LOCAL_RANK";

constexpr std::array launchers{Launcher{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                               Launcher{"PMI_SIZE", "PMI_RANK"},
                               Launcher{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                               Launcher{"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                               Launcher{"FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
                               Launcher{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                               Launcher{"", "PMIX_RANK"},
                               torchrun};

std::optional<int> number_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  const std::optional<int> number = as_number<int>(found->second);
  return number && *number >= 0 ? number : std::nullopt;
}

constexpr std::string_view right_start =
    "Start it with Open MPI's own mpirun, or with srun --mpi=pmix, one rank per GPU";

}  // namespace

LauncherInfo detect_launcher(const Environment& environment) {
  for (const Launcher& each : launchers) {
    const bool torch = each.size == std::string_view(torchrun.size);
    if (torch && !environment.contains(torchrun_local_rank)) continue;
    const auto size = number_in(environment, each.size), rank = number_in(environment, each.rank);
    if (!size && !rank) continue;
    return {.processes = size.value_or(0),
            .rank = rank.value_or(0),
            .variable = rank ? each.rank : each.size,
            .by_torchrun = torch};
  }
  return {};
}

std::string job_mismatch(const LauncherInfo& launch, int ranks) {
  if (launch.processes <= ranks && launch.rank < ranks) return "";
  const std::string who = fmt::format("this is rank {} ({})", launch.rank, launch.variable);
  const std::string what =
      launch.processes > 0
          ? fmt::format("the launcher started {} processes, but MPI sees a job of {}; {}", launch.processes, ranks, who)
          : fmt::format("{}, but MPI sees a job of {}", who, ranks);
  if (launch.by_torchrun) return fmt::format("{}: torchrun starts no MPI job. {}", what, right_start);
  return fmt::format("{}: the launcher does not belong to this program's MPI library (Open MPI). {}", what,
                     right_start);
}

bool has_no_process_manager(const Environment& environment) {
  const auto has = [&](const char* name) { return environment.contains(name); };
  const bool by_slurm = has("SLURM_STEP_ID") && (has("PMI_FD") || has("PMI_RANK"));
  return !by_slurm && std::ranges::none_of(std::array{"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "FLUX_JOB_ID"}, has);
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "OMPI_MCA_";

std::string trimmed(std::string_view text) {
  constexpr const char* blanks = " \t\r\"'";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

// Lines "name = value"; files for mpirun's -tune also have "-mca name value". The first value of a name wins.
void add_lines(McaSettings& settings, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    std::string word, name, value;
    words >> word;
    if (word.starts_with("-")) {
      do {
        if ((word == "-mca" || word == "--mca") && words >> name >> value) settings.try_emplace(name, trimmed(value));
      } while (words >> word);
    } else if (const std::size_t equals = line.find('='); equals != std::string::npos) {
      settings.try_emplace(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
    }
  }
}

std::vector<std::string> split_paths(std::string text) {
  std::ranges::replace(text, ',', ':');
  std::vector<std::string> paths = split(text, ':');
  std::erase(paths, "");
  return paths;
}

// The folder of the installation's own files: the first existing one of those used by builds and distributions.
std::string installation_folder(const Environment& environment, const std::string& library_folder,
                                const ReadFile& read) {
  std::vector<std::string> folders{value_or_empty(environment, "OPAL_SYSCONFDIR")};
  if (const std::string root = value_or_empty(environment, "OPAL_PREFIX"); !root.empty())
    folders.push_back(root + "/etc");
  if (!library_folder.empty()) folders.push_back((fs::path(library_folder) / ".." / "etc").lexically_normal().string());
  for (const char* const distributions : {"/etc/openmpi", "/etc/openmpi-x86_64", "/etc/openmpi-aarch64"})
    folders.emplace_back(distributions);
  const auto found = std::ranges::find_if(folders, [&](const std::string& folder) {
    return !folder.empty() && read(folder + "/openmpi-mca-params.conf").has_value();
  });
  return found == folders.end() ? "" : *found;
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string mpi_library_folder() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const fs::path path(info->dlpi_name);
        if (!path.filename().string().starts_with("libmpi.so")) return 0;
        *static_cast<std::string*>(result) = path.parent_path().string();
        return 1;
      },
      &found);
  return found;
}

McaSettings mca_variables(const Environment& environment) {
  McaSettings settings;
  for (const auto& [name, value] : environment)
    if (name.starts_with(prefix)) settings.emplace(name.substr(prefix.size()), value);
  return settings;
}

McaSettings mca_files(const Environment& environment, const std::string& library_folder, const ReadFile& read) {
  const McaSettings variables = mca_variables(environment);
  const auto paths_in = [&](const std::string& name) { return split_paths(value_or_empty(variables, name)); };
  const std::string installation = installation_folder(environment, library_folder, read);
  std::vector<std::string> files{installation + "/openmpi-mca-params-override.conf"};
  for (const char* const prefix_variable : {"mca_base_envar_file_prefix", "mca_base_param_file_prefix"}) {
    for (const std::string& file : paths_in(prefix_variable)) {
      files.push_back(file);
      for (const char* const searched : {"mca_base_param_file_path", "initial_wdir"})
        for (const std::string& folder : paths_in(searched)) files.push_back(folder + "/" + file);
    }
  }
  std::vector<std::string> user_files = paths_in("mca_base_param_files");
  if (user_files.empty()) user_files = paths_in("mca_param_files");
  if (user_files.empty())
    user_files = {value_or_empty(environment, "HOME") + "/.openmpi/mca-params.conf",
                  installation + "/openmpi-mca-params.conf"};
  files.insert(files.end(), user_files.begin(), user_files.end());
  McaSettings settings;
  for (const std::string& file : files)
    if (const std::optional<std::string> text = read(file)) add_lines(settings, *text);
  return settings;
}

std::string restrict_to_choice(const std::string& ours, const std::string& theirs) {
  if (theirs.empty()) return ours;
  if (theirs.front() != '^') return theirs;
  const std::vector<std::string> excluded = split(theirs.substr(1));
  std::vector<std::string> left = split(ours);
  std::erase_if(left, [&](const std::string& each) { return std::ranges::find(excluded, each) != excluded.end(); });
  return join(left, ",");
}

}  // namespace p5
