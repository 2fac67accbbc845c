#include "bench/model/job.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/model/case.hpp"
#include "bench/model/pattern.hpp"
#include "bench/model/plan.hpp"
#include "bench/model/traffic.hpp"

namespace p5 {

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 1> schemas{"p5bench.job/1"};

auto microseconds_or_null(auto& time) {
  return json_fields::As{time, [](const Seconds& each) { return json(microseconds(each)); },
                         [](const json& j) -> std::remove_cvref_t<decltype(time)> {
                           if (j.is_null()) return std::nullopt;
                           return Seconds{json_fields::number_in(j, {.most = longest_time_of_job * 1e6}) * 1e-6};
                         }};
}

}  // namespace

void fields(auto& archive, Is<JobOperation> auto& each) {
  archive.must("collective", json_fields::As{each.collective, [](const Collective* one) { return json(one->name); },
                                             [](const json& j) { return &find_collective(json_fields::text_in(j)); }});
  archive.must("bytes", each.bytes);
  archive.may("type", json_fields::named(each.type, parse_data_type));
  archive.may("op", json_fields::named(each.op, parse_reduce_op));
  archive.may("root", json_fields::between(0, most_ranks_of_job, each.root));
  archive.may("group", json_fields::or_null(each.group));
  archive.some("groups", each.groups);
  archive.must("ranks", json_fields::between(1, most_ranks_of_job, each.ranks));
  archive.some("sends", each.sends);
  archive.may("gap_us", microseconds_or_null(each.gap));
  archive.may("time_us", microseconds_or_null(each.time));
  archive.may("fastest_us", microseconds_or_null(each.fastest));
  archive.may("computed_us", microseconds_or_null(each.computed));
  archive.may("computed_alone_us", microseconds_or_null(each.computed_alone));
}

void fields(auto& archive, Is<Job> auto& job) {
  archive.must("ranks", json_fields::between(1, most_ranks_of_job, job.ranks));
  archive.some("node_of_rank", job.node_of_rank);
  archive.must("steps", json_fields::at_least(1, job.steps));
  archive.may("step_us", microseconds_or_null(job.step));
  archive.must("operations", job.operations);
  archive.some("remarks", job.remarks);
}

namespace {

// Throws UsageError unless groups are disjoint ranks of the job.
void check_groups(const Job& job, const JobOperation& each) {
  std::set<int> seen;
  for (const Group& group : each.groups) {
    if (std::cmp_not_equal(group.size(), each.ranks))
      throw UsageError(fmt::format("a group has {} ranks, not {}", group.size(), each.ranks));
    for (const int rank : group)
      if (rank < 0 || rank >= job.ranks || !seen.insert(rank).second)
        throw UsageError(fmt::format("rank {} is in two groups, or not one of the job's {}", rank, job.ranks));
  }
  const auto is_row = [&](const std::vector<std::uint64_t>& row) {
    return std::cmp_equal(row.size(), each.ranks) &&
           std::ranges::all_of(row, [](std::uint64_t bytes) { return bytes <= most_bytes_of_job; });
  };
  if (!each.sends.empty() &&
      (std::cmp_not_equal(each.sends.size(), each.ranks) || !std::ranges::all_of(each.sends, is_row)))
    throw UsageError(fmt::format("`sends` has to be {0} rows of {0} bytes, none above 2^50", each.ranks));
  if (each.ranks > job.ranks || (each.root && *each.root >= each.ranks))
    throw UsageError("its ranks or its root are more than the job has");
}

}  // namespace

json to_json(const Job& job) {
  json object = json_fields::written(job);
  object["schema"] = schemas[0];
  return object;
}

Job job_from_json(const json& object) {
  std::string schema;
  json_fields::at("schema", [&] {
    schema = json_fields::one_of(std::span<const std::string_view>(schemas), json_fields::member(object, "schema"));
  });
  Job job = json_fields::read_as<Job>(object);
  if (!job.node_of_rank.empty() && std::cmp_not_equal(job.node_of_rank.size(), job.ranks))
    throw json_fields::BadValue("/node_of_rank",
                                fmt::format("has {} nodes for {} ranks", job.node_of_rank.size(), job.ranks));
  for (std::size_t i = 0; i < job.operations.size(); ++i)
    json_fields::at("operations", [&] { json_fields::at(i, [&] { check_groups(job, job.operations[i]); }); });
  return job;
}

