#include "bench/model/plan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/case.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/job.hpp"
#include "bench/model/pattern.hpp"
#include "bench/model/tokens.hpp"
#include "bench/model/traffic.hpp"

namespace p5 {

namespace {

// Fraction of a host's available memory for buffers; the rest is for MPI, the library and the system.
constexpr double host_memory_share = 0.8;

// A report lists each measured pair; cases with more pairs than about this are sampled.
constexpr int most_pairs = 16384;

double as_double(Bytes size) { return static_cast<double>(size.count); }

// No machine holds a larger message (64 PiB), and sums of larger sizes would overflow 64 bits.
constexpr Bytes largest_message{std::uint64_t{1} << 56};

void check_largest_size(const std::vector<Bytes>& sizes, bool per_rank, int ranks) {
  const std::uint64_t parts = per_rank ? static_cast<std::uint64_t>(ranks) : 1;
  for (Bytes size : sizes)
    if (size.count > largest_message.count / parts)
      throw UsageError(fmt::format("a size of {}{} is beyond every machine; lower --max or --sizes", to_text(size),
                                   per_rank ? fmt::format(" a rank for {} ranks", ranks) : ""));
}

void check_call_options(const CallOptions& calls, const BackendInfo& info) {
  for (const CallOption& each : call_options()) {
    if (each.value(calls).empty() || info.has(each)) continue;
    std::vector<std::string> others;
    for (const BackendInfo& other : backend_table())
      if (other.has(each)) others.push_back(other.name);
    throw UsageError(fmt::format("{} is for the {} backend{}: {} has no {}; leave it out", each.option,
                                 join(others, " and "), others.size() > 1 ? "s" : "", info.name, each.what));
  }
}

// The root counts within each group. `where` names the group for messages: "--group node".
void check_root(int root, bool every_root, const Collective& collective, const Round& groups,
                const std::string& where) {
  if (!collective.rooted) return;
  const std::size_t smallest = std::ranges::min_element(groups, {}, &Group::size)->size();
  if (every_root && !are_of_one_size(groups))
    throw UsageError(fmt::format("--root all is for groups of one size, and those of {} differ; give --root N", where));
  if (static_cast<std::size_t>(root) >= smallest)
    throw UsageError(fmt::format("--root {}: the smallest group of {} has ranks 0 to {}", root, where, smallest - 1));
}

void check_group_sizes(const Collective& collective, const Round& groups, const std::string& option,
                       const std::string& where) {
  for (const Group& group : groups)
    if (collective.powers_of_two && !std::has_single_bit(group.size()))
      throw UsageError(
          fmt::format("{}: {} takes groups of 1, 2, 4, 8, ... ranks, and one of {} has {}; start another number of "
                      "ranks or leave it out",
                      option, collective.name, where, group.size()));
}

// Throws UsageError for work that the backend or this job cannot do.
void check_work(const Work& work, const Options& options, const JobFacts& job, const BackendInfo& info) {
  const std::string name = name_of(work);
  if (!info.runs_beside) throw UsageError(beside_error(info, name));
  if (!work.collective) return;
  Round groups;
  try {
    groups = make_groups(work.group, job.placement());
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--beside {}: {}", name, problem.what()));
  }
  if (work.collective->of_tokens && !are_of_one_size(groups))
    throw UsageError(fmt::format("--beside {}: tokens go around groups of one size; name another group", name));
  check_root(options.root, false, *work.collective, groups, "--beside " + name);
  check_group_sizes(*work.collective, groups, "--beside " + name, "its groups");
  if (std::ranges::max_element(groups, {}, &Group::size)->size() < 2)
    throw UsageError(
        fmt::format("--beside {}: each group has a single rank, which does not communicate; name another group", name));
}

// The matrices that blocks follow, in collectives with a matrix: that of --traffic, with the routing of its tokens if
// it has tokens, or those of both usual routings.
struct Traffics {
  std::shared_ptr<const MatrixTraffic> matrix = nullptr;
  std::vector<std::shared_ptr<const MatrixTraffic>> of_tokens = {};
};

// For the groups, which must be of one size.
Traffics make_traffics(const Options& options, const Round& groups) try {
  const auto wants = [&](const auto& kind) {
    return std::ranges::any_of(options.collectives,
                               [&](const std::string& name) { return kind(find_collective(name)); });
  };
  const bool wants_tokens = wants([](const Collective& each) { return each.of_tokens; });
  const std::size_t ranks = groups.front().size();
  if (options.traffic.empty() && (!wants_tokens || ranks < 2)) return {};
  if (!are_of_one_size(groups))
    throw UsageError(fmt::format("a matrix is for groups of one size, and those of --group {} differ", options.group));
  if (ranks < 2) throw UsageError("a group of one rank sends nothing; start more ranks");
  if (ranks > most_ranks_of_traffic)
    throw UsageError(
        fmt::format("a matrix is for at most {} ranks, and a group has {}; make smaller groups with --group",
                    most_ranks_of_traffic, ranks));
  const auto n = static_cast<int>(ranks);
  Traffics made;
  if (wants_tokens)
    for (const std::string& text : options.traffic.empty() ? usual_routings(n) : std::vector{options.traffic})
      made.of_tokens.push_back(std::make_shared<const MatrixTraffic>(route_tokens(text, n)));
  if (!options.traffic.empty() && wants([](const Collective& each) { return each.by_traffic && !each.of_tokens; }))
    made.matrix = std::make_shared<const MatrixTraffic>(
        is_generated(options.traffic) ? generate_traffic(options.traffic, n)
                                      : traffic_from_csv(options.traffic, options.traffic_file_content, n));
  return made;
} catch (const UsageError& problem) {
  throw UsageError(fmt::format(
      "{}: {}", options.traffic.empty() ? "--collectives " + join(options.collectives) : "--traffic", problem.what()));
}

struct PlanBuilder {
  const Options& options;
  const JobFacts& job;
  const Backend& backend;
  const BackendInfo& info;
  Traffics traffics = {};
  Plan plan{};

