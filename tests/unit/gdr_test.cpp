// Which path between a NIC and a GPU is called slow.
#include "reports/gdr.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "bench/base/statistics.hpp"
#include "bench/model/collective.hpp"

namespace p5::reports {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double full = 12.5;  // GB/s

// Two hosts of one rank with two NICs and four GPUs; NICs 0 and 1 are beside GPUs 0 and 2.
class GdrPaths : public testing::Test {
 protected:
  GdrPaths() {
    for (const char* const name : {"alpha", "beta"}) {
      topology_.hosts.emplace_back().name = name;
      topology_.host_of_rank.push_back(static_cast<int>(topology_.hosts.size()) - 1);
      topology_.nics_of_rank.push_back({"rdmap1s0", "rdmap2s0"});
      gpus_.gpus_of_rank.push_back({"0000:10:00.0", "0000:11:00.0", "0000:20:00.0", "0000:21:00.0"});
      gpus_.beside_of_rank.push_back({0, 2});
    }
    for (const std::optional<int> gpu : {std::optional<int>(), std::optional(2)})
      for (const int nic : {0, 1}) {
        Measurement& m = measured_.emplace_back();
        m.measured_case.collective = &find_collective("p2p");
        m.measured_case.nic = nic;
        m.measured_case.gpu = gpu;
        m.measured_case.bytes = MiB(1);
        m.groups = {{{0, 1}, time_of(full)}, {{1, 0}, time_of(full)}};
      }
  }

  static Seconds time_of(double rate) { return {static_cast<double>(MiB(1).count) / rate * 1e-9}; }
  // Out of the memory of that host's GPU.
  Seconds& from(int host, int nic, bool far) {
    return measured_[static_cast<std::size_t>(2 * far + nic)].groups[static_cast<std::size_t>(host)].median;
  }
  std::vector<GdrPath> paths() const { return gdr_paths(topology_, gpus_, measured_); }

  topo::Topology topology_;
  GpusOfNics gpus_;
  std::vector<Measurement> measured_;
};

TEST_F(GdrPaths, are_named_by_host_gpu_and_nic_and_sound_ones_accuse_nobody) {
  const std::vector<GdrPath> all = paths();
  ASSERT_EQ(all.size(), 8u);
  EXPECT_THAT(all[0], AllOf(Field(&GdrPath::host, "alpha"), Field(&GdrPath::gpu, "0000:10:00.0"),
                            Field(&GdrPath::nic, "rdmap1s0"), Field(&GdrPath::beside, true)));
  // Two further than the one beside it, round the end.
  EXPECT_THAT(all[1], AllOf(Field(&GdrPath::gpu, "0000:10:00.0"), Field(&GdrPath::nic, "rdmap2s0"),
                            Field(&GdrPath::beside, false)));
  EXPECT_NEAR(all[0].gb_per_s, full, 1e-9);
  EXPECT_THAT(slow_paths(all), IsEmpty());
}

TEST_F(GdrPaths, that_are_slow_alone_are_told_with_both_ends) {
  from(1, 0, true) = time_of(full / 2);
  const std::vector<topo::Finding> found = slow_paths(paths());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject.host, "beta");
  EXPECT_EQ(found[0].subject.nic, "rdmap1s0");
  EXPECT_THAT(found[0].evidence, HasSubstr("the GPU 0000:20:00.0 at 6.25 GB/s"));
  EXPECT_THAT(gdr_text(paths()), HasSubstr("slow: beta 0000:20:00.0 to rdmap1s0"));
}

