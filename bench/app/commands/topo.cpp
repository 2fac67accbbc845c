// p5bench topo: what the machine is, live or recorded; checked, printed, kept. Measures nothing.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/base/console.hpp"
#include "bench/base/embedded.hpp"
#include "bench/base/input.hpp"
#include "bench/base/text.hpp"
#include "bench/model/agreement.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"
#include "topo/finding.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view recording_schema = "p5bench.topology/1";
constexpr Bytes largest_topology = MiB(64);

topo::Topology of_one(topo::Host host) {
  topo::Topology topology;
  topology.hosts.push_back(std::move(host));
  return topology;
}

topo::Topology topology_in(const std::string& path) {
  constexpr const char* remedy = "record one with 'p5bench topo --record FILE'";
  const std::string text = read_input(path, largest_topology, remedy);
  try {
    if (!is_utf8(text)) throw UsageError("it is not in UTF-8");
    if (topo::is_nccl_xml(text)) return topo::topology_from_nccl_xml(text, fs::path(path).stem());
    if (const std::size_t first = text.find_first_not_of(" \t\r\n"); first != std::string::npos && text[first] == '<')
      return of_one(topo::host_from_hwloc_xml(text, fs::path(path).stem()));
    if (const std::string head = text.substr(0, text.find('\n'));
        head.find("GPU0") != std::string::npos && head.find("Affinity") != std::string::npos)
      throw UsageError(
          "it is what 'nvidia-smi topo -m' prints, which has no places on PCI and no rates; give what NCCL "
          "writes (NCCL_TOPO_DUMP_FILE=FILE in a job) or 'lstopo --of xml FILE'");
    const json j = parse_json(text);
    return topo::topology_from_json(j.is_object() && j.contains("topology") ? j.at("topology") : j);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--load: '{}' is no topology: {}; {}", printable(path), problem.what(), remedy));
  }
}

// Throws UsageError naming a file in a copy of /proc and /sys that is none, such as a pipe: hwloc would read it for
// ever.
void require_regular_files(const fs::path& copy) {
  std::error_code problem;
  const auto require_regular = [](const fs::directory_entry& entry) {
    std::error_code unknown;  // of a link to nothing
    if (!fs::is_other(entry.status(unknown))) return;
    throw UsageError(fmt::format("--load: '{}' is no regular file; copy what the machine's file of this name has in it",
                                 printable(entry.path().native())));
  };
  for (const char* const folder : {"proc", "proc/self"})
    for (fs::directory_iterator at(copy / folder, problem), end; !problem && at != end; at.increment(problem))
      require_regular(*at);
  constexpr auto all_readable = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(copy / "sys", all_readable, problem), end; !problem && at != end;
       at.increment(problem))
    require_regular(*at);
}

// The file that --load means in a run's folder; other paths as they are.
std::string loaded_file(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem) || fs::exists(fs::path(path) / "sys", problem)) return path;
  for (const char* const name : {"topology.json", "report.json"})
    if (const fs::path file = fs::path(path) / name; fs::exists(file, problem)) return file.string();
  throw UsageError(fmt::format("--load: the folder '{}' is of no run, and has no 'sys'; copy /proc and /sys into it",
                               printable(path)));
}

// Reads a recording, a run's topology.json or report.json or its folder, hwloc's or NCCL's XML, or a folder with copies
// of /proc and /sys.
topo::Topology load_topology(const std::string& given) {
  std::error_code problem;
  topo::Topology topology;
  const std::string path = loaded_file(given);
  if (fs::is_directory(path, problem)) {
    require_regular_files(path);
    topology = of_one(topo::discover_host(fs::absolute(path).string()));
  } else {
    topology = topology_in(path);
  }
  if (topology.provenance == "discovered") topology.provenance = "recorded";
  return topology;
}

// hwloc's XML of each host from its first rank, at the leader.
json hwloc_of_hosts(ControlPlane& control, const topo::Topology& topology) {
  std::string xml;
  try {
    if (is_first_on_host(control, topology)) xml = topo::hwloc_xml();
  } catch (const EnvironmentError&) {  // a recording without it is still useful
  }
  json all = json::object();
  const std::vector<std::string> texts = control.gather(xml);
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) all[host_of_rank(topology, rank).name] = texts[rank];
  return all;
}

bool looks_around(const Options& options) { return !simulates(options) && options.load_file.empty(); }