  int ranks() const { return static_cast<int>(job.node_of_rank.size()); }

  Placement placement = job.placement();

  // The part of a case that all sizes of a collective share.
  Case base_case(const Collective& collective, DataType type) const {
    Case c;
    c.backend = info.name;
    c.collective = &collective;
    c.type = type;
    c.every_root = collective.rooted && options.every_root;
    if (collective.rooted && !c.every_root) c.root = options.root;
    c.in_place = options.in_place && collective.in_place_offset;
    c.calls = options.calls;
    return c;
  }

  Case with_rounds(Case c, std::shared_ptr<const std::vector<Round>> rounds) const {
    const Group* widest = nullptr;
    for (const Round& round : *rounds)
      for (const Group& group : round)
        if (!widest || group.size() > widest->size()) widest = &group;
    c.ranks = static_cast<int>(widest->size());
    set_span(c, *widest, placement);
    c.rounds = std::move(rounds);
    return c;
  }

  static Case with_shape(Case c, Shape shape) {
    c.shape = std::move(shape);
    c.bytes = c.shape.bytes;
    c.bytes_per_rank = c.shape.bytes_per_rank;
    return c;
  }

  Case make(const Case& like, Bytes size, std::shared_ptr<const std::vector<Round>> rounds) const {
    Case c = with_rounds(like, std::move(rounds));
    Shape shape = like.shape.traffic ? c.collective->by_traffic(like.shape.traffic, size, size_of(c.type))
                                     : c.collective->shape(size, options.per_rank, size_of(c.type), c.ranks);
    return with_shape(std::move(c), std::move(shape));
  }

