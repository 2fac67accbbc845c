#include "bench/app/commands/commands.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/console.hpp"
#include "bench/base/text.hpp"
#include "bench/job/analysis.hpp"
#include "bench/job/formats.hpp"
#include "bench/model/job.hpp"
#include "bench/model/measurement.hpp"
#include "reports/atomic_file.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// The files, and of each folder all that lie in it.
std::vector<fs::path> files_of(const std::vector<std::string>& given) {
  std::vector<fs::path> files;
  std::string folder;  // of the folders in those given, if there are any
  for (const std::string& each : given) {
    std::error_code problem;
    if (!fs::is_directory(each, problem)) {
      files.emplace_back(each);
      continue;
    }
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(each, problem), end; !problem && at != end; at.increment(problem)) {
      std::error_code ignored;
      if (at->is_regular_file(ignored)) inside.push_back(at->path());
      if (at->is_directory(ignored))
        folder = std::min(folder.empty() ? at->path().native() : folder, at->path().native());
    }
    if (problem) throw UsageError(fmt::format("'{}' cannot be read: {}", printable(each), problem.message()));
    std::ranges::sort(inside);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  const std::string& first = given.front();
  if (files.empty() && !folder.empty())
    throw UsageError(
        fmt::format("'{}' holds no file, only folders, which are not searched; name the one with the "
                    "job's records, such as '{}'",
                    printable(first), printable(folder)));
  if (files.empty()) throw UsageError(fmt::format("'{}' holds no file", printable(first)));
  return files;
}

// Reads the files into the trace; the format of those that hold calls, and how many they are. Two formats name ranks
// and groups differently, so that the same calls would count twice.
std::pair<std::string_view, std::size_t> read_all(const std::vector<fs::path>& files, job::Trace& trace) {
  constexpr std::size_t most_named = 4;
  std::string_view format;
  std::string first, without;
  std::size_t with_calls = 0, others = 0;
  for (const fs::path& path : files) {
    const std::size_t before = trace.calls_added();
    job::TraceFile file(path);
    const std::string_view read = job::read_trace(file, trace).name;
    if (trace.calls_added() == before) {
      if (++others <= most_named) without += fmt::format("{}'{}'", others == 1 ? "" : ", ", file.name());
      continue;
    }
    if (++with_calls > 1 && read != format)
      throw UsageError(
          fmt::format("'{}' is of {} and '{}' of {}: the same calls would count twice; give the files of one of them",
                      first, format, file.name(), read));
    if (with_calls == 1) format = read, first = file.name();
  }
  if (others > 0 && with_calls > 0)
    trace.remark(fmt::format("no call of a rank is in {} of the {} files: {}{}", others, files.size(), without,
                             others > most_named ? ", ..." : ""));
  return {format, with_calls};
}

// Limits of the machine that the job ran on, as far as it was named.
class MachineLimits {
 public:
  MachineLimits(const std::string& platform, const Job& job) {
    if (platform.empty()) return;
    const topo::Platform& named = topo::find_platform(platform);
    platform_ = &named;
    const int nodes =
        job.node_of_rank.empty() ? (job.ranks + named.gpus - 1) / named.gpus : count_nodes(job.node_of_rank);
    topology_ = topo::synthetic(named, std::max(nodes, 1));
    if (!job.node_of_rank.empty()) placement_ = placement_of(job.node_of_rank, topo::domains_of_hosts(topology_));
    limits_ = topo::limits_of(named);
    for (topo::Limit& each : topo::published_limits(named, nodes)) limits_.push_back(std::move(each));
  }

  // NVLink domains of several hosts, of each rank; empty where there are none.
  DomainOfRank domains() const {
    return placement_ && placement_->has_wide_domains() ? placement_->domain_of_rank : DomainOfRank{};
  }

