#include "bench/control/mca_settings.hpp"

#include <link.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "bench/base/names.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "OMPI_MCA_";

std::string variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string trimmed(std::string_view text) {
  constexpr const char* blanks = " \t\r\"'";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

// Lines "name = value"; in files for mpirun's -tune also "-mca name value". The first of a name stays.
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

// An installation's own files: the first place that has them, of those that builds and distributions give them.
std::string installation_folder(const Environment& environment, const std::string& library_folder,
                                const ReadFile& read) {
  std::vector<std::string> folders{variable(environment, "OPAL_SYSCONFDIR")};
  if (const std::string root = variable(environment, "OPAL_PREFIX"); !root.empty()) folders.push_back(root + "/etc");
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
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string folder_of_mpi() {
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
  const auto named = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::vector<std::string>() : split_paths(found->second);
  };
  const std::string installation = installation_folder(environment, library_folder, read);
  std::vector<std::string> files{installation + "/openmpi-mca-params-override.conf"};
  for (const char* const given : {"mca_base_envar_file_prefix", "mca_base_param_file_prefix"}) {
    for (const std::string& file : named(given)) {
      files.push_back(file);
      for (const char* const searched : {"mca_base_param_file_path", "initial_wdir"})
        for (const std::string& folder : named(searched)) files.push_back(folder + "/" + file);
    }
  }
  std::vector<std::string> usual = named("mca_base_param_files");
  if (usual.empty()) usual = named("mca_param_files");
  if (usual.empty())
    usual = {variable(environment, "HOME") + "/.openmpi/mca-params.conf", installation + "/openmpi-mca-params.conf"};
  files.insert(files.end(), usual.begin(), usual.end());
  McaSettings settings;
  for (const std::string& file : files)
    if (const std::optional<std::string> text = read(file)) add_lines(settings, *text);
  return settings;
}

std::string within_choice(const std::string& ours, const std::string& theirs) {
  if (theirs.empty()) return ours;
  if (theirs.front() != '^') return theirs;
  const std::vector<std::string> excluded = split(theirs.substr(1));
  std::vector<std::string> left = split(ours);
  std::erase_if(left, [&](const std::string& each) { return std::ranges::find(excluded, each) != excluded.end(); });
  return join(left, ",");
}

}  // namespace p5