  // The work with the collective's case, which has the type and the operation of `of`.
  Work planned(Work work, const Case& of) const {
    if (!work.collective) return work;
    Case c = base_case(*work.collective, of.type);
    c.in_place = false;
    c.calls = {};
    c.group = work.group;
    if (work.collective->reduces) c.op = of.op.value_or(options.ops.front());
    c = with_rounds(std::move(c), std::make_shared<const std::vector<Round>>(1, make_groups(work.group, placement)));
    Shape shape = c.collective->shape(work.bytes, false, size_of(c.type), c.ranks);
    work.planned = std::make_shared<const Case>(with_shape(std::move(c), std::move(shape)));
    return work;
  }

  using Rounds = std::shared_ptr<const std::vector<Round>>;
  using RoundsOfSize = std::function<Rounds(Bytes)>;

  // All sizes of one collective, pattern and type; sizes that round to the same message once.
  void add_sizes(const std::vector<Bytes>& sizes, const Case& like, const RoundsOfSize& rounds_of) {
    std::set<std::uint64_t> seen;
    for (Bytes size : sizes)
      if (Case c = make(like, size, rounds_of(size)); seen.insert(c.bytes.count).second)
        plan.cases.push_back(std::move(c));
  }

  // The share of links between nodes that are measured, for a remark.
  std::string coverage(const std::vector<Round>& rounds) const {
    std::set<std::pair<int, int>> met;
    for (const Round& round : rounds)
      for (const Group& pair : round)
        met.insert(std::minmax(job.node_of_rank[static_cast<std::size_t>(pair[0])],
                               job.node_of_rank[static_cast<std::size_t>(pair[1])]));
    const auto nodes = static_cast<std::size_t>(count_nodes(job.node_of_rank));
    const std::size_t all = nodes * (nodes - 1) / 2;
    return fmt::format("of {} pairs of nodes {} meet ({:.0f} %), and only between those is a slow link seen", all,
                       met.size(), 100.0 * static_cast<double>(met.size()) / static_cast<double>(all));
  }

  // Why a device-initiated collective cannot be measured as the options want it; "" if it can.
  std::string no_device_initiated(const Round& groups) const {
    if (info.parts != BackendInfo::Parts::gpus)
      return fmt::format("the {} backend has no kernels on GPUs; --backend nccl has, and sim as a model", info.name);
    const auto domain = [&](int rank) { return placement.domain_of_rank[static_cast<std::size_t>(rank)]; };
    for (const Group& group : groups)
      if (std::ranges::any_of(group, [&](int rank) { return domain(rank) != domain(group.front()); }))
        return fmt::format("GPUs reach each other's memory within an NVLink domain only; --group {} has such groups",
                           placement.has_wide_domains() ? "domain" : "node");
    return "";
  }

  bool performs_together(const Collective& collective, std::string_view pattern) const {
    return options.calls.aggregate == 1 || collective.fits_a_group(pattern);
  }

  void add_pairs(const std::vector<Bytes>& sizes, const Collective& collective) {
    for (const std::string& pattern : collective.patterns)
      if (!performs_together(collective, pattern))
        plan.remarks.push_back(
            fmt::format("{} {}: left out, several of them cannot be one group", collective.name, pattern));
    const int most_rounds = std::clamp(2 * most_pairs / std::max(ranks(), 1), 8, 64);
    const PairRounds all = all_pairs(placement, most_rounds, job.seed), few = sample_pairs(placement);
    if (all.sampled && !options.within_nodes) {
      std::vector<Round> drawn = all.same_domain;
      std::ranges::copy(all.other_domain, std::back_inserter(drawn));
      plan.remarks.push_back(
          fmt::format("p2p: {} ranks have too many pairs to measure all; {} rounds of pairs on different nodes were "
                      "drawn with the seed: {}",
                      ranks(), drawn.size(), coverage(drawn)));
    }
    if (!all.same_node.empty() && !job.within_nodes) {
      const bool others = !all.other_domain.empty();
      plan.remarks.push_back(fmt::format("p2p: pairs within a node {}: these NICs have no loopback",
                                         others ? "left out" : "say nothing of its NICs"));
      if (!others) add_pairs_of_kind(sizes, collective, "same_node", all.same_node, few.same_node, false);
    } else {
      add_pairs_of_kind(sizes, collective, "same_node", all.same_node, few.same_node, false);
    }
    if (options.within_nodes) return;
    add_pairs_of_kind(sizes, collective, "same_domain", all.same_domain, few.same_domain, all.sampled);
    add_pairs_of_kind(sizes, collective, placement.has_wide_domains() ? "other_domain" : "other_node", all.other_domain,
                      few.other_domain, all.sampled);
  }

