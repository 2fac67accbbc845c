// Versions, kernel modules and plugins: what software the host runs, from files alone.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "bench/base/names.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

// The first version number in a text: "1.16.2-1" of "libnccl-ofi-ngc_1.16.2-1_amd64.deb". A number belongs to a name
// when a letter stands before it.
std::string version_in(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) continue;
    const bool starts = i == 0 || text[i - 1] == '-' || text[i - 1] == '_' || text[i - 1] == ' ' || text[i - 1] == 'v';
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", i), text.size());
    const std::string_view number = text.substr(i, end - i);
    if (starts && number.find('.') != std::string_view::npos)
      return std::string(number.substr(0, number.find_last_not_of('.') + 1));
    i = end;
  }
  return "";
}

void add(Host& host, const std::string& name, const std::string& version) {
  if (!version.empty()) host.versions[name] = version;
}

// "# EFA installer version: 1.43.2", then one package a line.
void add_efa_packages(Host& host, const fs::path& root) {
  const auto text = read_text(root / "opt/amazon/efa_installed_packages");
  if (!text) return;
  for (const std::string& line : lines_of(*text)) {
    if (line.find("installer version") != std::string::npos) {
      add(host, "efa installer", version_in(line));
      continue;
    }
    if (line.find("nccl-ofi") != std::string::npos) add(host, "aws-ofi-nccl", version_in(line));
    if (line.starts_with("libfabric-aws") || line.starts_with("libfabric1-aws"))
      add(host, "libfabric package", version_in(line));
  }
}

void add_modules(Host& host, const fs::path& root) {
  const fs::path folder = root / "sys/module";
  if (!present(folder)) return;
  host.modules.emplace();
  for (const std::string& name : interesting_modules())
    if (present(folder / name)) host.modules->push_back(name);
  const auto version = [&](const char* module) { return read_text(folder / module / "version").value_or(""); };
  add(host, "efa driver", version("efa"));
  add(host, "gdrcopy driver", version("gdrdrv"));
  add(host, "nvidia_peermem", version("nvidia_peermem"));
  add(host, "nvidia driver", version("nvidia"));
  if (!host.versions.contains("nvidia driver"))
    add(host, "nvidia driver", version_in(value_of(root / "proc/driver/nvidia/version", "NVRM version:").value_or("")));
}

// Folders that the loader and NCCL search: those in LD_LIBRARY_PATH, the EFA installer's and those of ld.so.conf.
std::vector<fs::path> library_folders(const fs::path& root, const Environment& environment) {
  std::vector<fs::path> folders;
  for (const std::string& folder : split(value_or_empty(environment, "LD_LIBRARY_PATH"), ':'))
    if (!folder.empty()) folders.emplace_back(folder);
  const auto add_listed = [&](const fs::path& file) {
    for (const std::string& line : lines_of(read_text(file).value_or("")))
      if (line.starts_with('/')) folders.push_back(root / line.substr(1));
  };
  add_listed(root / "etc/ld.so.conf");
  for (const std::string& name : names_in(root / "etc/ld.so.conf.d")) add_listed(root / "etc/ld.so.conf.d" / name);
  for (const char* folder : {"usr/local/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64",
                             "usr/lib", "usr/local/cuda/lib64", "opt/amazon/ofi-nccl/lib", "opt/amazon/ofi-nccl/lib64",
                             "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", "opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
                             "opt/aws-ofi-nccl/lib", "opt/amazon/efa/lib64", "opt/amazon/efa/lib"})
    folders.push_back(root / folder);
  return folders;
}

// "": not readable.
std::string content_of_plugin(const fs::path& library) {
  constexpr std::uintmax_t reasonable = 64 << 20;
  std::error_code problem;
  if (const auto size = fs::file_size(library, problem); problem || size > reasonable) return "";
  return read_text(library).value_or("");
}

// True if it is known not to be aws-ofi-nccl, all of whose lines in NCCL's log begin with "NET/OFI".
bool is_other_plugin(const std::string& path, std::string_view content) {
  return !content.empty() && path.find("ofi") == std::string::npos &&
         content.find("NET/OFI") == std::string_view::npos && content.find("aws-ofi-nccl") == std::string_view::npos;
}

// The plugin's file contains "aws-ofi-nccl 1.16.3", which it logs when it starts.
std::string plugin_version(std::string_view content) {
  constexpr std::string_view greeting = "aws-ofi-nccl ";
  for (std::size_t at = content.find(greeting); at != std::string_view::npos; at = content.find(greeting, at + 1))
    if (const std::string version = version_in(content.substr(at + greeting.size(), 24));
        !version.empty() && std::isdigit(static_cast<unsigned char>(content[at + greeting.size()])))
      return version;
  return "";
}

