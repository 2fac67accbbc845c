#include "bench/model/job.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"

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

void fields(auto& visit, Is<JobOperation> auto& each) {
  visit.must("collective", json_fields::As{each.collective, [](const Collective* one) { return json(one->name); },
                                           [](const json& j) { return &find_collective(json_fields::text_in(j)); }});
  visit.must("bytes", each.bytes);
  visit.may("type", json_fields::named(each.type, parse_data_type));
  visit.may("op", json_fields::named(each.op, parse_reduce_op));
  visit.may("root", json_fields::between(0, most_ranks_of_job, each.root));
  visit.may("group", json_fields::or_null(each.group));
  visit.some("groups", each.groups);
  visit.must("ranks", json_fields::between(1, most_ranks_of_job, each.ranks));
  visit.some("sends", each.sends);
  visit.may("gap_us", microseconds_or_null(each.gap));
  visit.may("time_us", microseconds_or_null(each.time));
  visit.may("fastest_us", microseconds_or_null(each.fastest));
}

void fields(auto& visit, Is<Job> auto& job) {
  visit.must("ranks", json_fields::between(1, most_ranks_of_job, job.ranks));
  visit.some("node_of_rank", job.node_of_rank);
  visit.must("steps", json_fields::at_least(1, job.steps));
  visit.may("step_us", microseconds_or_null(job.step));
  visit.must("operations", job.operations);
  visit.some("remarks", job.remarks);
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

std::vector<JobUse> uses_of(const Job& job) {
  std::vector<JobUse> uses;
  const auto add = [](std::optional<Seconds>& sum, const std::optional<Seconds>& more) {
    sum = sum && more ? std::optional(Seconds{sum->count + more->count}) : std::nullopt;
  };
  for (const JobOperation& each : job.operations) {
    const auto same = std::ranges::find_if(uses, [&](const JobUse& use) {
      const JobOperation& other = use.operation;
      return other.collective == each.collective && other.bytes == each.bytes && other.type == each.type &&
             other.op == each.op && other.ranks == each.ranks && name_of_groups(other) == name_of_groups(each);
    });
    if (same == uses.end()) {
      uses.push_back({each, 1, each.time, each.fastest});
      continue;
    }
    ++same->count;
    add(same->time, each.time);
    add(same->fastest, each.fastest);
  }
  std::ranges::stable_sort(uses, [](const JobUse& a, const JobUse& b) {
    const auto key = [](const JobUse& use) {
      return std::pair(use.time ? use.time->count : 0.0,
                       static_cast<double>(use.operation.bytes.count) * static_cast<double>(use.count));
    };
    return key(a) > key(b);
  });
  return uses;
}

}  // namespace p5