  // The communicators of whole nodes, which the pairs within nodes share in a `check`, whose messages are large. Null
  // if NCCL would give pairs other channels there than in communicators of their own, or if ranks pause.
  std::shared_ptr<const Round> shared_communicators(const std::vector<Round>& rounds) const {
    if (!options.within_nodes || !job.gpus_alike || info.parts != BackendInfo::Parts::gpus) return nullptr;
    const auto all_take_part = [&](const Round& round) { return std::cmp_equal(2 * round.size(), ranks()); };
    if (!std::ranges::all_of(rounds, all_take_part)) return nullptr;
    return std::make_shared<const Round>(make_groups("node", placement));
  }

  void add_pairs_of_kind(const std::vector<Bytes>& sizes, const Collective& collective, const std::string& kind,
                         const std::vector<Round>& all, const std::vector<Round>& few, bool sampled) {
    if (few.empty()) return;
    // All pairs run at the sizes that show latency, the change to bandwidth, and bandwidth; one pair at the others.
    std::set<std::uint64_t> all_pairs_sizes{sizes.front().count};
    for (Bytes target : {MiB(1), kind.starts_with("same") ? MiB(512) : MiB(256)})
      all_pairs_sizes.insert(nearest_size(sizes, target).count);
    if (options.within_nodes) all_pairs_sizes.insert(sizes.back().count);
    for (const std::string& pattern : collective.patterns) {
      if (!performs_together(collective, pattern)) continue;
      const bool directed = pattern == "one_way";
      const auto of_all = std::make_shared<std::vector<Round>>(directed ? both_directions(all) : all);
      // One pair shows how the time grows with the size; its direction does not matter.
      const auto of_few = std::make_shared<std::vector<Round>>(few);
      for (DataType type : options.types) {
        Case like = base_case(collective, type);
        like.pattern = pattern;
        like.pair = kind;
        if (kind == "same_node") like.communicators = shared_communicators(all);
        const std::size_t first = plan.cases.size();
        add_sizes(sizes_of_pattern(sizes, all_pairs_sizes, pattern), like,
                  [&](Bytes size) { return all_pairs_sizes.contains(size.count) ? of_all : of_few; });
        for (std::size_t at = first; at < plan.cases.size(); ++at)
          plan.cases[at].pairs_sampled = sampled && plan.cases[at].rounds == of_all;
      }
    }
  }

  // A default run takes the curve of one pair from one_way and its latency from ping_pong; both_ways runs only where
  // all pairs are measured. With an explicit p2p all patterns run at all sizes.
  std::vector<Bytes> sizes_of_pattern(const std::vector<Bytes>& sizes, const std::set<std::uint64_t>& all_pairs_sizes,
                                      const std::string& pattern) const {
    if (pattern == "one_way" || !options.sizes.empty() || options.within_nodes ||
        options.collectives != Options{}.collectives)
      return sizes;
    std::vector<Bytes> selected;
    std::ranges::copy_if(sizes, std::back_inserter(selected), [&](Bytes size) {
      return all_pairs_sizes.contains(size.count) || (pattern == "ping_pong" && size <= latency_up_to);
    });
    return selected;
  }

