// Traffic matrices: generators, files, places of blocks, and limits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/route.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/traffic.hpp"
#include "topo/limits.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::array generated{"uniform", "zipf:1.1", "k-hot:2", "ragged", "burst", "expert:64,16,4"};

std::string refusal(const auto& action) {
  try {
    action();
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "";
}

std::vector<std::uint64_t> row(const MatrixTraffic& traffic, int from) {
  std::vector<std::uint64_t> parts;
  for (int to = 0; to < traffic.matrix.ranks; ++to) parts.push_back(traffic.matrix.at(from, to));
  return parts;
}

std::uint64_t sum(const std::vector<std::uint64_t>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
}

// ---- generators

TEST(Traffic, of_a_generator_is_the_same_each_time_and_another_one_for_another_seed) {
  for (const std::string text : {"zipf:1.1", "k-hot:2", "ragged", "burst", "expert:64,16,4"}) {
    EXPECT_EQ(generate_traffic(text, 8).matrix, generate_traffic(text, 8).matrix) << text;
    EXPECT_EQ(generate_traffic(text, 8).matrix, generate_traffic(text + "@1", 8).matrix) << text;
    EXPECT_NE(generate_traffic(text, 8).matrix, generate_traffic(text + "@2", 8).matrix) << text;
  }
}

TEST(Traffic, by_zipf_falls_with_the_power_of_the_place_and_is_alike_for_all_senders) {
  const MatrixTraffic traffic = generate_traffic("zipf:1.3", 16);
  std::vector<std::uint64_t> first = row(traffic, 0);
  for (int from = 1; from < 16; ++from) EXPECT_EQ(row(traffic, from), first);
  std::ranges::sort(first, std::greater{});
  for (std::size_t place = 0; place < first.size(); ++place)
    EXPECT_NEAR(static_cast<double>(first[place]) / static_cast<double>(first[0]),
                std::pow(static_cast<double>(place + 1), -1.3), 1e-5);
}

TEST(Traffic, of_hot_ranks_has_no_other_receivers) {
  const MatrixTraffic traffic = generate_traffic("k-hot:2", 8);
  std::set<int> receivers;
  for (int from = 0; from < 8; ++from)
    for (int to = 0; to < 8; ++to)
      if (traffic.matrix.at(from, to) > 0) receivers.insert(to);
  EXPECT_EQ(receivers.size(), 2u);
  EXPECT_EQ(traffic.busiest, 8u);
  EXPECT_THAT(refusal([] { generate_traffic("k-hot:9", 8); }), HasSubstr("a group has 8"));
}

// A token chooses 4 of 16 experts, 2 on each of 8 ranks: it reaches 2 to 4 ranks.
TEST(Traffic, of_experts_sends_a_token_to_each_rank_once) {
  const MatrixTraffic traffic = generate_traffic("expert:64,16,4", 8);
  for (int from = 0; from < 8; ++from) {
    EXPECT_GE(sum(row(traffic, from)), 64u * 2);
    EXPECT_LT(sum(row(traffic, from)), 64u * 4);
    for (const std::uint64_t tokens : row(traffic, from)) EXPECT_LE(tokens, 64u);
  }
  const MatrixTraffic all = generate_traffic("expert:5,8,8", 4);  // every token goes to every rank
  EXPECT_THAT(row(all, 2), ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(refusal([] { generate_traffic("expert:5,9,2", 4); }), HasSubstr("a multiple of 4"));
  EXPECT_THAT(refusal([] { generate_traffic("expert:5,8,9", 4); }), HasSubstr("choose 9 of 8"));
}

TEST(Traffic, of_a_generator_with_wrong_numbers_is_refused_with_its_form) {
  for (const char* text : {"zipf", "zipf:", "zipf:nan", "zipf:-1", "zipf:1e30", "zipf:1,2", "zipf:11", "k-hot:0",
                           "k-hot:1.5", "k-hot:99999999999999999999", "expert:1,2", "ragged:1"})
    EXPECT_NE(refusal([&] { check_generator(text); }), "") << text;
  EXPECT_THAT(refusal([] { check_generator("zipf:x"); }), HasSubstr("zipf:A: give a number from 0 to 10"));
  EXPECT_THAT(refusal([] { check_generator("ragged@x"); }), HasSubstr("seed"));
  EXPECT_FALSE(is_generated("matrix.csv"));
  EXPECT_TRUE(is_generated("zipf:1.1@3"));
}

// ---- files

TEST(Traffic, of_a_file_has_its_bytes) {
  const MatrixTraffic traffic =
      traffic_from_csv("dir/t.csv", "# three ranks\n0, 4096,1KiB\r\n\n 8 ,0,0\n0,0,5 # no more\n", 3);
  EXPECT_THAT(row(traffic, 0), ElementsAre(0, 4096, 1024));
  EXPECT_THAT(row(traffic, 1), ElementsAre(8, 0, 0));
  EXPECT_EQ(traffic.busiest, 5120u);
  EXPECT_TRUE(traffic.counts_bytes);
  EXPECT_EQ(traffic.name.substr(0, 6), "t.csv ");
  EXPECT_NE(traffic.name, traffic_from_csv("t.csv", "0,4096,1025\n8,0,0\n0,0,5\n", 3).name);
}

TEST(Traffic, of_a_bad_file_is_refused_by_line_and_cell) {
  const auto why = [](std::string_view text, int ranks = 2) {
    return refusal([&] { traffic_from_csv("t.csv", text, ranks); });
  };
  for (const char* cell :
       {"-1", "nan", "1e9", "1.5", "x", "0x10", "99999999999999999999", "\xff\xfe", "1 2", "9999T"}) {
    const std::string text = why(fmt::format("0,1\n{},0\n", cell));
    EXPECT_THAT(text, HasSubstr("'t.csv', line 2, cell 1: ")) << cell;
    EXPECT_THAT(text, HasSubstr("write")) << cell;
  }
  EXPECT_THAT(why("0,1\n1\n"), HasSubstr("line 2 has 1 cells, and the group 2 ranks; write 2 lines of 2 numbers"));
  for (const char* const other : {"0;1\n1;0\n", "0\t1\n1\t0\n"})
    EXPECT_THAT(why(other),
                HasSubstr("line 1 has 1 cells, and the group 2 ranks; write 2 lines of 2 numbers of bytes with "
                          "commas between them"));
  EXPECT_THAT(why("0,1\n1,0\n1,0\n"), HasSubstr("line 3 is one too many"));
  EXPECT_THAT(why("0,1\n"), HasSubstr("it has 1 lines, and the group 2 ranks"));
  EXPECT_THAT(why(""), HasSubstr("it has 0 lines"));
  EXPECT_THAT(why("0,1\n1,\n"), HasSubstr("line 2, cell 2: it is empty; write 0"));
  EXPECT_THAT(why("5,0\n0,5\n"), HasSubstr("no rank sends anything to another one"));
  EXPECT_THAT(why("0,2251799813685248\n1,0\n"), HasSubstr("beyond every machine"));
}

// ---- places of blocks

// Blocks of all sizes lie apart, aligned to 16 bytes, within the buffers, and each has at least its share.
TEST(Traffic, puts_blocks_one_behind_the_other) {
  for (const std::string text : generated)
    for (const int ranks : {2, 8})
      for (const std::size_t element : {1, 4, 8})
        for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 40}) {
          const auto traffic = std::make_shared<const MatrixTraffic>(generate_traffic(text, ranks));
          const Shape shape = shape_of(traffic, {size}, element);
          std::uint64_t most = 0;
          std::vector<std::uint64_t> received(static_cast<std::size_t>(ranks));
          for (int from = 0; from < ranks; ++from) {
            std::uint64_t sent = 0, end = 0;
            for (int to = 0; to < ranks; ++to) {
              const Block block = all_to_allv.block(shape, {from, ranks}, {to, ranks});
              EXPECT_EQ(block.elements > 0, traffic->matrix.at(from, to) > 0);
              if (block.elements == 0) continue;
              EXPECT_EQ(block.input_offset * element % 16, 0u);
              EXPECT_GE(block.input_offset, end);
              end = block.input_offset + block.elements;
              const double share =
                  static_cast<double>(traffic->matrix.at(from, to)) / static_cast<double>(traffic->busiest);
              EXPECT_GE(static_cast<double>(block.elements * element), share * static_cast<double>(size) * (1 - 1e-12));
              EXPECT_LT(
                  static_cast<double>(block.elements),
                  share * std::ceil(static_cast<double>(size) / static_cast<double>(element)) * (1 + 1e-12) + 1.001);
              sent += block.elements;
              received[static_cast<std::size_t>(to)] += block.elements;
            }
            EXPECT_LE(end, shape.input_elements);
            most = std::max(most, sent);
          }
          for (const std::uint64_t elements : received) most = std::max(most, elements);
          EXPECT_EQ(shape.bytes.count, most * element);
          for (int to = 0; to < ranks; ++to) {
            std::uint64_t end = 0;
            for (const Segment& segment : all_to_allv.result(shape, {to, ranks}, "")) {
              EXPECT_EQ(segment.output_offset * element % 16, 0u);
              EXPECT_GE(segment.output_offset, end);
              end = segment.output_offset + segment.elements;
            }
            EXPECT_LE(end, shape.output_elements);
          }
        }
}

