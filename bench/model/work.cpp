#include "bench/model/work.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

// Sizes that every cuBLASLt takes for all types of operands.
constexpr int product_step = 16, largest_product = 65536;

int parse_side(const std::string& text) {
  const int value = as_number<int>(text).value_or(0);
  if (value < product_step || value > largest_product || value % product_step != 0)
    throw UsageError(fmt::format("'{}' is no side of a matrix: give a multiple of {} up to {}", text, product_step,
                                 largest_product));
  return value;
}

Work parse_gemm(const std::string& text, const std::string* rest) {
  Work work{.kind = Work::Kind::gemm, .n = 8192, .k = 8192, .type = "bf16"};
  if (!rest) return work;
  const std::vector<std::string> parts = split(*rest);
  if (parts.size() > 3) throw UsageError(fmt::format("'{}' has {} values; write gemm:N,K,type", text, parts.size()));
  work.n = work.k = parse_side(parts[0]);
  if (parts.size() > 1) work.k = parse_side(parts[1]);
  if (parts.size() > 2) {
    const std::vector<std::string> types{"bf16", "fp8"};
    if (std::ranges::find(types, parts[2]) == types.end())
      throw UsageError(unknown_name("type of matrix products", parts[2], types));
    work.type = parts[2];
  }
  return work;
}

Work parse_d2h(const std::string& text, const std::string* rest) {
  if (rest) throw UsageError(fmt::format("'{}': d2h takes no value, it copies {} at a time", text, to_text(d2h_bytes)));
  return {.kind = Work::Kind::d2h};
}

// The size is behind the last colon: a group may have one too (all_gather@stride:16:64MiB).
Work parse_collective(const std::string& text, const std::string*) {
  const std::size_t at = text.substr(0, text.find(':')).find('@');
  const std::size_t colon = at == std::string::npos ? text.find(':') : text.rfind(':');
  const std::string who = text.substr(0, colon);
  const std::string size = colon == std::string::npos ? "" : text.substr(colon + 1);
  const std::string name = who.substr(0, at);
  std::vector<std::string> names = collective_names();
  std::erase_if(names, [](const std::string& each) { return !runs_with_work(find_collective(each)); });
  if (name == "p2p")
    throw UsageError("p2p is many pairs, one after the other; send_recv sends from each rank to the next");
  if (std::ranges::find(names, name) == names.end()) {
    names.insert(names.begin(), {"gemm", "d2h"});
    throw UsageError(unknown_name("work", name, names));
  }
  if (at != std::string::npos && who.substr(at) == "@stride")
    throw UsageError(fmt::format("'{}' has no size behind its group; write {}:64MiB", text, text));
  if (size.empty()) throw UsageError(fmt::format("'{}' has no size; write {}:64MiB", text, who));
  if (at != std::string::npos && at + 1 == who.size())
    throw UsageError(
        fmt::format("'{}' has no group behind the @; write {}@node:{} or leave the @ out", text, name, size));
  return {.kind = Work::Kind::collective,
          .collective = &find_collective(name),
          .group = at == std::string::npos ? "world" : who.substr(at + 1),
          .bytes = parse_bytes(size)};
}

struct WorkEntry {
  WorkKind kind;
  Work (*parse)(const std::string& text, const std::string* rest);
};
constexpr std::array work_table{
    WorkEntry{{"gemm", "gemm[:N,K,type]", "matrix products of n x k by k x n, bf16 or fp8; default 8192,8192,bf16"},
              parse_gemm},
    WorkEntry{{"d2h", "d2h", "copies of 64 MiB from the GPU's memory to the host's"}, parse_d2h},
    WorkEntry{
        {"COLLECTIVE", "COLLECTIVE[@GROUP]:SIZE", "a collective of the ranks of a group (see --group); default world"},
        parse_collective},
};

constexpr std::array listed_kinds = [] {
  std::array<WorkKind, work_table.size()> all{};
  std::ranges::transform(work_table, all.begin(), &WorkEntry::kind);
  return all;
}();

}  // namespace

std::span<const WorkKind> work_kinds() { return listed_kinds; }

Work parse_work(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto* const kind =
      std::ranges::find(work_table, text.substr(0, colon), [](const WorkEntry& each) { return each.kind.name; });
  const auto parse = kind == work_table.end() ? parse_collective : kind->parse;
  return parse(text, colon == std::string::npos ? nullptr : &rest);
}

Bytes device_memory(const Work& work) {
  if (work.kind == Work::Kind::d2h) return d2h_bytes;
  if (work.kind == Work::Kind::collective) return {0};
  const auto n = static_cast<std::uint64_t>(work.n), k = static_cast<std::uint64_t>(work.k);
  // Two operands of two bytes per element, two results and a workspace as large as a result.
  return {2 * n * k * 2 + 3 * n * n * 2};
}

bool runs_with_work(const Collective& collective) {
  return !collective.pairwise && collective.moves_data && !collective.replays && !collective.device_initiated;
}

std::string name_of(const Work& work) {
  switch (work.kind) {
    case Work::Kind::gemm:
      return fmt::format("gemm:{},{},{}", work.n, work.k, work.type);
    case Work::Kind::d2h:
      return "d2h";
    case Work::Kind::collective:
      break;
  }
  std::string size = to_text(work.bytes);
  std::erase(size, ' ');
  if (size.ends_with("B") && !size.ends_with("iB")) size.pop_back();  // "8 B" is written 8
  return fmt::format("{}{}:{}", work.collective->name, work.group == "world" ? "" : "@" + work.group, size);
}

std::string describe_beside(const std::vector<Work>& works) {
  if (works.empty()) return "";
  std::vector<std::string> names;
  for (const Work& work : works) names.push_back(name_of(work));
  return "beside " + join(names, " and ");
}

}  // namespace p5
