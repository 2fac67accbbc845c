// The table of collectives.
#include "bench/model/collective.hpp"

#include <algorithm>
#include <array>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5 {

namespace {
constexpr std::array table{&p2p,        &all_reduce,  &all_gather, &reduce_scatter, &broadcast, &reduce,
                           &all_to_all, &all_to_allv, &gather,     &scatter,        &send_recv, &hypercube};

// Where nccl-tests has another name, or none.
struct NameInNcclTests {
  const Collective* collective;
  std::string_view name;
};
constexpr std::array names_in_nccl_tests{NameInNcclTests{&p2p, ""}, NameInNcclTests{&all_to_all, "alltoall"},
                                         NameInNcclTests{&all_to_allv, "alltoallv"},
                                         NameInNcclTests{&send_recv, "sendrecv"}};
}  // namespace

std::span<const Collective* const> collectives() { return table; }

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective* each : table) names.emplace_back(each->name);
  return names;
}

std::string_view name_in_nccl_tests(const Collective& collective) {
  const auto found = std::ranges::find(names_in_nccl_tests, &collective, &NameInNcclTests::collective);
  return found == names_in_nccl_tests.end() ? collective.name : found->name;
}

const Collective* try_find_collective(std::string_view name) {
  const auto called = [](std::string_view wanted) {
    const auto found = std::ranges::find_if(table, [&](const Collective* each) {
      return each->name == wanted || (!wanted.empty() && name_in_nccl_tests(*each) == wanted);
    });
    return found == table.end() ? nullptr : *found;
  };
  if (const Collective* const found = called(name)) return found;
  constexpr std::string_view mpi = "_mpi", program = "_perf";
  if (name.ends_with(mpi)) name.remove_suffix(mpi.size());
  if (!name.ends_with(program)) return nullptr;
  name.remove_suffix(program.size());
  return called(name);
}

const Collective& find_collective(std::string_view name) {
  if (const Collective* const found = try_find_collective(name)) return *found;
  throw UsageError(unknown_name("collective", name, collective_names()));
}

}  // namespace p5