// NCCL takes the file that NCCL_NET_PLUGIN names, or libnccl-net-NAME.so; else libnccl-net.so. From 2.27 on it may be a
// list.
void add_libraries(Host& host, const fs::path& root, const Environment& environment) {
  const std::vector<std::string> wanted = split(value_or_empty(environment, "NCCL_NET_PLUGIN"));
  std::vector<std::string> named, others;  // plugins
  std::error_code problem;
  for (const std::string& each : wanted)
    if (each.find('/') != std::string::npos && fs::is_regular_file(each, problem)) named.push_back(each);
  const auto is_named = [&](const std::string& file) {
    return std::ranges::any_of(wanted, [&](const std::string& each) {
      return !each.empty() && (file == each || file == "libnccl-net-" + each + ".so");
    });
  };
  std::set<fs::path> seen;
  for (const fs::path& folder : library_folders(root, environment)) {
    const fs::path real = target_of(folder);
    if (real.empty() || !seen.insert(real).second) continue;
    for (const std::string& name : names_in(folder)) {
      if (name == "libnccl.so.2" && !host.versions.contains("nccl"))
        add(host, "nccl", version_in(target_name(folder / name).substr(sizeof "libnccl.so." - 1)));
      if (name.starts_with("libnvidia-ml.so.") && !host.versions.contains("nvidia driver") &&
          !host.versions.contains("nvidia libraries"))
        add(host, "nvidia libraries", version_in(target_name(folder / name).substr(sizeof "libnvidia-ml.so." - 1)));
      const std::string path = folder / name;
      if (is_named(name))
        named.push_back(path);
      else if (name.starts_with("libnccl-net") && name.ends_with(".so") && !std::ranges::count(named, path))
        others.push_back(path);
    }
  }
  host.net_plugins = named;
  host.net_plugins->insert(host.net_plugins->end(), others.begin(), others.end());
  std::string version;
  for (const std::string& path : *host.net_plugins) {
    const std::string content = content_of_plugin(path);
    if (version.empty()) version = plugin_version(content);
    if (is_other_plugin(path, content)) host.other_net_plugins.push_back(path);
  }
  add(host, "aws-ofi-nccl", version);  // a library counts more than the list of packages
}

// A daemon of NVIDIA's that works with the driver of its own version only.
struct Daemon {
  std::string package, program, log;
  std::vector<std::string_view> greetings;  // in the log, before its version
};

// The version of an installed package of this name, also followed by a branch: "nvidia-fabricmanager-580".
std::string version_by_dpkg(const fs::path& root, const std::string& package) {
  bool is_it = false, installed = false;  // lines of /var/lib/dpkg/status: packages with their fields
  for (const std::string& line : lines_of(read_text(root / "var/lib/dpkg/status").value_or(""))) {
    if (line.starts_with("Package: ")) {
      const std::string name = line.substr(sizeof "Package: " - 1),
                        rest = name.substr(std::min(name.size(), package.size()));
      const bool branch = rest.size() > 1 && rest[0] == '-' && std::isdigit(static_cast<unsigned char>(rest[1]));
      is_it = name.starts_with(package) && (rest.empty() || branch);
      installed = false;
    }
    if (line.starts_with("Status: ")) installed = line.ends_with(" installed");
    if (is_it && installed && line.starts_with("Version: ")) return version_in(line);
  }
  return "";
}

// The version that the daemon wrote last, if it has written since the program was installed.
std::string version_by_log(const fs::path& root, const Daemon& daemon) {
  constexpr off_t reasonable = 64 << 20;
  using Status = struct stat;
  Status program{}, log{};
  if (::stat((root / daemon.program).c_str(), &program) != 0 || ::stat((root / daemon.log).c_str(), &log) != 0)
    return "";
  const auto moment = [](const timespec& at) { return std::pair(at.tv_sec, at.tv_nsec); };
  if (log.st_size > reasonable || moment(log.st_mtim) < moment(program.st_ctim)) return "";
  std::string version;
  for (const std::string& line : lines_of(read_text(root / daemon.log).value_or("")))
    for (const std::string_view greeting : daemon.greetings)
      if (const std::size_t at = line.find(greeting); at != std::string::npos)
        version = version_in(std::string_view(line).substr(at + greeting.size()));
  return version;
}

// Packages of RPM are in no text; the daemon's log then tells. A container has its image's files, not those of the
// daemon that works for it.
void add_daemon_version(Host& host, const fs::path& root, const std::string& name, const Daemon& daemon) {
  if (host.container == true || !present(root / daemon.program)) return;
  const std::string version = version_by_dpkg(root, daemon.package);
  add(host, name, version.empty() ? version_by_log(root, daemon) : version);
}