std::string name_of_groups(const JobOperation& each) {
  if (!each.group.empty()) return each.group;
  if (each.groups.size() > 1) return fmt::format("{} groups of {} ranks", each.groups.size(), each.ranks);
  return fmt::format("{} ranks", each.ranks);
}

namespace {

// The numbers of ranks that each group has on its hosts, whichever hosts these are.
using Shares = std::multiset<std::multiset<int>>;
Shares shares_of_hosts(const Round& groups, const NodeOfRank& node_of_rank) {
  Shares all;
  for (const Group& group : groups) {
    std::map<int, int> of_host;
    for (const int rank : group) ++of_host[node_of_rank.at(static_cast<std::size_t>(rank))];
    std::multiset<int> shares;
    for (const auto& [host, ranks] : of_host) shares.insert(ranks);
    all.insert(std::move(shares));
  }
  return all;
}

// Adds the hosts of a group to names that several uses have whose groups have other numbers of ranks on their hosts.
void tell_apart(std::vector<JobUse>& uses, const NodeOfRank& node_of_rank) {
  if (node_of_rank.empty()) return;
  std::map<std::string, std::set<Shares>> called;
  std::vector<Shares> shares;
  for (const JobUse& use : uses)
    called[use.group].insert(shares.emplace_back(shares_of_hosts(use.operation.groups, node_of_rank)));
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (called.at(uses[i].group).size() < 2) continue;
    std::size_t hosts = 0;
    for (const std::multiset<int>& each : shares[i]) hosts = std::max(hosts, each.size());
    if (hosts > 0) uses[i].group += fmt::format(" on {} {}", hosts, hosts == 1 ? "host" : "hosts");
  }
}

}  // namespace

std::vector<JobUse> uses_of(const Job& job, const DomainOfRank& domains) {
  std::vector<JobUse> uses;
  const auto key_of = [&](const JobOperation& each) {
    const auto shares = [&](const std::vector<int>& places) {
      return places.empty() ? Shares{} : shares_of_hosts(each.groups, places);
    };
    return std::tuple(each.collective, each.bytes.count, each.type, each.op, each.ranks, name_of_groups(each),
                      shares(job.node_of_rank), shares(domains));
  };
  std::map<decltype(key_of({})), std::size_t> place_of_key;
  const auto add = [](std::optional<Seconds>& sum, const std::optional<Seconds>& more) {
    sum = sum && more ? std::optional(Seconds{sum->count + more->count}) : std::nullopt;
  };
  for (const JobOperation& each : job.operations) {
    const auto [at, is_new] = place_of_key.try_emplace(key_of(each), uses.size());
    if (is_new) {
      uses.push_back({each, name_of_groups(each), 1, each.time, each.fastest, each.computed});
      continue;
    }
    JobUse& same = uses[at->second];
    ++same.count;
    add(same.time, each.time);
    add(same.fastest, each.fastest);
    add(same.computed, each.computed);
  }
  tell_apart(uses, job.node_of_rank);
  std::ranges::stable_sort(uses, [](const JobUse& a, const JobUse& b) {
    const auto key = [](const JobUse& use) {
      return std::pair(use.time ? use.time->count : 0.0,
                       static_cast<double>(use.operation.bytes.count) * static_cast<double>(use.count));
    };
    return key(a) > key(b);
  });
  return uses;
}

// ---- The step of a job as a case

