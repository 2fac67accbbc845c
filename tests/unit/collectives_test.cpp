// The description of each collective against its definition, carried out element by element on labels that name an
// element's origin.
#include "bench/model/collective.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "tuner/table.hpp"

namespace p5 {
namespace {

// An element of a rank's input, or of the reduction over all ranks' inputs.
struct Label {
  int source = 0;
  std::uint64_t index = 0;
  bool operator==(const Label&) const = default;
};
using Elements = std::vector<std::optional<Label>>;  // null: not written

const std::vector<const Collective*> group_collectives = [] {
  std::vector<const Collective*> all(collectives().begin(), collectives().end());
  std::erase(all, &p2p);
  std::erase_if(all, [](const Collective* each) { return each->of_tokens; });  // tokens_test.cpp
  return all;
}();

// The inputs of all ranks, in order.
std::vector<Elements> inputs_of(int ranks, std::uint64_t elements) {
  std::vector<Elements> inputs(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (std::uint64_t i = 0; i < elements; ++i) inputs[static_cast<std::size_t>(rank)].push_back(Label{rank, i});
  return inputs;
}

Elements reduction_of(std::uint64_t elements) {
  Elements all;
  for (std::uint64_t i = 0; i < elements; ++i) all.push_back(Label{Segment::reduced, i});
  return all;
}

// The block that `from` sends `to`, with blocks in rank order whose length grows with the distance in the ring.
Elements uneven_part(const Elements& input, std::size_t from, std::size_t to, std::size_t ranks) {
  if (ranks == 1) return input;
  const auto length = [&](std::size_t other) {
    const std::size_t distance = (other + ranks - from) % ranks, triangle = ranks * (ranks - 1) / 2;
    const auto begins = [&](std::size_t d) { return input.size() * (d * (d - 1) / 2) / triangle; };
    return distance == 0 ? 0 : begins(distance + 1) - begins(distance);
  };
  std::size_t begin = 0;
  for (std::size_t other = 0; other < to; ++other) begin += length(other);
  return {input.begin() + static_cast<std::ptrdiff_t>(begin),
          input.begin() + static_cast<std::ptrdiff_t>(begin + length(to))};
}

// The definitions: one rank's output from all inputs. `share`: elements of one rank's part.
Elements defined(const Collective& collective, const std::vector<Elements>& inputs, const Member& member,
                 std::uint64_t share) {
  const auto rank = static_cast<std::size_t>(member.rank), ranks = inputs.size();
  const auto root = static_cast<std::size_t>(member.root);
  const Elements sum = reduction_of(inputs.front().size());
  const auto part = [&](const Elements& of, std::size_t number) {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(number * share);
    return Elements(begin, begin + static_cast<std::ptrdiff_t>(share));
  };
  Elements output;
  const auto append = [&](const Elements& more) { output.insert(output.end(), more.begin(), more.end()); };
  if (&collective == &all_reduce || &collective == &lsa_all_reduce) append(sum);
  if (&collective == &reduce && rank == root) append(sum);
  if (&collective == &reduce_scatter) append(part(sum, rank));
  if (&collective == &broadcast) append(inputs[root]);
  if (&collective == &send_recv) append(inputs[(rank + ranks - 1) % ranks]);
  if (&collective == &scatter) append(part(inputs[root], rank));
  for (std::size_t from = 0; from < ranks; ++from) {
    const Elements& input = inputs[from];
    if (&collective == &all_gather || &collective == &hypercube) append(input);
    if (&collective == &gather && rank == root) append(input);
    if (&collective == &all_to_all || &collective == &lsa_all_to_all) append(part(input, rank));
    if (&collective == &all_to_allv) append(uneven_part(input, from, rank, ranks));
  }
  return output;
}

// The output according to the segments; fails where two write the same element or one reads beyond the input.
Elements described(const Collective& collective, const Shape& shape, const Member& member) {
  Elements output(shape.output_elements);
  for (const Segment& segment : collective.result(shape, member, "")) {
    EXPECT_LE(segment.output_offset + segment.elements, shape.output_elements);
    EXPECT_LE(segment.source_offset + segment.elements, shape.input_elements);
    for (std::uint64_t i = 0; i < segment.elements; ++i) {
      auto& element = output.at(segment.output_offset + i);
      EXPECT_FALSE(element.has_value());
      element = Label{segment.source, segment.source_offset + i};
    }
  }
  return output;
}

void expect_defined(const Collective& collective, const Shape& shape, const Member& member) {
  const bool divides = &collective == &all_to_all || &collective == &lsa_all_to_all;
  const std::uint64_t share =
      divides ? shape.input_elements / static_cast<std::uint64_t>(member.ranks) : shape.output_elements;
  Elements wanted = defined(collective, inputs_of(member.ranks, shape.input_elements), member, share);
  ASSERT_LE(wanted.size(), shape.output_elements);
  wanted.resize(shape.output_elements);
  EXPECT_EQ(described(collective, shape, member), wanted)
      << collective.name << ": rank " << member.rank << " of " << member.ranks << ", root " << member.root;
}

TEST(Collectives, bring_what_their_definitions_say_to_every_rank_for_every_root) {
  for (const Collective* collective : group_collectives)
    for (int ranks = 1; ranks <= 7; ++ranks)
      for (const std::uint64_t size : {1, 13, 64})
        for (int root = 0; root < (collective->rooted ? ranks : 1); ++root)
          for (int rank = 0; rank < ranks; ++rank)
            expect_defined(*collective, collective->shape({size}, false, 2, ranks), {rank, ranks, root});
}

TEST(Collectives, bring_it_to_groups_that_are_smaller_than_the_largest_too) {
  for (const Collective* collective : group_collectives)
    for (int ranks = 1; ranks <= 3; ++ranks)
      for (int rank = 0; rank < ranks; ++rank)
        expect_defined(*collective, collective->shape({50}, false, 1, 4), {rank, ranks, ranks - 1});
}

TEST(Collectives, are_in_the_table_each_once) {
  std::set<std::string> listed, defined;
  for (const std::string& name : collective_names()) EXPECT_TRUE(listed.insert(name).second) << name;
  listed.emplace(job_step.name);  // measured by --job alone
  std::ifstream source(P5BENCH_SOURCE_FOLDER "/bench/model/collectives.cpp");
  constexpr std::string_view definition = "const Collective ";
  for (std::string line; std::getline(source, line);)
    if (line.starts_with(definition) && line.ends_with("\","))
      defined.insert(line.substr(definition.size(), line.find('{') - definition.size()));
  EXPECT_EQ(listed, defined);
}

TEST(Collectives, round_a_message_up_to_the_same_number_of_elements_for_each_rank) {
  const std::set<const Collective*> shared{&all_gather, &reduce_scatter, &all_to_all, &all_to_allv,
                                           &gather,     &scatter,        &hypercube,  &lsa_all_to_all};
  for (const Collective* collective : group_collectives) {
    for (int ranks = 1; ranks <= 7; ++ranks) {
      const auto parts = shared.contains(collective) ? static_cast<std::uint64_t>(ranks) : 1;
      for (std::uint64_t size = 1; size <= 100; ++size) {
        const Shape shape = collective->shape({size}, false, 4, ranks);
        EXPECT_GE(shape.bytes.count, size);
        EXPECT_LT(shape.bytes.count, size + 4 * parts) << collective->name;
        EXPECT_EQ(shape.bytes.count, shape.bytes_per_rank.count * parts) << collective->name;
        EXPECT_EQ(shape.bytes_per_rank.count % 4, 0u);
        const Shape per_rank = collective->shape({size}, true, 4, ranks);
        EXPECT_EQ(per_rank.bytes_per_rank.count, (size + 3) / 4 * 4) << collective->name;
        EXPECT_EQ(per_rank.bytes.count, per_rank.bytes_per_rank.count * parts) << collective->name;
      }
    }
  }
}

// The default of nccl-tests' alltoallv: 1 part for the next rank, 2 for the one behind it, and so on.
TEST(Collectives, send_uneven_blocks_in_proportion_to_the_distance) {
  const Shape shape = all_to_allv.shape({60}, false, 1, 4);
  std::vector<std::uint64_t> sent;
  for (int to = 0; to < 4; ++to)
    sent.push_back(all_to_allv.block(shape, {.rank = 1, .ranks = 4}, {.rank = to, .ranks = 4}).elements);
  EXPECT_EQ(sent, (std::vector<std::uint64_t>{30, 0, 10, 20}));
}

// The check is exact at sizes whose product with the square of the ranks exceeds 64 bits.
TEST(Collectives, send_the_whole_input_in_uneven_blocks_one_behind_the_other) {
  for (const auto& [ranks, size] : {std::pair{1, Bytes{7}},
                                    {2, Bytes{10}},
                                    {5, Bytes{13}},
                                    {31, Bytes{1}},
                                    {4096, Bytes{std::uint64_t{1} << 50}}}) {
    const Shape shape = all_to_allv.shape(size, false, 1, ranks);
    for (const int rank : {0, ranks / 3, ranks - 1}) {
      std::uint64_t sent = 0, received = 0;
      for (int other = 0; other < ranks; ++other) {
        const Member self{.rank = rank, .ranks = ranks}, there{.rank = other, .ranks = ranks};
        const Block out = all_to_allv.block(shape, self, there), in = all_to_allv.block(shape, there, self);
        EXPECT_EQ(out.input_offset, sent);
        EXPECT_EQ(in.output_offset, received);
        sent += out.elements;
        received += in.elements;
      }
      EXPECT_EQ(sent, shape.input_elements);
      EXPECT_EQ(received, shape.output_elements);
    }
  }
}

TEST(Collectives, count_bytes_as_nccl_does_for_tuners) {
  int asked = 0;
  for (const Collective* collective : group_collectives) {
    if (!tuner::parse_function(collective->name)) continue;
    ++asked;
    for (int ranks = 1; ranks <= 7; ++ranks) {
      for (const bool per_rank : {false, true}) {
        const Shape shape = collective->shape({1001}, per_rank, 8, ranks);
        EXPECT_EQ(shape.bytes.count, 8 * std::max(shape.input_elements, shape.output_elements)) << collective->name;
      }
    }
  }
  EXPECT_EQ(asked, 5);
}

TEST(Collectives, have_the_bus_factors_of_nccl_tests) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const double n = ranks;
    EXPECT_DOUBLE_EQ(all_reduce.bus_factor(ranks), 2 * (n - 1) / n);
    for (const Collective* each :
         {&all_gather, &reduce_scatter, &all_to_all, &all_to_allv, &gather, &scatter, &hypercube})
      EXPECT_DOUBLE_EQ(each->bus_factor(ranks), (n - 1) / n) << each->name;
    for (const Collective* each : {&broadcast, &reduce, &send_recv, &p2p})
      EXPECT_DOUBLE_EQ(each->bus_factor(ranks), 1) << each->name;
  }
}

TEST(Collectives, that_devices_initiate_are_counted_as_those_that_hosts_initiate) {
  for (const auto& [device, host] :
       {std::pair(&lsa_all_reduce, &all_reduce), std::pair(&lsa_all_to_all, &all_to_all)}) {
    EXPECT_TRUE(is_device_initiated(device->name));
    EXPECT_FALSE(is_device_initiated(host->name));
    EXPECT_EQ(device->route, host->route);
    EXPECT_EQ(device->reduces, host->reduces);
    for (const int ranks : {2, 3, 8}) {
      EXPECT_EQ(device->bus_factor(ranks), host->bus_factor(ranks));
      EXPECT_LT(device->steps(ranks), host->steps(ranks) + (ranks == 2 ? 1 : 0));
      EXPECT_EQ(device->shape({1000}, false, 4, ranks).bytes, host->shape({1000}, false, 4, ranks).bytes);
    }
    EXPECT_FALSE(device->fits_a_group());
    EXPECT_EQ(name_in_nccl_tests(*device), "");
  }
}

// NCCL's documentation of each call defines its in-place form; nccl-tests has no valid form of the others.
TEST(Collectives, lie_in_place_where_nccl_wants_them) {
  const std::map<const Collective*, std::pair<std::uint64_t, std::uint64_t>> wanted{
      {&all_reduce, {0, 0}},  {&all_gather, {3 * 5, 0}}, {&reduce_scatter, {0, 3 * 5}},
      {&broadcast, {0, 0}},   {&reduce, {0, 0}},         {&gather, {3 * 5, 0}},
      {&scatter, {0, 3 * 5}}, {&hypercube, {3 * 5, 0}},  {&lsa_all_reduce, {0, 0}},
  };
  for (const Collective* collective : collectives()) {
    const auto found = wanted.find(collective);
    ASSERT_EQ(collective->in_place_offset != nullptr, found != wanted.end()) << collective->name;
    if (found == wanted.end()) continue;
    const Shape shape = collective->shape({5}, true, 1, 4);
    const InPlaceOffset offset = collective->in_place_offset(shape, {.rank = 3, .ranks = 4});
    EXPECT_EQ(std::pair(offset.input, offset.output), found->second) << collective->name;
    EXPECT_LE(offset.input + shape.input_elements, in_place_elements(shape)) << collective->name;
    EXPECT_LE(offset.output + shape.output_elements, in_place_elements(shape)) << collective->name;
  }
}

TEST(CollectiveNames, are_those_of_nccl_tests_too) {
  for (const auto& [name, collective] :
       std::initializer_list<std::pair<const char*, const Collective*>>{{"alltoall", &all_to_all},
                                                                        {"alltoallv", &all_to_allv},
                                                                        {"sendrecv", &send_recv},
                                                                        {"all_reduce_perf", &all_reduce},
                                                                        {"alltoall_perf", &all_to_all},
                                                                        {"sendrecv_perf_mpi", &send_recv},
                                                                        {"all_to_all_perf", &all_to_all}})
    EXPECT_EQ(&find_collective(name), collective) << name;
  for (const char* name : {"", "_perf", "p2p_mpi", "perf", "allreduce", "alltoall_mpi"})
    EXPECT_EQ(try_find_collective(name), nullptr) << name;
  for (const Collective* each : collectives())
    if (!name_in_nccl_tests(*each).empty()) {
      EXPECT_EQ(&find_collective(name_in_nccl_tests(*each)), each);
    }
}

}  // namespace
}  // namespace p5