  static Bytes nearest_size(const std::vector<Bytes>& sizes, Bytes target) {
    return *std::ranges::min_element(sizes, {}, [&](Bytes size) {
      return std::abs(std::log(static_cast<double>(size.count) / static_cast<double>(target.count)));
    });
  }

  // The number that an interval needs. Several launches are repetitions already; with several groups the slowest one
  // may change between repetitions; several types or operations are requested for correctness more than speed.
  std::size_t repetitions_per_launch(const Round& groups) const {
    constexpr int wanted = 6;
    if (groups.size() > 1 || options.soak.count > 0 || !options.beside.empty() ||
        options.types.size() * options.ops.size() > 1)
      return 1;
    return static_cast<std::size_t>((wanted + options.launches - 1) / std::max(options.launches, 1));
  }

  // Without explicit sizes a traffic file determines the number of bytes, and the routing of tokens with --hidden the
  // number of elements.
  std::vector<Bytes> sizes_of(const Case& like, const std::vector<Bytes>& wanted) const {
    const MatrixTraffic* const traffic = like.shape.traffic.get();
    if (!traffic || options.gives_sizes()) return wanted;
    if (like.collective->of_tokens)
      return {{traffic->busiest * static_cast<std::uint64_t>(options.hidden) * size_of(like.type)}};
    return traffic->counts_bytes ? std::vector<Bytes>{{traffic->busiest}} : wanted;
  }

  // The matrices that the collective is measured with; null: its own blocks.
  std::vector<std::shared_ptr<const MatrixTraffic>> traffics_of(const Collective& collective) const {
    if (collective.of_tokens) return traffics.of_tokens;
    return {collective.by_traffic ? traffics.matrix : nullptr};
  }

  std::vector<DataType> types_of(const Collective& collective) const {
    const bool named = options.given.contains("--type") || options.types != Options{}.types;
    return named ? options.types : std::vector{collective.usual_type};
  }

  std::vector<Work> planned_works(const Case& beside) const {
    std::vector<Work> works;
    for (const Work& work : options.beside) works.push_back(planned(work, beside));
    return works;
  }

  void add_groups(const std::vector<Bytes>& wanted, const Collective& collective, const std::string& group,
                  const Round& groups) {
    for (const std::shared_ptr<const MatrixTraffic>& traffic : traffics_of(collective))
      for (DataType type : types_of(collective)) {
        Case like = base_case(collective, type);
        like.group = group;
        like.shape.traffic = traffic;
        add_operations(sizes_of(like, wanted), like, groups);
      }
  }

  // All operations of a collective that reduces.
  void add_operations(const std::vector<Bytes>& sizes, Case like, const Round& groups) {
    const auto once = std::make_shared<const std::vector<Round>>(std::vector<Round>{groups});
    const auto again = std::make_shared<const std::vector<Round>>(repetitions_per_launch(groups), groups);
    const auto of_each_root = std::make_shared<const std::vector<Round>>(groups.front().size(), groups);
    const bool has_few_tokens =
        like.collective->of_tokens && std::cmp_less_equal(like.shape.traffic->routing->tokens, latency_up_to_tokens);
    const auto rounds = [&](Bytes size) {
      if (options.every_root && like.collective->rooted) return of_each_root;
      return size <= latency_up_to || has_few_tokens ? again : once;
    };
    const auto most_members = static_cast<int>(std::ranges::max_element(groups, {}, &Group::size)->size());
    const auto add = [&](Case c) {
      c.beside = planned_works(c);
      int averaged = c.op == ReduceOp::avg ? most_members : 0;
      for (const Work& work : c.beside)
        if (work.planned && work.planned->op == ReduceOp::avg) averaged = std::max(averaged, work.planned->ranks);
      const int terms = most_terms(*c.collective, c.shape);
      if (averaged > most_ranks_of_average(c.type))
        plan.remarks.push_back(fmt::format("{} avg of {}: left out, the type cannot hold 1/{}", operation_of(c),
                                           name_of(c.type), averaged));
      else if (terms > most_terms(c.type))
        plan.remarks.push_back(fmt::format("{} of {}: left out, the type cannot hold sums of {} exactly",
                                           operation_of(c), name_of(c.type), terms));
      else
        add_sizes(sizes, c, rounds);
    };
    if (!like.collective->reduces) return add(like);
    for (ReduceOp op : options.ops) {
      like.op = op;
      add(like);
    }
  }