namespace {

// The options of launchers that give this order of ranks on the hosts.
std::string options_for_order(const NodeOfRank& node_of_rank) {
  NodeOfRank numbers;
  std::map<int, int> number_of_host;
  for (const int host : node_of_rank)
    numbers.push_back(number_of_host.try_emplace(host, static_cast<int>(number_of_host.size())).first->second);
  if (std::ranges::is_sorted(numbers)) return "mpirun --map-by slot, srun --distribution=block";
  const int hosts = static_cast<int>(number_of_host.size());
  for (std::size_t rank = 0; rank < numbers.size(); ++rank)
    if (numbers[rank] != static_cast<int>(rank) % hosts)
      return "a rankfile of mpirun, or SLURM_HOSTFILE with srun --distribution=arbitrary";
  return "mpirun --map-by node, srun --distribution=cyclic";
}

class ReplayPlanner {
 public:
  ReplayPlanner(const Job& job, const Placement& placement, DataType unrecorded, const std::optional<Work>& products)
      : job_(job),
        placement_(placement),
        ranks_(static_cast<int>(placement.node_of_rank.size())),
        unrecorded_(unrecorded) {
    plan_.replay.products = products;
    if (job.ranks != ranks_)
      throw UsageError(fmt::format("the job has {} ranks and this run {}; start as many", job.ranks, ranks_));
    if (job.operations.empty()) throw UsageError("the job has no operations");
    if (job.operations.size() > most_operations_of_replay)
      throw UsageError(
          fmt::format("a step has {} operations, more than {}", job.operations.size(), most_operations_of_replay));
    const int nodes = count_nodes(placement.node_of_rank);
    if (!job.node_of_rank.empty() && count_nodes(job.node_of_rank) != nodes)
      remark(
          fmt::format("the job ran on {} hosts, and its step is replayed on {}", count_nodes(job.node_of_rank), nodes));
  }

  ReplayPlan plan(std::string name) {
    plan_.replay.name = std::move(name);
    plan_.replay.step = job_.step;
    std::uint64_t digest = 0;
    for (std::size_t i = 0; i < job_.operations.size(); ++i) try {
        const JobOperation& each = job_.operations[i];
        const int work = work_of(each);
        const Seconds gap = each.gap.value_or(Seconds{0});
        const Seconds beside = plan_.replay.products ? each.computed.value_or(Seconds{0}) : Seconds{0};
        const bool overlaps = beside.count > each.fastest.value_or(Seconds{0}).count / 2;
        const Seconds computed = beside.count > 0 ? each.computed_alone.value_or(beside) : Seconds{0};
        plan_.replay.operations.push_back({work, gap, computed, overlaps});
        digest = pattern::hash(digest, nanoseconds(gap), digest_of(work));
        if (computed.count > 0) digest = pattern::hash(digest, 1, nanoseconds(computed));
      } catch (const UsageError& problem) {
        throw UsageError(fmt::format("operation {} of its step, {} of {}: {}", i + 1,
                                     job_.operations[i].collective->name, name_of_groups(job_.operations[i]),
                                     problem.what()));
      }
    if (const std::optional<Work>& products = plan_.replay.products) {
      for (const char letter : name_of(*products))
        digest = pattern::hash(digest, 2, static_cast<unsigned char>(letter));
      if (std::ranges::none_of(job_.operations, [](const JobOperation& each) { return each.computed.has_value(); }))
        remark("no record says whether the GPUs computed beside operations; matrix products fill the gaps only");
    }
    plan_.replay.digest = fmt::format("{:016x}", digest);
    remark_on_order();
    return std::move(plan_);
  }

 private:
  // Groups that are listed, or of strides, are the same ranks in any run, so they pass other links where ranks are on
  // the hosts in another order.
  void remark_on_order() {
    if (std::cmp_not_equal(job_.node_of_rank.size(), ranks_) ||
        count_nodes(job_.node_of_rank) != count_nodes(placement_.node_of_rank))
      return;
    std::string first;
    std::size_t others = 0;
    for (const JobOperation& each : job_.operations) {
      if (each.group == "domain" || (each.group.empty() && each.groups.empty())) continue;
      const auto shares = [&](const NodeOfRank& nodes) {
        return shares_of_hosts(each.group.empty() ? each.groups : make_groups(each.group, nodes), nodes);
      };
      if (shares(job_.node_of_rank) == shares(placement_.node_of_rank)) continue;
      if (first.empty())
        first = fmt::format("{} of {}", each.collective->name, name_of_groups(each));
      else
        ++others;
    }
    if (first.empty()) return;
    remark(
        fmt::format("the job had its ranks on the hosts in another order, so {} {} between other GPUs and NICs here; "
                    "settings for it need its order: {}",
                    others > 0 ? fmt::format("{} and {} more of its operations", first, others) : first,
                    others > 0 ? "go" : "goes", options_for_order(job_.node_of_rank)));
  }