TEST(Traffic, of_a_file_moves_its_bytes_exactly) {
  const auto traffic = std::make_shared<const MatrixTraffic>(traffic_from_csv("t", "0,4096,1024\n8,0,0\n16,0,4\n", 3));
  const Shape shape = shape_of(traffic, {traffic->busiest}, 4);
  EXPECT_EQ(shape.bytes.count, 5120u);
  EXPECT_EQ(all_to_allv.block(shape, {0, 3}, {1, 3}).elements, 1024u);
  EXPECT_EQ(all_to_allv.block(shape, {2, 3}, {2, 3}).elements, 1u);
}

// ---- limits

std::vector<std::vector<int>> whole_job(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

TrafficMatrix default_matrix(int ranks) {
  TrafficMatrix matrix{ranks, {}};
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) matrix.parts.push_back(static_cast<std::uint64_t>((to - from + ranks) % ranks));
  return matrix;
}

// A uniform matrix is an all_to_all, and the default traffic of all_to_allv has a matrix too.
TEST(TrafficLimits, are_those_of_the_collectives_with_such_matrices) {
  int compared = 0;
  for (const topo::Platform& platform : topo::platforms())
    for (const int nodes : {1, 2, 3, 4})
      for (const topo::Level level : {topo::Level::wire, topo::Level::achievable}) {
        const topo::Limits limits = limits_of(platform);
        const int ranks = nodes * platform.gpus;
        for (const auto& [collective, matrix] :
             {std::pair{&all_to_all, generate_traffic("uniform", std::max(ranks, 2)).matrix},
              std::pair{&all_to_allv, default_matrix(ranks)}}) {
          const auto wanted =
              limit_of(limits, topo::Operation{.route = collective->route, .ranks = ranks, .nodes = nodes}, level);
          if (!wanted) continue;
          const auto load = load_of(matrix, whole_job(ranks), synthetic(platform, nodes), limits, level);
          ASSERT_TRUE(load) << platform.name << " " << nodes;
          const topo::Limit limit = limit_of(*load, level, collective->bus_factor(ranks));
          // The limit of the collective takes the first rank of a node for all; where GPUs share a NIC, the others with
          // it send less.
          if (collective == &all_to_allv && platform.nics < platform.gpus && nodes > 1)
            EXPECT_GE(limit.rate.count, wanted->rate.count) << platform.name;
          else
            EXPECT_NEAR(limit.rate.count, wanted->rate.count, 1e-9 * wanted->rate.count)
                << platform.name << " " << nodes << " " << collective->name << ": " << limit.because;
          EXPECT_EQ(limit.binding, wanted->binding);
          ++compared;
        }
      }
  EXPECT_GE(compared, 40);
}