  // Each node by itself, all at the same time, and each NVLink domain of several nodes: in the whole job a slow one
  // hides behind its NICs. Only GPUs within a domain have links of their own.
  void add_each_alone(const std::vector<Bytes>& sizes, const std::string& group) {
    constexpr std::size_t most_sizes = 2;  // the largest ones
    if (options.group != "world" || info.parts != BackendInfo::Parts::gpus) return;
    if (options.collectives != Options{}.collectives || !options.beside.empty()) return;
    Round alone = make_groups(group, placement);
    if (alone.size() < 2) return;
    std::erase_if(alone, [](const Group& each) { return each.size() < 2; });
    if (alone.empty()) return;
    const std::vector<Bytes> top(sizes.end() - static_cast<std::ptrdiff_t>(std::min(most_sizes, sizes.size())),
                                 sizes.end());
    for (const char* const name : {"all_reduce", "all_gather"})
      if (!options.in_place || find_collective(name).in_place_offset)
        add_groups(top, find_collective(name), group, alone);
  }

  void add_step(const CommunicatorStep& step, Bytes bytes, const std::string& group, const Round& groups) {
    Case c;
    c.backend = info.name;
    c.collective = &communicator;
    c.pattern = step.name;
    c.group = group;
    plan.cases.push_back(make(c, bytes, std::make_shared<const std::vector<Round>>(std::vector<Round>{groups})));
  }

  // The steps of joining are measured with all ranks, once in each launch. The other steps are measured with the groups
  // of --group, and those that show the growth also with the first half of all ranks, the first quarter and so on.
  void add_communicator_steps() {
    constexpr Bytes small{8}, large = MiB(16);  // of which NCCL sends the second by other protocols and connections
    const Round whole = make_groups("world", placement);
    const Round groups = make_groups(options.group, placement);
    for (const CommunicatorStep& step : communicator_steps()) {
      if (step.while_joining) {
        add_step(step, {0}, "world", whole);
        continue;
      }
      add_step(step, step.by_bytes ? small : Bytes{0}, options.group, groups);
      if (step.by_bytes) add_step(step, large, options.group, groups);
      if (!step.by_ranks || options.group != "world") continue;
      for (int some = ranks() / 2; some >= 2; some /= 2) {
        Group first(whole.front().begin(), whole.front().begin() + some);
        add_step(step, step.by_bytes ? small : Bytes{0}, fmt::format("first:{}", some), {std::move(first)});
      }
    }
  }

  // One case: the step of the job.
  void add_replay(const Job& step) {
    plan = {};
    ReplayPlan replay = plan_replay(step, std::filesystem::path(options.job).stem().string(), placement,
                                    options.types.front(), options.gaps);
    Case c = with_rounds(base_case(job_step, options.types.front()),
                         std::make_shared<const std::vector<Round>>(1, make_groups("world", placement)));
    c.bytes = c.bytes_per_rank = c.shape.bytes = c.shape.bytes_per_rank = most_bytes(replay.replay, ranks());
    c.replay = std::make_shared<const Replay>(std::move(replay.replay));
    plan.max = c.bytes;
    plan.memory_per_rank = memory_of(c, backend);
    plan.remarks = std::move(replay.remarks);
    plan.cases.push_back(std::move(c));
  }

