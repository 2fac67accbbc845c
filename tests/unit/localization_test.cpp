// Localization alone: invented counts of slow samples, and the parts that explain them.
#include "reports/observations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace p5::reports {
namespace {

using testing::SizeIs;

// Four hosts with one rank each that uses four NICs, like hosts without GPUs.
class FourHosts : public testing::Test {
 protected:
  FourHosts() {
    for (int node = 0; node < 4; ++node) {
      topo::Host& host = topology_.hosts.emplace_back();
      host.name = "h" + std::to_string(node);
      topology_.host_of_rank.push_back(node);
      topology_.nics_of_rank.push_back({"net0", "net1", "net2", "net3"});
    }
  }

  // Each pair of hosts has split messages and messages over each NIC alone. The share of slow samples is that of the
  // slower host.
  template <class Split, class Alone>
  std::vector<TransferRecord> records(const Split& split, const Alone& alone) const {
    std::vector<TransferRecord> all;
    const auto add = [&](Transfers kind, int a, int b, std::optional<int> nic, double share) {
      TransferRecord record;
      record.kind = kind;
      record.ranks = {{a, 0}, {b, 0}};
      record.nic = nic;
      record.slow = {30, static_cast<int>(30 * share)};
      all.push_back(std::move(record));
    };
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b) {
        add(Transfers::between_nodes, a, b, {}, std::max(split(a), split(b)));
        for (int nic = 0; nic < 4; ++nic) add(Transfers::single_nic, a, b, nic, std::max(alone(a, nic), alone(b, nic)));
      }
    return all;
  }

  std::vector<FaultyPart> faulty(const std::vector<TransferRecord>& records, Fault fault = Fault::slow) const {
    const NicNumbers numbers(topology_);
    return localize(records, {.nics = &numbers, .own_nics = true}, fault, accepted_log_odds);
  }

  topo::Topology topology_;
};

TEST_F(FourHosts, with_a_slow_nic_have_no_other_faulty_part_where_split_messages_are_slow_less_often) {
  for (const double share : {0.3, 0.5, 0.65, 0.8, 1.0}) {
    const std::vector<TransferRecord> seen =
        records([&](int node) { return node == 1 ? share : 0; },
                [](int node, int nic) { return node == 1 && nic == 2 ? 1.0 : 0.0; });
    const std::vector<FaultyPart> found = faulty(seen);
    ASSERT_THAT(found, SizeIs(1)) << share;
    EXPECT_EQ(found[0].part, (Part{Part::Kind::nic, 1, 2})) << share;
    EXPECT_GT(found[0].confidence, 0.99) << share;
  }
}

TEST_F(FourHosts, with_a_slow_nic_beside_a_slow_host_have_both) {
  const std::vector<TransferRecord> seen =
      records([](int node) { return node == 3   ? 1.0
                                    : node == 0 ? 0.64
                                                : 0.0; },
              [](int node, int nic) { return node == 3 || (node == 0 && nic == 0) ? 1.0 : 0.0; });
  const std::vector<FaultyPart> found = faulty(seen);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].part, (Part{Part::Kind::node, 3, 0}));
  EXPECT_EQ(found[1].part, (Part{Part::Kind::nic, 0, 0}));
}

TEST_F(FourHosts, accuse_nobody_of_a_single_silent_round) {
  std::vector<TransferRecord> seen = records([](int) { return 0.0; }, [](int, int) { return 0.0; });
  for (TransferRecord& record : seen) record.silent = {1, 0};
  seen.front().silent.hits = 1;
  EXPECT_THAT(faulty(seen, Fault::silent), SizeIs(0));
  seen.front().silent = {3, 3};
  EXPECT_THAT(faulty(seen, Fault::silent), SizeIs(1));
}

TEST_F(FourHosts, without_gpus_have_none_at_fault) {
  TransferRecord within;
  within.ranks = {{0, 0}, {0, 1}};
  within.silent = {5, 5};
  const NicNumbers numbers(topology_);
  const std::vector<TransferRecord> seen{within};
  for (const bool gpus : {true, false}) {
    const std::vector<FaultyPart> found =
        localize(seen, {.nics = &numbers, .gpus = gpus}, Fault::silent, accepted_log_odds);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].part.kind == Part::Kind::node, !gpus);
  }
}

}  // namespace
}  // namespace p5::reports