TEST(TrafficLimits, name_the_part_that_decides) {
  const topo::Platform& platform = topo::find_platform("p5.48xlarge");
  const topo::Limits limits = limits_of(platform);
  TrafficMatrix matrix{16, std::vector<std::uint64_t>(256)};
  for (int from = 8; from < 16; ++from) matrix.at(from, 3) = 1;  // all of the second node to one rank of the first
  const auto load = load_of(matrix, whole_job(16), synthetic(platform, 2), limits, topo::Level::wire);
  ASSERT_TRUE(load);
  const topo::TrafficPart& first = load->parts.front();
  EXPECT_THAT(first.name, HasSubstr("rdma12, rdma13, rdma14, rdma15 of n0"));
  EXPECT_TRUE(first.receives);
  EXPECT_THAT(first.members, ElementsAre(3));
  EXPECT_DOUBLE_EQ(first.load, 1);
  EXPECT_DOUBLE_EQ(first.rate.count, 50);
  EXPECT_DOUBLE_EQ(load->received_imbalance, 16);
  EXPECT_DOUBLE_EQ(load->sent_imbalance, 2);
  // Each sender is busy for an eighth of the time.
  EXPECT_DOUBLE_EQ(load->incast_loss, 7.0 / 8);
}

TEST(TrafficLimits, are_unknown_where_the_rate_of_a_used_part_is) {
  const topo::Topology topology = synthetic(topo::find_platform("p5.48xlarge"), 2);
  EXPECT_FALSE(load_of(default_matrix(16), whole_job(16), topology, {}, topo::Level::wire));
}