  void add_all(const std::vector<Bytes>& sizes) {
    plan = {};
    for (const std::string& name : options.collectives) {
      const Collective& collective = find_collective(name);
      if (!options.beside.empty() && !runs_with_work(collective)) {
        plan.remarks.push_back(name + ": left out, nothing runs beside it");
      } else if (collective.pairwise && ranks() < 2) {
        plan.remarks.push_back(name + ": left out, it needs two ranks");
      } else if (collective.of_tokens && traffics.of_tokens.empty()) {
        plan.remarks.push_back(name + ": left out, it needs groups of two ranks or more");
      } else if (!backend.performs(collective)) {
        plan.remarks.push_back(
            fmt::format("{}: left out, the {} backend has messages between ranks only", name, info.name));
      } else if (const std::string why =
                     collective.device_initiated ? no_device_initiated(make_groups(options.group, placement)) : "";
                 !why.empty()) {
        plan.remarks.push_back(fmt::format("{}: left out, {}", name, why));
      } else if (options.in_place && !collective.in_place_offset && !collective.pairwise) {
        plan.remarks.push_back(name + ": left out, it has no in-place form");
      } else if (!performs_together(collective, "")) {
        plan.remarks.push_back(name + ": left out, several of them cannot be one group");
      } else if (collective.pairwise) {
        // Without pairs, single links and NICs would be accepted untested.
        if (options.in_place) plan.remarks.push_back(name + ": measured out of place, it has no in-place form");
        add_pairs(sizes, collective);
      } else if (!collective.moves_data) {
        add_communicator_steps();
      } else {
        add_groups(sizes, collective, options.group, make_groups(options.group, placement));
      }
    }
    add_each_alone(sizes, "node");
    if (placement.has_wide_domains()) add_each_alone(sizes, "domain");
    for (const Case& c : plan.cases) {
      plan.max = std::max(plan.max, c.bytes);
      plan.memory_per_rank = std::max(plan.memory_per_rank, memory_of(c, backend));
    }
  }

