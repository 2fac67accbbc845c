#include "bench/app/tuning/tuning.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>

#include "bench/app/machine/files_on_hosts.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/plan.hpp"
#include "bench/model/work.hpp"
#include "tuner/files.hpp"
#include "tuner/table.hpp"

namespace p5 {

namespace {

constexpr Bytes largest_file = MiB(16);

// The file's path and hash.
std::string with_hash(const std::string& path) {
  const std::optional<std::string> content = bytes_of(path);
  return content ? fmt::format("{} (hash {})", path, tuner::fingerprint(*content)) : path + " (not readable)";
}

// The environments in which workers run: of an A/B comparison those of its arms.
std::vector<Environment> environments_of_arms(ControlPlane& control, const Options& options) {
  const Environment of_workers = environment_of_workers(control, options);
  if (options.command != "ab") return {of_workers};
  return {with_changes(of_workers, options.a), with_changes(of_workers, options.b)};
}

// The first variable that ranks describe differently; "" where they do not.
std::string first_difference(const Environment& a, const Environment& b) {
  for (const Environment* const one : {&a, &b})
    for (const auto& [name, value] : *one)
      if (value_or_empty(a, name) != value_or_empty(b, name)) return name;
  return "";
}

}  // namespace

Environment what_decides_calls(const Environment& of_worker, bool tunes) {
  Environment found;
  for (const char* const name : {"NCCL_CONF_FILE", "NCCL_TUNER_CONFIG_FILE"})
    if (const std::string path = value_or_empty(of_worker, name); !path.empty()) found[name] = with_hash(path);
  const auto add_library = [&](const char* name) {
    const std::string library = value_or_empty(of_worker, name);
    // The loader searches for a name, which is not imitated.
    if (!library.empty()) found[name] = library.find('/') == std::string::npos ? library : with_hash(library);
  };
  add_library("NCCL_TUNER_PLUGIN");
  if (!tunes && !found.contains("NCCL_TUNER_PLUGIN")) return found;
  add_library(tuner::chain_variable);
  for (const char* const name : {"P5BENCH_TUNER_HASH", tuner::registered_variable})
    if (const std::string value = value_or_empty(of_worker, name); !value.empty()) found[name] = value;
  for (const char* const hook : tuner::allocator_hooks)
    if (tuner::is_on(value_or_empty(of_worker, hook))) found[hook] = "1";
  return found;
}

std::string difference_of_tuning_files(ControlPlane& control, const Options& options, bool tunes) {
  for (const Environment& each : environments_of_arms(control, options)) {
    const auto describe = [&] { return what_decides_calls(environment_of_nccl(each, read_file), tunes); };
    const std::string found = agree(control, describe, [](const std::vector<Environment>& all) -> std::string {
      for (std::size_t rank = 1; rank < all.size(); ++rank) {
        const std::string name = first_difference(all[0], all[rank]);
        if (name.empty()) continue;
        const auto shown = [&](const Environment& of_rank) {
          const std::string value = value_or_empty(of_rank, name);
          return value.empty() ? fmt::format("no {}", name) : fmt::format("{}={}", name, printable(value));
        };
        return fmt::format(
            "rank {} has other tuning files than rank 0 ({}, against {}): ranks would decide differently, and hang. "
            "Have the same files and variables on all nodes, or unset them",
            rank, shown(all[rank]), shown(all[0]));
      }
      return "";
    });
    if (!found.empty()) return found;
  }
  return "";
}

void refuse_differing_tuning_files(ControlPlane& control, const Options& options) {
  const std::string found = difference_of_tuning_files(control, options, options.requests_tuning());
  if (!found.empty()) throw EnvironmentError(found);
}

namespace {

// The files say once beside which work all of their settings were found, and set one rule for registered buffers.
void refuse_other_heads(const Options& options, const std::string& csv) {
  std::vector<std::string> works;
  for (const Work& work : options.beside) works.push_back(name_of(work));
  const std::string own_works = join(works, " and ");
  const bool own_rule = tuner::rows_decide_registered_calls(environment_of_nccl(current_environment(), read_file));
  const auto refuse = [&](const std::string& its, const std::string& of_this) {
    throw UsageError(
        fmt::format("--keep-table {}: its settings {}, and this tuning is {}; tune both alike, or leave it out",
                    printable(options.keep_table), its, of_this));
  };
  const auto shown = [](const std::string& text) { return text.empty() ? "alone" : "beside " + printable(text); };
  const auto rule = [](bool rows) {
    return fmt::format("for calls on {} ({} {} rows)",
                       rows ? "registered buffers too" : "buffers that are not registered", tuner::registered_variable,
                       rows ? "is" : "is not");
  };
  for (const tuner::TableHead& head : tuner::heads_of_tables(csv)) {
    if (head.works != own_works)
      refuse("were found for operations " + shown(head.works), "for operations " + shown(own_works));
    if (head.registered != own_rule) refuse("are " + rule(head.registered), rule(own_rule));
  }
}

}  // namespace

tuner::KeptTables read_kept_tables(ControlPlane& control, const Options& options) {
  tuner::KeptTables kept;
  if (options.keep_table.empty()) return kept;
  from_leader(control, [&] {
    const std::string text = read_input(options.keep_table, largest_file, "name an nccl-tuner.csv");
    auto parsed = tuner::parse_csv(text);
    if (const auto* const problem = std::get_if<std::string>(&parsed))
      throw UsageError(fmt::format("--keep-table {}: {}", printable(options.keep_table), *problem));
    refuse_other_heads(options, text);
    kept = {std::get<std::vector<tuner::Table>>(std::move(parsed)), tuner::conditions_of_tables(text)};
  });
  return kept;
}

std::vector<std::pair<std::string, std::string>> conditions_of_validity(
    const std::map<std::string, std::string>& software, const topo::Topology& topology, const std::string& group) {
  std::vector<std::pair<std::string, std::string>> conditions;
  for (const auto& [name, value] : software)
    if (name != "nccl.path") conditions.emplace_back(name, value);
  if (!topology.platform.empty()) conditions.emplace_back("platform", topology.platform);
  for (const char* const name : {"nvidia driver", "efa driver", "libfabric", "aws-ofi-nccl"}) {
    std::set<std::string> values;
    for (const topo::Host& host : topology.hosts)
      if (const auto found = host.versions.find(name); found != host.versions.end()) values.insert(found->second);
    if (!values.empty())
      conditions.emplace_back(name, join(std::vector<std::string>(values.begin(), values.end()), " and "));
  }
  if (group != Options{}.group) conditions.emplace_back("--group", group);
  return conditions;
}

std::vector<tuner::Weight> read_weights(ControlPlane& control, const Options& options) {
  if (options.weights.empty()) return {};
  const std::string text = from_leader(control, [&] {
    std::string all = read_input(options.weights, largest_file, "name a file of weights with --weights");
    if (all.empty()) throw UsageError(fmt::format("--weights {}: it is empty", printable(options.weights)));
    tuner::parse_weights(options.weights, all);
    return all;
  });
  return tuner::parse_weights(options.weights, text);
}

namespace {

bool is_named(const std::string& group, const Placement& placement) try {
  make_groups(group, placement);
  return true;
} catch (const UsageError&) {
  return false;
}

}  // namespace

JobToTune job_to_tune(const Options& options, const Replay& replay, const Placement& placement) {
  const std::vector<int> uses = uses_of_works(replay);
  const auto moved = [&](std::size_t at) {
    const Case& c = *replay.works[at].planned;
    return static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.ranks) * uses[at];
  };
  std::map<std::string, double> moved_by;
  double all = 0;
  for (std::size_t at = 0; at < replay.works.size(); ++at) {
    all += moved(at);
    if (tuner::parse_function(replay.works[at].collective->name) && is_named(replay.works[at].group, placement))
      moved_by[replay.works[at].group] += moved(at);
  }
  JobToTune found{.options = options, .weights = {}};
  found.options.job.clear();
  found.options.collectives.clear();
  double searchable = 0;
  for (const auto& [group, bytes] : moved_by) searchable += bytes;
  if (constexpr double worth_saying = 0.005; all > 0 && searchable < (1 - worth_saying) * all)
    found.remarks.push_back(
        fmt::format("for {:.0f} % of the job's bytes no settings are searched: NCCL asks no tuner about their "
                    "operations, or --group has no name for their ranks",
                    100 * (1 - searchable / all)));
  const auto most = std::ranges::max_element(moved_by, {}, [](const auto& each) { return each.second; });
  if (most == moved_by.end() || all <= 0) return found;
  found.options.group = most->first;
  std::set<std::string> names;
  std::set<Bytes> sizes;
  for (std::size_t at = 0; at < replay.works.size(); ++at) {
    const Case& c = *replay.works[at].planned;
    if (replay.works[at].group != most->first || !tuner::parse_function(c.collective->name)) continue;
    DataType& searched = c.collective->reduces ? found.types.reduced : found.types.moved;
    // NVLS does not reduce types of one byte, and rows hold for calls of all types.
    const DataType type = c.collective->reduces && size_of(c.type) == 1 ? DataType::bfloat16 : c.type;
    if (size_of(type) < size_of(searched)) searched = type;
    names.emplace(c.collective->name);
    sizes.insert(c.bytes);
    found.weights.push_back({std::string(c.collective->name), c.bytes.count, moved(at) / all});
  }
  found.options.collectives.assign(names.begin(), names.end());
  found.options.sizes.assign(sizes.begin(), sizes.end());
  found.options.given.insert("--collectives");
  for (const auto& [group, bytes] : moved_by)
    if (group != most->first)
      found.remarks.push_back(fmt::format(
          "settings are searched for the groups {}, which move {:.0f} % of the job's bytes; to search for {} "
          "({:.0f} %) too, run p5bench tune --group {} --keep-table FILE, with the nccl-tuner.csv of this run as FILE",
          most->first, 100 * most->second / all, group, 100 * bytes / all, group));
  return found;
}