// ---- the linear program

// A machine with random parts, and the groups and matrix on it.
struct RandomJob {
  topo::Topology topology;
  topo::Limits limits;
  std::vector<std::vector<int>> groups;
  TrafficMatrix matrix;
};

topo::Limit limit(std::string_view name, double rate, std::string binding) {
  return {std::string(name), topo::Level::wire, {rate}, std::move(binding), "drawn"};
}

RandomJob draw_job(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const auto rate = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  RandomJob job;
  const int nodes = between(1, 3), gpus = between(nodes == 1 ? 2 : 1, 4), nics = between(1, 5);
  double least_sum = 1e9;
  for (int node = 0; node < nodes; ++node) {
    topo::Host host;
    host.name = fmt::format("n{}", node);
    double all = 0;
    for (int nic = 0; nic < nics; ++nic) {
      topo::Nic its;
      its.name = fmt::format("nic{}", nic);
      its.rate = GBps{rate(5, 50)};
      all += its.rate->count;
      host.nics.push_back(its);
    }
    least_sum = std::min(least_sum, all);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      topo::Gpu its;
      its.uuid = fmt::format("n{}g{}", node, gpu);
      for (int nic = 0; nic < nics; ++nic)
        if (between(0, 1) == 1) its.nics.push_back(fmt::format("nic{}", nic));
      if (its.nics.empty()) its.nics.push_back(fmt::format("nic{}", between(0, nics - 1)));
      host.gpu_devices.push_back(its);
      job.topology.host_of_rank.push_back(node);
      job.topology.gpu_of_rank.push_back(its.uuid);
    }
    job.topology.hosts.push_back(host);
  }
  job.limits = {limit(topo::gpu_link, rate(20, 400), "nvlink"), limit(topo::one_nic, 10, "nic"),
                limit(topo::gpu_nics, 10, "nic"), limit(topo::node_nics, least_sum * rate(0.5, 1.2), "nic")};
  const int ranks = nodes * gpus;
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  const int count = ranks >= 4 && between(0, 2) == 0 ? 2 : 1, size = ranks / count;
  for (int group = 0; group < count; ++group)
    job.groups.emplace_back(order.begin() + group * size, order.begin() + (group + 1) * size);
  job.matrix = {size, {}};
  for (int block = 0; block < size * size; ++block)
    job.matrix.parts.push_back(between(0, 2) == 0 ? 0 : random() % (between(0, 3) == 0 ? 100'000 : 1000));
  job.matrix.at(0, 1) = 500;
  return job;
}

// Adds to a program in CPLEX's format: the least time T in which flows over all pairs of NICs carry all blocks.
void add_program(const RandomJob& job, int number, std::ostream& rows) {
  std::map<std::string, std::vector<std::string>> through;  // flows by the part that carries them
  std::map<std::string, double> fixed, rates;               // loads without a choice
  const auto busiest = static_cast<double>(busiest_sum(job.matrix));
  const topo::Limits& limits = job.limits;
  const auto host_of = [&](int rank) { return job.topology.host_of_rank[static_cast<std::size_t>(rank)]; };
  const auto gpu_of = [&](int rank) -> const topo::Gpu& {
    for (const topo::Gpu& gpu : job.topology.hosts[static_cast<std::size_t>(host_of(rank))].gpu_devices)
      if (gpu.uuid == job.topology.gpu_of_rank[static_cast<std::size_t>(rank)]) return gpu;
    throw std::logic_error("no GPU");
  };
  for (std::size_t host = 0; host < job.topology.hosts.size(); ++host)
    for (const char* const way : {"out", "in"}) {
      for (const topo::Nic& nic : job.topology.hosts[host].nics)
        rates[fmt::format("{} {} {}", way, host, nic.name)] = nic.rate->count;
      rates[fmt::format("{} {} all", way, host)] = find(limits, topo::node_nics, topo::Level::wire)->rate.count;
    }
  for (const std::vector<int>& group : job.groups)
    for (int a = 0; a < job.matrix.ranks; ++a)
      for (int b = 0; b < job.matrix.ranks; ++b) {
        const double part = static_cast<double>(job.matrix.at(a, b)) / busiest;
        if (a == b || part == 0) continue;
        const int from = group[static_cast<std::size_t>(a)], to = group[static_cast<std::size_t>(b)];
        if (host_of(from) == host_of(to)) {
          for (const std::string& link : {fmt::format("link out {}", from), fmt::format("link in {}", to)}) {
            fixed[link] += part;
            rates[link] = find(limits, topo::gpu_link, topo::Level::wire)->rate.count;
          }
          continue;
        }
        std::string all;
        for (const std::string& source : gpu_of(from).nics)
          for (const std::string& target : gpu_of(to).nics) {
            const std::string flow = fmt::format("f{}_{}_{}_{}_{}", number, from, to, source, target);
            all += (all.empty() ? "" : " + ") + flow;
            for (const std::string& way :
                 {fmt::format("out {} {}", host_of(from), source), fmt::format("out {} all", host_of(from)),
                  fmt::format("in {} {}", host_of(to), target), fmt::format("in {} all", host_of(to))})
              through[way].push_back(flow);
          }
        rows << " " << all << fmt::format(" = {:.12g}\n", part);
      }
  for (const auto& [part, flows] : through) {
    rows << fmt::format(" {:.12g} T{}", rates.at(part), number);
    for (const std::string& flow : flows) rows << "\n  - " << flow;
    rows << " >= 0\n";
  }
  for (const auto& [part, load] : fixed) rows << fmt::format(" {:.12g} T{} >= {:.12g}\n", rates.at(part), number, load);
}

// The least times of jobs, by GLPK, without its presolver, which drops bounds below 1e-3.
std::vector<double> solve(const std::vector<RandomJob>& jobs) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("p5bench-traffic-{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string program = folder / "program.lp", solution = folder / "solution";
  {
    std::ofstream file(program);
    file << "Minimize\n all:";
    for (std::size_t i = 0; i < jobs.size(); ++i) file << fmt::format(" + T{}\n", i);
    file << "Subject To\n";
    for (std::size_t i = 0; i < jobs.size(); ++i) add_program(jobs[i], static_cast<int>(i), file);
    file << "End\n";
  }
  const int code = std::system(
      fmt::format("glpsol --nopresol --lp {} -w {} > {} 2>&1", program, solution, std::string(folder / "log")).c_str());
  EXPECT_EQ(code, 0);
  // "j COLUMN STATUS VALUE MARGINAL"; the objective's columns come first.
  std::vector<double> times(jobs.size(), -1);
  std::ifstream file(solution);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, status;
    std::size_t column = 0;
    double value = 0;
    if (words >> kind >> column >> status >> value && kind == "j" && column <= times.size()) times[column - 1] = value;
  }
  std::filesystem::remove_all(folder);
  return times;
}