  static std::uint64_t nanoseconds(Seconds time) { return static_cast<std::uint64_t>(time.count * 1e9); }

  void remark(const std::string& text) {
    if (remarked_.insert(text).second) plan_.remarks.push_back(text);
  }

  Round groups_of(const JobOperation& each) const {
    if (!each.group.empty()) return make_groups(each.group, placement_);
    if (each.groups.empty()) throw UsageError("no record says which ranks these are; import the files of all ranks");
    return each.groups;
  }

  DataType type_of(const JobOperation& each) {
    if (each.type) return *each.type;
    remark(fmt::format("the type of {} is not recorded; {} is used", each.collective->name, name_of(unrecorded_)));
    return unrecorded_;
  }

  // The operation of the job, or a sum where the type cannot hold what the average multiplies by.
  std::optional<ReduceOp> reduction_of(const JobOperation& each, DataType type, int ranks) {
    if (!each.collective->reduces) return std::nullopt;
    const ReduceOp op = each.op.value_or(ReduceOp::sum);
    if (op != ReduceOp::avg || ranks <= most_ranks_of_average(type)) return op;
    remark(fmt::format("{} of {} takes sums, since its averages could not be verified", each.collective->name,
                       name_of(type)));
    return ReduceOp::sum;
  }

  Case case_of(const JobOperation& each, Round groups) {
    if (!each.collective->moves_data || each.collective->replays || each.collective->of_tokens)
      throw UsageError("a job has no such operation");
    Case c;
    c.collective = each.collective;
    c.type = type_of(each);
    const std::size_t size = groups.front().size();
    if (!are_of_one_size(groups) || std::cmp_not_equal(size, each.ranks))
      throw UsageError(fmt::format("the job's groups have {} ranks, and those of this run {}", each.ranks, size));
    if (each.collective->powers_of_two && !std::has_single_bit(size))
      throw UsageError(fmt::format("it takes groups of 1, 2, 4, 8, ... ranks, and these have {}", size));
    c.ranks = each.ranks;
    if (c.collective->pairwise) {
      if (size != 2) throw UsageError(fmt::format("a message is between 2 ranks, not {}", size));
      c.pattern = "one_way";
    }
    c.op = reduction_of(each, c.type, c.ranks);
    if (c.collective->rooted) c.root = each.root.value_or(0);
    c.shape = shape_in(each, c);
    c.bytes = c.shape.bytes;
    c.bytes_per_rank = c.shape.bytes_per_rank;
    const auto nodes = [&](const Group& group) { return spanned_by(group, placement_.node_of_rank); };
    set_span(c, *std::ranges::max_element(groups, {}, nodes), placement_);
    c.rounds = std::make_shared<const std::vector<Round>>(1, std::move(groups));
    return c;
  }

  Shape shape_in(const JobOperation& each, const Case& c) {
    if (!c.collective->by_traffic || c.collective->of_tokens)
      return c.collective->shape(each.bytes, false, size_of(c.type), c.ranks);
    if (!each.sends.empty() && c.ranks <= most_ranks_of_traffic) {
      TrafficMatrix matrix{c.ranks, {}};
      for (const auto& row : each.sends) matrix.parts.insert(matrix.parts.end(), row.begin(), row.end());
      if (const std::uint64_t busiest = busiest_sum(matrix); sends_to_others(matrix))
        return shape_of(std::make_shared<const MatrixTraffic>(make_traffic("recorded", std::move(matrix))), {busiest},
                        size_of(c.type));
    }
    remark(fmt::format("the block sizes of {} are not in the job's file; those of nccl-tests are used",
                       c.collective->name));
    return c.collective->shape(each.bytes, false, size_of(c.type), c.ranks);
  }

  static bool sends_to_others(const TrafficMatrix& matrix) {
    for (int from = 0; from < matrix.ranks; ++from)
      for (int to = 0; to < matrix.ranks; ++to)
        if (from != to && matrix.at(from, to) > 0) return true;
    return false;
  }