TEST_F(GdrPaths, that_were_disturbed_count_by_the_best_that_they_showed) {
  from(1, 0, true) = time_of(full / 2);
  measured_[2].groups[1].samples = {static_cast<float>(time_of(full / 3).count),
                                    static_cast<float>(time_of(full).count)};
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

TEST_F(GdrPaths, of_a_nic_that_is_slow_from_every_gpu_are_the_nics_fault) {
  from(1, 0, false) = from(1, 0, true) = time_of(full / 2);
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

// A third host whose first NIC is slow: from the nearest GPU each NIC has both other hosts as partners, from the far
// one a single partner.
class GdrPathsOfThreeHosts : public GdrPaths {
 protected:
  GdrPathsOfThreeHosts() {
    topology_.hosts.emplace_back().name = "gamma";
    topology_.host_of_rank.push_back(2);
    topology_.nics_of_rank.push_back(topology_.nics_of_rank.front());
    gpus_.gpus_of_rank.push_back(gpus_.gpus_of_rank.front());
    gpus_.beside_of_rank.push_back(gpus_.beside_of_rank.front());
    for (Measurement& m : measured_) {
      m.groups.clear();
      for (int source = 0; source < 3; ++source)
        for (const int partner : {(source + 1) % 3, (source + 2) % 3})
          if (!m.measured_case.gpu || partner == (source + 1) % 3) {
            const bool slow = *m.measured_case.nic == 0 && (source == 2 || partner == 2);
            m.groups.push_back({{source, partner}, time_of(slow ? full / 2 : full)});
          }
    }
  }
};

TEST_F(GdrPathsOfThreeHosts, to_a_slow_nic_of_the_only_partner_accuse_nobody) {
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

TEST_F(GdrPathsOfThreeHosts, are_slow_where_they_are_slower_than_the_partner) {
  measured_[2].groups[1].median = time_of(full / 4);  // beta to gamma, whose NIC takes twice as much
  const std::vector<topo::Finding> found = slow_paths(paths());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject.host, "beta");
}

TEST_F(GdrPathsOfThreeHosts, with_partners_that_were_not_measured_from_the_nearest_gpu_are_not_judged) {
  std::erase_if(measured_[0].groups, [](const GroupResult& pair) { return pair.group == Group{1, 2}; });
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

TEST_F(GdrPaths, two_slow_ones_do_not_hide_each_other) {
  from(1, 0, true) = from(0, 1, true) = time_of(full / 2);
  EXPECT_EQ(slow_paths(paths()).size(), 2u);
}

// Rates as one machine under load gave them, all of sound paths.
TEST_F(GdrPaths, that_differ_among_themselves_accuse_nobody) {
  constexpr std::array rates{37.7, 16.4, 25.6, 20.1, 15.2, 14.9, 20.7, 14.8};
  for (std::size_t i = 0; i < rates.size(); ++i)
    from(static_cast<int>(i / 2 % 2), static_cast<int>(i % 2), i >= 4) = time_of(rates[i]);
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

// Log rates scatter by their share, uniformly; the figures are of 400 machines.
TEST_F(GdrPaths, are_held_against_the_scatter_of_the_others) {
  constexpr int machines = 400;
  constexpr double scatter = 0.1;
  Random random(7);
  int accused = 0, named = 0;
  for (int i = 0; i < machines; ++i) {
    for (const int host : {0, 1})
      for (const int nic : {0, 1})
        for (const bool far : {false, true})
          from(host, nic, far) =
              time_of(full * std::exp(scatter * (static_cast<double>(random.below(2001)) / 1000 - 1)));
    accused += !slow_paths(paths()).empty();
    from(1, 0, true) = time_of(full / 4);
    const std::vector<topo::Finding> found = slow_paths(paths());
    named += found.size() == 1 && found[0].subject.host == "beta" && found[0].subject.nic == "rdmap1s0";
  }
  EXPECT_LE(accused, machines / 50);
  EXPECT_GE(named, machines * 98 / 100);
}

TEST_F(GdrPaths, far_and_beside_are_held_against_their_own_kind) {
  for (const int host : {0, 1})
    for (const int nic : {0, 1}) from(host, nic, true) = time_of(full / 2);
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
}

// Hosts of two sockets: NICs 4i to 4i+3 are beside GPUs 2i and 2i+1.
TEST_F(GdrPaths, across_sockets_are_held_against_their_own_kind) {
  topology_ = {};
  gpus_ = {};
  measured_.clear();
  for (const int number : {0, 1}) {
    topo::Host& host = topology_.hosts.emplace_back();
    host.name = fmt::format("h{}", number);
    topology_.host_of_rank.push_back(number);
    std::vector<std::string>& addresses = gpus_.gpus_of_rank.emplace_back();
    std::vector<int>& beside = gpus_.beside_of_rank.emplace_back();
    std::vector<std::string>& names = topology_.nics_of_rank.emplace_back();
    for (int i = 0; i < 8; ++i) {
      topo::Gpu& gpu = host.gpu_devices.emplace_back();
      gpu.pci.address = addresses.emplace_back(fmt::format("0000:{}0:00.0", i));
      gpu.numa_node = i / 4;
    }
    for (int i = 0; i < 16; ++i) {
      topo::Nic& nic = host.nics.emplace_back();
      nic.name = names.emplace_back(fmt::format("rdmap{}s0", i));
      nic.numa_node = i / 8;
      beside.push_back(i / 2);
      for (const int gpu : {i / 4 * 2, i / 4 * 2 + 1})
        host.gpu_devices[static_cast<std::size_t>(gpu)].nics.push_back(nic.name);
    }
  }
  for (const std::optional<int> gpu : {std::optional<int>(), std::optional(1), std::optional(4)})
    for (int nic = 0; nic < 16; ++nic) {
      const int source = (nic / 2 + gpu.value_or(0)) % 8;
      const double rate = source / 2 == nic / 4 ? 24.5 : source / 4 == nic / 8 ? 24 : 12;
      Measurement& m = measured_.emplace_back();
      m.measured_case.collective = &find_collective("p2p");
      m.measured_case.nic = nic;
      m.measured_case.gpu = gpu;
      m.measured_case.bytes = MiB(1);
      m.groups = {{{0, 1}, time_of(rate * (1 + 0.002 * (nic % 5)))}, {{1, 0}, time_of(rate)}};
    }
  EXPECT_THAT(slow_paths(paths()), IsEmpty());
  measured_.back().groups[0].median = time_of(6);
  const std::vector<topo::Finding> found = slow_paths(paths());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject.nic, "rdmap15s0");
  EXPECT_THAT(found[0].evidence, HasSubstr("of the 39 other paths between a NIC and a GPU of another NUMA node"));
}

// Four hosts whose two GPUs are on these NUMA nodes. `rate`: of a path from a GPU to a NIC.
template <class Rate>
std::vector<topo::Finding> slow_paths_of_four(const std::vector<int>& gpus, const std::vector<topo::Nic>& nics,
                                              const Rate& rate) {
  topo::Topology topology;
  GpusOfNics of_ranks;
  const auto beside = [&](int nic) { return nic * 2 / static_cast<int>(nics.size()); };  // as the worker chooses
  for (int number = 0; number < 4; ++number) {
    topo::Host& host = topology.hosts.emplace_back();
    host.name = fmt::format("h{}", number);
    host.nics = nics;
    topology.host_of_rank.push_back(number);
    std::vector<std::string>& names = topology.nics_of_rank.emplace_back();
    std::vector<std::string>& addresses = of_ranks.gpus_of_rank.emplace_back();
    std::vector<int>& places = of_ranks.beside_of_rank.emplace_back();
    for (const int numa : gpus) {
      topo::Gpu& gpu = host.gpu_devices.emplace_back();
      gpu.numa_node = numa;
      gpu.pci.address = addresses.emplace_back(fmt::format("0000:{}0:00.0", addresses.size() + 1));
      for (const topo::Nic& nic : nics)
        if (nic.numa_node == numa) gpu.nics.push_back(nic.name);
    }
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      names.push_back(nics[nic].name);
      places.push_back(beside(static_cast<int>(nic)));
    }
  }
  std::vector<Measurement> measured;
  for (const std::optional<int> gpu : {std::optional<int>(), std::optional(1)})
    for (int nic = 0; nic < static_cast<int>(nics.size()); ++nic) {
      Measurement& m = measured.emplace_back();
      m.measured_case.collective = &find_collective("p2p");
      m.measured_case.nic = nic;
      m.measured_case.gpu = gpu;
      m.measured_case.bytes = MiB(1);
      const double its = rate((beside(nic) + gpu.value_or(0)) % 2, nic);
      const Seconds time{static_cast<double>(MiB(1).count) / its * 1e-9};
      for (int host = 0; host < 4; ++host) m.groups.push_back({{host, (host + 1) % 4}, time});
    }
  return slow_paths(gdr_paths(topology, of_ranks, measured));
}

topo::Nic nic_port(const std::string& name, double rate, int numa) {
  return {name, "infiniband", "mlx5_core", "up", GBps{rate}, numa};
}

TEST_F(GdrPaths, of_a_nic_without_a_gpu_on_its_numa_node_are_across_and_not_beside) {
  const auto rate = [](int, int nic) { return nic == 0 ? 24.5 : 12; };
  EXPECT_THAT(slow_paths_of_four({0, 0}, {nic_port("mlx5_0", 50, 0), nic_port("mlx5_1", 50, 1)}, rate), IsEmpty());
}

TEST_F(GdrPaths, of_slower_nics_are_held_against_their_own_kind) {
  const auto rate = [](int gpu, int nic) { return gpu == 1 ? 12.0 : nic == 1 ? 22.0 : 45.0; };
  const std::vector<topo::Nic> nics{nic_port("mlx5_0", 50, 0), nic_port("mlx5_1", 25, 0), nic_port("mlx5_2", 50, 1),
                                    nic_port("mlx5_3", 50, 1)};
  const auto symmetric = [&](int gpu, int nic) { return rate(nic < 2 ? gpu : 1 - gpu, nic); };
  EXPECT_THAT(slow_paths_of_four({0, 1}, nics, symmetric), IsEmpty());
}

TEST_F(GdrPaths, a_host_that_lists_a_nic_beside_a_gpu_is_believed) {
  topo::Gpu& gpu = topology_.hosts[0].gpu_devices.emplace_back();
  gpu.pci.address = "0000:20:00.0";
  gpu.nics = {"rdmap1s0"};
  int beside = 0;
  for (const GdrPath& path : paths()) beside += path.beside;
  EXPECT_EQ(beside, 5);
}

}  // namespace
}  // namespace p5::reports