// The daemons that run; unknown where other processes cannot be seen. Names in /proc have 15 characters.
void add_daemons(Host& host, const fs::path& root) {
  bool sees_others = false;
  std::set<std::string> commands;
  for (const std::string& name : names_in(root / "proc")) {
    if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    const std::string command = read_text(root / "proc" / name / "comm").value_or("");
    commands.insert(command);
    if (name == "1" && (command == "systemd" || command == "init")) sees_others = true;
  }
  const auto is_running = [&](const char* command) {
    return commands.contains(command) ? std::optional(true) : sees_others ? std::optional(false) : std::nullopt;
  };
  host.fabric_manager_running = is_running("nv-fabricmanage");
  if (host.imex) host.imex->running = is_running("nvidia-imex");
}

// NVIDIA's IMEX daemon, its list of the domain's nodes, and the channels that this process may use.
void add_imex(Host& host, const fs::path& root) {
  if (!present(root / "proc")) return;
  Imex& imex = host.imex.emplace();
  if (const auto text = read_text(root / "etc/nvidia-imex/nodes_config.cfg")) {
    imex.nodes.emplace();
    for (const std::string& line : lines_of(*text))
      if (const std::string address(trimmed(std::string_view(line).substr(0, line.find('#')))); !address.empty())
        imex.nodes->push_back(address);
  }
  const fs::path channels = root / "dev/nvidia-caps-imex-channels";
  for (const std::string& name : names_in(channels))
    if (name.starts_with("channel") && ::access((channels / name).c_str(), R_OK | W_OK) == 0) ++imex.channels;
}

// True if an IOMMU translates the addresses of a GPU or NIC. It is in the kernel's list also where it passes them
// through (iommu=pt, the type "identity"). Kernels before 5.11 do not tell types; there the command line counts.
std::optional<bool> iommu_translates(const Host& host, const fs::path& root) {
  std::set<std::string> types;
  const auto add_type = [&](const PciPosition& place) {
    if (place.address.empty()) return;
    if (auto type = read_text(root / "sys/bus/pci/devices" / place.address / "iommu_group/type")) types.insert(*type);
  };
  for (const Gpu& gpu : host.gpu_devices) add_type(gpu.pci);
  for (const Nic& nic : host.nics) add_type(nic.pci);
  if (!types.empty())
    return std::ranges::any_of(types, [](const std::string& type) { return type.starts_with("DMA"); });
  if (!present(root / "sys/class/iommu")) return std::nullopt;
  const std::vector<std::string> words = split(read_text(root / "proc/cmdline").value_or(""), ' ');
  const bool passes_through = std::ranges::any_of(
      words, [](const std::string& word) { return word == "iommu=pt" || word == "iommu.passthrough=1"; });
  return !names_in(root / "sys/class/iommu").empty() && !passes_through;
}

void add_surroundings(Host& host, const fs::path& root) {
  const auto flags = value_of(root / "proc/cpuinfo", "flags");
  if (flags) host.virtual_machine = flags->find(" hypervisor") != std::string::npos;
  host.iommu = iommu_translates(host, root);
  const std::string first = read_text(root / "proc/1/comm").value_or("");
  if (present(root / ".dockerenv") || present(root / "run/.containerenv"))
    host.container = true;
  else if (first == "systemd" || first == "init")
    host.container = false;
}

}  // namespace

const std::vector<std::string>& interesting_modules() {
  static const std::vector<std::string> names{"efa",     "efa_nv_peermem", "gdrdrv",         "ib_uverbs",
                                              "mlx5_ib", "nvidia",         "nvidia_peermem", "nvidia_uvm"};
  return names;
}

void add_software(Host& host, const fs::path& root, const Environment& environment) {
  std::string os = value_of(root / "etc/os-release", "PRETTY_NAME=").value_or("");
  std::erase(os, '"');
  add(host, "os", os);
  add_efa_packages(host, root);
  add_modules(host, root);
  add_libraries(host, root, environment);
  add_imex(host, root);
  add_daemons(host, root);
  add_surroundings(host, root);
  add_daemon_version(host, root, "fabric manager",
                     {"nvidia-fabricmanager",
                      "usr/bin/nv-fabricmanager",
                      "var/log/fabricmanager.log",
                      {"Fabric Manager version ", "driver interface version "}});
  add_daemon_version(host, root, "imex",
                     {"nvidia-imex", "usr/bin/nvidia-imex", "var/log/nvidia-imex.log", {"IMEX version "}});
}

}  // namespace p5::topo