TEST(TrafficPrograms, agree_with_the_limits_of_random_matrices_on_random_machines) {
  ASSERT_EQ(std::system("glpsol --version > /dev/null 2>&1"), 0) << "install glpk-utils";
  const int batches = std::getenv("P5BENCH_NIGHTLY") ? 40 : 1;
  constexpr int jobs_of_batch = 25;
  int shared = 0;
  double furthest = 0;
  for (int batch = 0; batch < batches; ++batch) {
    std::vector<RandomJob> jobs;
    for (int i = 0; i < jobs_of_batch; ++i)
      jobs.push_back(draw_job(static_cast<std::uint64_t>(batch * jobs_of_batch + i)));
    const std::vector<double> times = solve(jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const RandomJob& job = jobs[i];
      const auto load = load_of(job.matrix, job.groups, job.topology, job.limits, topo::Level::wire);
      ASSERT_TRUE(load);
      const double time = load->parts.front().time();
      furthest = std::max(furthest, std::abs(time / times[i] - 1));
      EXPECT_NEAR(time, times[i], 1e-6 * times[i]) << batch << " " << i << ": " << load->parts.front().name;
      shared += load->parts.front().members.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(shared, 2 * batches);  // sets of ranks together decide often enough for the program to be needed
  RecordProperty("furthest", fmt::format("{:.2g}", furthest));
}

}  // namespace
}  // namespace p5