  // The name of groups, which differs between different groups.
  std::string group_of(const JobOperation& each, const Round& groups) {
    const auto [place, is_new] = name_of_round_.try_emplace(groups);
    if (!is_new) return place->second;
    std::string name = name_of_groups(each);
    const int number = ++uses_of_name_[name];
    if (number > 1) name += fmt::format(" ({})", number);
    return place->second = name;
  }

  int work_of(const JobOperation& each) {
    Round groups = groups_of(each);
    const std::string group = group_of(each, groups);
    Case c = case_of(each, std::move(groups));
    const auto key = std::tuple(c.collective->name, group, c.bytes.count, c.type, c.op, c.root, each.sends);
    const auto [place, is_new] = index_of_work_.try_emplace(key, static_cast<int>(plan_.replay.works.size()));
    if (is_new) {
      c.group = group;
      plan_.replay.works.push_back({.kind = Work::Kind::collective,
                                    .collective = each.collective,
                                    .group = group,
                                    .bytes = each.bytes,
                                    .planned = std::make_shared<const Case>(std::move(c))});
    }
    return place->second;
  }

  std::uint64_t digest_of(int work) const {
    const Case& c = *plan_.replay.works[static_cast<std::size_t>(work)].planned;
    std::uint64_t digest = pattern::hash(c.bytes.count, static_cast<std::uint64_t>(c.type), 0);
    for (const char letter : c.collective->name) digest = pattern::hash(digest, 1, static_cast<unsigned char>(letter));
    for (const Group& group : c.rounds->front())
      for (const int rank : group) digest = pattern::hash(digest, 2, static_cast<std::uint64_t>(rank));
    if (c.shape.traffic)
      for (const std::uint64_t part : c.shape.traffic->matrix.parts) digest = pattern::hash(digest, 3, part);
    return digest;
  }

  const Job& job_;
  const Placement& placement_;
  int ranks_;
  DataType unrecorded_;
  ReplayPlan plan_;
  std::set<std::string> remarked_;
  std::map<Round, std::string> name_of_round_;
  std::map<std::string, int> uses_of_name_;
  std::map<std::tuple<std::string_view, std::string, std::uint64_t, DataType, std::optional<ReduceOp>,
                      std::optional<int>, std::vector<std::vector<std::uint64_t>>>,
           int>
      index_of_work_;
};

// Calls `add` with each rank that takes part in each operation.
template <class Add>
void for_each_rank(const Replay& replay, const Add& add) {
  for (const ReplayedOperation& each : replay.operations) {
    const Case& c = *replay.works[static_cast<std::size_t>(each.work)].planned;
    for (const Group& group : c.rounds->front())
      for (const int rank : group) add(static_cast<std::size_t>(rank), each, c);
  }
}

}  // namespace

std::optional<Work> parse_gaps(const std::string& text) {
  if (text == "wait") return std::nullopt;
  const std::string kind = text.substr(0, text.find(':'));
  if (kind != "gemm") throw UsageError(unknown_name("filling of gaps", kind, std::vector<std::string>{"wait", "gemm"}));
  return parse_work(text == kind ? "gemm:2048" : text);
}

ReplayPlan plan_replay(const Job& job, std::string name, const Placement& placement, DataType unrecorded,
                       const std::optional<Work>& products) {
  return ReplayPlanner(job, placement, unrecorded, products).plan(std::move(name));
}

std::vector<int> uses_of_works(const Replay& replay) {
  std::vector<int> uses(replay.works.size(), 0);
  for (const ReplayedOperation& each : replay.operations) ++uses[static_cast<std::size_t>(each.work)];
  return uses;
}

Seconds longest_gaps(const Replay& replay, int ranks) {
  std::vector<double> gaps(static_cast<std::size_t>(ranks), 0);
  for_each_rank(replay,
                [&](std::size_t rank, const ReplayedOperation& each, const Case&) { gaps[rank] += each.gap.count; });
  return {*std::ranges::max_element(gaps)};
}

Bytes most_bytes(const Replay& replay, int ranks) {
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks), 0);
  for_each_rank(replay,
                [&](std::size_t rank, const ReplayedOperation&, const Case& c) { bytes[rank] += c.bytes.count; });
  return {*std::ranges::max_element(bytes)};
}

}  // namespace p5