std::vector<std::string> tunable(const Options& options, const std::string& mode) {
  const bool all = mode == "full" && options.collectives == Options{}.collectives;
  std::vector<std::string> names;
  for (const std::string& name : all ? collective_names() : options.collectives)
    if (tuner::parse_function(name)) names.push_back(name);
  return names;
}

std::vector<std::string> with_variables(const Options& options, std::vector<std::string> usual) {
  std::vector<std::string> collectives =
      options.collectives == Options{}.collectives ? std::move(usual) : options.collectives;
  std::erase_if(collectives, [](const std::string& name) { return !runs_with_work(find_collective(name)); });
  return collectives;
}

std::vector<Case> make_cases(const Options& options, const Machine& machine, std::uint64_t seed, SearchedTypes types,
                             const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes) {
  Options what;
  (options.gives_sizes() ? what.sizes : what.usual_sizes) = sizes;
  what.group = options.group;
  what.traffic = options.traffic;
  what.traffic_file_content = options.traffic_file_content;
  what.hidden = options.hidden;
  what.allow_shared_gpu = options.allow_shared_gpu;
  what.beside = options.beside;
  JobFacts job = job_facts(machine, seed);
  job.memory_of_rank = std::nullopt;  // what does not fit is left out below
  std::vector<Case> cases;
  for (const bool reduces : {false, true}) {
    what.types = {reduces ? types.reduced : types.moved};
    what.collectives = collectives;
    std::erase_if(what.collectives, [&](const std::string& name) { return find_collective(name).reduces != reduces; });
    if (what.collectives.empty()) continue;
    std::ranges::move(make_plan(what, job, *machine.backend, machine.backend_name).cases, std::back_inserter(cases));
  }
  std::ranges::sort(cases, [](const Case& a, const Case& b) {
    return std::tuple(a.collective->name, a.bytes.count) < std::tuple(b.collective->name, b.bytes.count);
  });
  return cases;
}