  // "93 % of achievable (nvlink)"; "" where it is not known.
  std::string share_of(const JobUse& use) const {
    const JobOperation& each = use.operation;
    if (!use.fastest || limits_.empty() || each.ranks < 2 || use.fastest->count <= 0) return "";
    Measurement m;
    Case& c = m.measured_case;
    c.backend = "nccl";
    c.collective = each.collective;
    c.bytes = each.bytes;
    c.bytes_per_rank = each.bytes;
    c.type = each.type.value_or(c.type);
    c.op = each.op;
    c.group = each.group.empty() ? "part" : each.group;
    c.ranks = each.ranks;
    if (!placement_) return "";
    const Round groups = each.group.empty() ? each.groups : make_groups(each.group, *placement_);
    if (groups.empty()) return "";
    set_span(c, groups.front(), *placement_);
    if (c.collective->pairwise) {
      c.pattern = "one_way";
      c.pair = c.nodes == 1      ? "same_node"
               : !c.domains      ? "other_node"
               : *c.domains == 1 ? "same_domain"
                                 : "other_domain";
    }
    m.throughput.emplace();
    m.throughput->summary.median = use.fastest->count / use.count;
    reports::Verdict verdict = reports::judge(m, limits_, topology_, {});
    // The record does not say what NCCL chose: the limit is that of the faster way.
    if (reports::may_reduce_in_switch(*platform_, c)) {
      m.selection = Selection{"nvls_tree", "", 0, ""};
      const reports::Verdict in_switch = reports::judge(m, limits_, topology_, {});
      if (in_switch.limit && (!verdict.limit || verdict.limit->count < in_switch.limit->count)) verdict = in_switch;
    }
    if (!verdict.fraction) return "";
    return fmt::format("{:.0f} % of {} ({})", *verdict.fraction * 100, verdict.level, verdict.binding);
  }

 private:
  static Placement placement_of(const NodeOfRank& node_of_rank, const std::vector<int>& domain_of_node) {
    DomainOfRank domains;
    for (const int node : node_of_rank) domains.push_back(domain_of_node.at(static_cast<std::size_t>(node)));
    return {node_of_rank, std::move(domains)};
  }

  const topo::Platform* platform_ = nullptr;  // null: not named, and no limit is known
  std::optional<Placement> placement_;        // null: the recording does not say on which host a rank was
  topo::Topology topology_;
  topo::Limits limits_;
};

// Where hosts of the platform share NVLink domains, which a recording does not say.
std::string about_domains(const Job& job, const std::string& platform) {
  if (platform.empty() || job.node_of_rank.empty() || count_nodes(job.node_of_rank) < 2) return "";
  const int wide = topo::find_platform(platform).nodes_per_domain;
  if (wide < 2) return "";
  return fmt::format(
      "NVLink domains: the recording does not name them; each {} hosts are taken for one, in the order "
      "of their ranks\n",
      wide);
}

std::string time_text(const std::optional<Seconds>& time) {
  return time ? fmt::format("{:.3f}", time->count * 1e3) : "-";
}

std::string bus_rate(const JobUse& use) {
  const JobOperation& each = use.operation;
  if (!use.fastest || use.fastest->count <= 0) return "-";
  const double seconds = use.fastest->count / use.count;
  return fmt::format("{:.1f}",
                     static_cast<double>(each.bytes.count) / seconds * 1e-9 * each.collective->bus_factor(each.ranks));
}

std::string table_of(const Job& job, const std::string& platform) {
  const MachineLimits limits(platform, job);
  const std::vector<JobUse> uses = uses_of(job, limits.domains());
  double total = 0;
  bool timed = !uses.empty();
  for (const JobUse& use : uses) {
    timed = timed && use.time;
    total += use.time ? use.time->count : 0;
  }
  std::size_t widest = 22;
  for (const JobUse& use : uses) widest = std::max(widest, use.group.size());
  const std::string row =
      fmt::format("{{:<15}} {{:>10}} {{:<9}} {{:<{}}} {{:>6}} {{:>9}} {{:>9}} {{:>8}} {{:>9}} {{:>9}}  {{}}\n", widest);
  std::string text = fmt::format(fmt::runtime(row), "collective", "bytes", "type", "group", "a step", "ms", "of comm.",
                                 "waiting", "computing", "bus GB/s", "of its limit");
  for (const JobUse& use : uses) {
    const JobOperation& each = use.operation;
    const std::string limit = limits.share_of(use);
    const bool waits = use.time && use.fastest && use.time->count > 0;
    const bool computes = use.computed && use.fastest && use.fastest->count > 0;
    text +=
        fmt::format(fmt::runtime(row), each.collective->name, to_text(each.bytes),
                    each.type ? name_of(*each.type) : std::string_view("-"), use.group, use.count, time_text(use.time),
                    timed && total > 0 ? fmt::format("{:.1f} %", use.time->count / total * 100) : "-",
                    waits ? fmt::format("{:.0f} %", 100 * (1 - use.fastest->count / use.time->count)) : "-",
                    computes ? fmt::format("{:.0f} %", 100 * use.computed->count / use.fastest->count) : "-",
                    bus_rate(use), limit.empty() ? "unknown" : limit);
  }
  return text;
}