// The topology that the options select; complete at the leader only.
topo::Topology find_topology(const Request& request) {
  const Options& options = request.options;
  topo::Topology topology;
  if (simulates(options))
    topology = topo::synthetic(topo::find_platform(options.platform), options.nodes);
  else if (!options.load_file.empty())
    from_leader(request.control, [&] {
      // Names in a copied folder may have any encoding.
      topology = topo::topology_from_json(
          json::parse(to_json(load_topology(options.load_file)).dump(-1, ' ', false, json::error_handler_t::replace)));
    });
  else
    topology = discover_cluster(request.control, probes_of_workers(request.control, options));
  if (!options.platform.empty())
    from_leader(request.control,
                [&] { topology.platform = topo::platform_named_for(topology, options.platform).name; });
  else if (topology.platform.empty())
    if (const topo::Platform* const own = topo::platform_of_most(topology.hosts); own && own->network == "efa")
      topology.platform = own->name;
  return topology;
}

// Checks before any work that requested files can be written, and that none of them replaces another, the input or a
// file of a run.
void check_targets(const Options& options) {
  const std::string input = options.load_file.empty() ? "" : loaded_file(options.load_file);
  using Named = std::pair<const char*, const std::string*>;
  std::map<fs::path, Named> at_place;
  for (const auto& [option, file] :
       {Named("--load", &input), Named("--record", &options.record_file), Named("--rankfile", &options.rank_file)}) {
    if (file->empty()) continue;
    std::error_code problem;
    const fs::path place = fs::weakly_canonical(fs::absolute(*file), problem);
    const auto [other, fresh] = at_place.try_emplace(problem ? fs::absolute(*file) : place, option, file);
    if (!fresh)
      throw UsageError(fmt::format("{} and {} name the same file, '{}'; name another", option, other->second.first,
                                   printable(*other->second.second)));
    if (file == &input) continue;
    require_no_file_of_run(option, *file);
    reports::check_writable(*file);
  }
}

json binding_json(const topo::Binding& binding, const topo::Topology& topology) {
  const topo::Host& host = topology.hosts[static_cast<std::size_t>(binding.host)];
  return {{"rank", binding.rank},
          {"host", host.name},
          {"gpu", binding.gpu < 0 ? json() : json(binding.gpu)},
          {"uuid", binding.gpu < 0 ? "" : host.gpu_devices[static_cast<std::size_t>(binding.gpu)].uuid},
          {"nics", binding.nics},
          {"numa_node", binding.numa_node < 0 ? json() : json(binding.numa_node)},
          {"cores", binding.cores}};
}

std::string shown(const Options& options, const topo::Topology& topology, const std::vector<topo::Finding>& findings,
                  const std::vector<topo::Binding>& bindings) {
  // Prints to the terminal by default.
  const bool as_json = options.formats == std::vector<std::string>{"json"};
  if (!as_json) return reports::render_topology(topology, findings, bindings);
  json bound = json::array();
  for (const topo::Binding& binding : bindings) bound.push_back(binding_json(binding, topology));
  return json{{"schema", recording_schema},
              {"topology", to_json(topology)},
              {"findings", to_json(findings)},
              {"bindings", std::move(bound)}}
             .dump(2, ' ', true, json::error_handler_t::replace) +
         "\n";
}

}  // namespace

ExitCode topo_command(const Request& request) {
  ControlPlane& control = request.control;
  const Options& options = request.options;
  from_leader(control, [&] { check_targets(options); });
  const topo::Topology topology = find_topology(request);
  const bool live = looks_around(options);
  const json hwloc = live && !options.record_file.empty() ? hwloc_of_hosts(control, topology) : json::object();
  std::string text;  // at the leader
  from_leader(control, [&] {
    const char* const visible = live ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
    const std::vector<topo::Finding> findings = look(topology);
    const std::vector<topo::Binding> bindings = topo::bindings(topo::with_ranks_of_job(topology), visible);
    if (!options.rank_file.empty()) reports::write_atomically(options.rank_file, topo::rank_file(bindings, topology));
    if (!options.record_file.empty())
      reports::write_atomically(options.record_file, json{{"schema", recording_schema},
                                                          {"version", version()},
                                                          {"topology", to_json(topology)},
                                                          {"findings", to_json(findings)},
                                                          {"hwloc_xml", hwloc}}
                                                         .dump(1, ' ', true, json::error_handler_t::replace));
    text = shown(options, topology, findings, bindings);
  });
  return print_result_for(ExitCode::ok, text);
}

}  // namespace p5