std::set<std::string> leave_out_large(std::vector<Case>& cases, const Machine& machine) {
  std::set<std::string> left_out;
  if (!machine.memory_of_rank) return left_out;
  std::erase_if(cases, [&](const Case& c) {
    const bool fits = memory_of(c, *machine.backend).count <= machine.memory_of_rank->count / backends_at_once;
    if (!fits) left_out.insert(describe(c));
    return !fits;
  });
  return left_out;
}

std::vector<Bytes> sizes_of(const Options& options, const TuningLimits& tuning_limits) {
  if (options.sizes.empty()) {
    const Bytes most = options.max_given ? std::min(tuning_limits.max, options.max) : tuning_limits.max;
    std::vector<Bytes> sizes = tuning_limits.small;
    const bool own_min = tuning_limits.beside && options.given.contains("--min");
    std::ranges::move(sizes_between(own_min ? options.min : tuning_limits.min, most, 2), std::back_inserter(sizes));
    std::erase_if(sizes, [&](Bytes size) { return size < options.min || size > most; });
    return sizes;
  }
  std::vector<Bytes> sizes;
  for (const Bytes size : options.sizes)
    if ((size >= tuning_limits.min || tuning_limits.beside) && size <= tuning_limits.max) sizes.push_back(size);
  return sizes;
}

std::set<Communicator> communicator_sizes(const Options& options, const Placement& placement) {
  std::set<Communicator> all;
  for (const Group& group : make_groups(options.group, placement))
    all.insert({static_cast<int>(group.size()), spanned_by(group, placement.domain_of_rank)});
  return all;
}

int hosts_of_communicators(const Options& options, const Placement& placement) {
  if (!placement.has_wide_domains()) return 0;
  int most = 0;
  for (const Group& group : make_groups(options.group, placement))
    most = std::max(most, spanned_by(group, placement.node_of_rank));
  return most;
}

}  // namespace p5