std::string summary_of(const Job& job, std::string_view format, std::size_t files) {
  double time = 0;
  bool timed = true;
  for (const JobOperation& each : job.operations) {
    timed = timed && each.time;
    time += each.time ? each.time->count : 0;
  }
  std::string text = fmt::format("{} ranks", job.ranks);
  if (!job.node_of_rank.empty()) text += fmt::format(" on {} hosts", count_nodes(job.node_of_rank));
  text += fmt::format(", {} operations a step, {} of it recorded ({} {} of {})", job.operations.size(),
                      job.steps == 1 ? "one" : fmt::format("{} repetitions", job.steps), files,
                      files == 1 ? "file" : "files", format);
  if (job.step) text += fmt::format("; {:.3f} ms a step", job.step->count * 1e3);
  if (timed && time > 0) {
    text += fmt::format("{} {:.3f} ms of communication", job.step ? "," : ";", time * 1e3);
    if (job.step && job.step->count > 0)
      text += fmt::format(" ({:.0f} %; more than 100 % overlaps)", time / job.step->count * 100);
  }
  return text + "\n";
}

}  // namespace

ExitCode import_job(const Request& request) {
  const Options& options = request.options;
  job::Trace trace;
  const std::vector<fs::path> files = files_of(options.import_files);
  const auto [format, files_with_calls] = read_all(files, trace);
  job::join_messages(trace);
  try {
    trace.finish();
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format(
        "{}: {}",
        in_quotes(files.front().string()) + (files.size() == 1 ? "" : fmt::format(" and {} more", files.size() - 1)),
        problem.what()));
  }
  const job::Analysis analysis = job::analyse(std::move(trace), options.import_hosts);
  const Job& found = analysis.job;

  // A wrong --platform is refused before any file is made.
  std::string text = summary_of(found, format, files_with_calls) + "\n" + table_of(found, options.platform) + "\n" +
                     about_domains(found, options.platform);
  const fs::path folder = new_folder_of_import(options, files.front());
  std::vector<fs::path> written{folder / "job.json", folder / "weights.txt"};
  reports::write_atomically(written[0], to_json(found).dump() + "\n");
  reports::write_atomically(written[1], job::weights_of(found));
  for (const job::TrafficOfGroups& each : analysis.traffic) {
    std::string name = each.name;
    for (char& c : name)
      if (c == ':' || c == ' ') c = '-';
    std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
    written.push_back(folder / fmt::format("traffic-{}.csv", name));
    reports::write_atomically(written.back(), job::traffic_csv(each));
  }
  for (const std::string& remark : found.remarks) text += printable(remark) + "\n";
  for (const fs::path& path : written) text += printable(path.string()) + "\n";
  const bool computes = std::ranges::any_of(
      found.operations, [](const JobOperation& each) { return each.computed && each.computed->count > 0; });
  text += fmt::format("The step again, with these ranks{}: mpirun -np {} p5bench tune --job {}{}\n",
                      computes ? ", and matrix products for what the GPUs computed" : "", found.ranks,
                      printable(for_shell(written.front().string())), computes ? " --gaps gemm" : "");
  return print_result_for(ExitCode::ok, text);
}

}  // namespace p5