  // Message about the first case that needs more memory than a host has for all its ranks together; "" when all fit.
  std::string describe_misfit() const {
    for (const Case& c : plan.cases) {
      const Bytes needed = memory_of(c, backend);
      if (job.memory_of_rank && needed > *job.memory_of_rank)
        return fmt::format("{} needs {} of buffers per rank; {} are free for them on {}", describe(c),
                           to_rounded_text(as_double(needed)), to_rounded_text(as_double(*job.memory_of_rank)),
                           job.fullest_device);
      for (std::size_t node = 0; node < job.memory_of_node.size(); ++node) {
        const auto ranks_there =
            static_cast<std::uint64_t>(std::ranges::count(job.node_of_rank, static_cast<int>(node)));
        const double of_all = as_double(needed) * static_cast<double>(ranks_there),
                     available = as_double(job.memory_of_node[node]) * host_memory_share;
        if (of_all > available)
          return fmt::format("{} needs {} of buffers for the {} ranks of one host; {} may be used there", describe(c),
                             to_rounded_text(of_all), ranks_there, to_rounded_text(available));
      }
    }
    return "";
  }
};

// The job of --job, from the content that rank 0 read.
Job job_of(const Options& options) try {
  return job_from_json(parse_json(options.job_file_content));
} catch (const UsageError& problem) {
  throw UsageError(
      fmt::format("--job {}: {}; `p5bench import job` writes such files", printable(options.job), problem.what()));
}

Plan plan_job(PlanBuilder& builder) {
  const Options& options = builder.options;
  if (!builder.info.runs_beside) throw UsageError(job_error(builder.info));
  const Job job = job_of(options);
  if (options.given.contains("--type") &&
      std::ranges::all_of(job.operations, [](const JobOperation& each) { return each.type.has_value(); }))
    throw UsageError(
        fmt::format("--job {}: the types of all its operations are recorded; leave --type out", options.job));
  try {
    builder.add_replay(job);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--job {}: {}", options.job, problem.what()));
  }
  if (const std::string misfit = builder.describe_misfit(); !misfit.empty())
    throw UsageError(fmt::format("--job {}: {}; start fewer ranks per host", options.job, misfit));
  return std::move(builder.plan);
}

std::vector<Bytes> requested_sizes(const Options& options, Bytes max) {
  if (std::vector<Bytes> sizes = options.sizes.empty() ? options.usual_sizes : options.sizes; !sizes.empty()) {
    std::ranges::sort(sizes);
    return sizes;
  }
  if (options.min > max)
    throw UsageError(fmt::format("--min {} is above the default maximum of {} here; give --max too",
                                 to_text(options.min), to_text(max)));
  return sizes_between(options.min, max, options.factor);
}

}  // namespace

std::vector<Bytes> sizes_between(Bytes min, Bytes max, int factor) {
  std::vector<Bytes> sizes;
  const auto step = static_cast<std::uint64_t>(factor);
  for (std::uint64_t size = min.count; size <= max.count; size *= step) {
    sizes.push_back({size});
    if (size > max.count / step) break;
  }
  return sizes;
}

Bytes memory_of(const Case& c, const Backend& backend) {
  Bytes memory = backend.memory_per_rank(c);
  for (const Work& work : works_of(c))
    memory.count += (work.planned ? backend.memory_per_rank(*work.planned) : device_memory(work)).count;
  if (c.replay && c.replay->products) memory.count += device_memory(*c.replay->products).count;
  return memory;
}

Plan make_plan(const Options& options, const JobFacts& job, const Backend& backend, const std::string& backend_name) {
  const BackendInfo& info = find_backend(backend_name);
  PlanBuilder builder{options, job, backend, info};
  check_call_options(options.calls, info);
  if (!options.job.empty()) return plan_job(builder);
  if (options.root >= builder.ranks())
    throw UsageError(fmt::format("--root {}: the job has ranks 0 to {}", options.root, builder.ranks() - 1));
  const Bytes wanted = options.max_given ? options.max : std::min(options.max, info.default_max);
  std::vector<Bytes> sizes = requested_sizes(options, wanted);
  check_largest_size(sizes, options.per_rank, builder.ranks());
  const Round groups = make_groups(options.group, job.placement());
  for (const std::string& name : options.collectives) {
    const std::string where = "--group " + options.group;
    check_root(options.root, options.every_root, find_collective(name), groups, where);
    check_group_sizes(find_collective(name), groups, "--collectives", where);
  }
  for (const Work& work : options.beside) check_work(work, options, job, info);
  builder.traffics = make_traffics(options, groups);
  builder.add_all(sizes);
  std::string misfit = builder.describe_misfit();
  const bool may_lower = options.sizes.empty() && !options.max_given;
  const auto throw_full = [&] {
    throw EnvironmentError(misfit +
                           ". Even the smallest size does not fit: end other processes that hold this memory "
                           "(nvidia-smi lists those of GPUs), or start fewer ranks per host");
  };
  if (!misfit.empty() && job.memory_of_rank && job.memory_of_rank->count == 0) throw_full();
  if (!misfit.empty() && !may_lower)
    throw UsageError(misfit + ". Lower --max or --sizes, or start fewer ranks per host");
  while (!misfit.empty()) {
    if (sizes.size() == 1 && options.given.contains("--min"))
      throw UsageError(misfit + ". Even the smallest size does not fit; lower --min or start fewer ranks per host");
    if (sizes.size() == 1) throw_full();
    sizes.pop_back();
    builder.add_all(sizes);
    const std::string next = builder.describe_misfit();
    if (next.empty())
      builder.plan.remarks.push_back(
          fmt::format("maximum size lowered from {} to {}: {}", to_text(wanted), to_text(sizes.back()), misfit));
    misfit = next;
  }
  if (builder.plan.cases.empty() && !options.checks())
    throw UsageError("nothing to measure: " + join(builder.plan.remarks, "; "));
  return std::move(builder.plan);
}

}  // namespace p5
