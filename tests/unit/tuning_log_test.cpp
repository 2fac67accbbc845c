#include "bench/backends/nccl/tuning_log.hpp"

#include <gtest/gtest.h>

namespace p5::nccl {

namespace {

Selection selection_in(std::string_view log) {
  const auto selection = parse_tuning_log(log);
  EXPECT_TRUE(selection);
  return selection.value_or(Selection{});
}

TEST(tuning_log, names_and_channels_as_nccl_2_24_writes_them) {
  const Selection s =
      selection_in("h:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}\n");
  EXPECT_EQ(s.algorithm, "ring");
  EXPECT_EQ(s.protocol, "ll128");
  EXPECT_EQ(s.channels, 16);
  EXPECT_EQ(s.source, "nccl log");
}

TEST(tuning_log, numbers_of_older_versions_become_names) {
  const Selection s = selection_in("h:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 5 proto 2 time 12.5\n");
  EXPECT_EQ(s.algorithm, "nvls_tree");
  EXPECT_EQ(s.protocol, "simple");
  EXPECT_EQ(s.channels, 0);
}

TEST(tuning_log, kernels_on_symmetric_memory_have_a_name_of_their_own) {
  const Selection s =
      selection_in("AllReduce [Symmetric]: 64 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 nthreads 5\n");
  EXPECT_EQ(s.algorithm, "allreduce_agxll_r");
  EXPECT_EQ(s.protocol, "symmetric");
  EXPECT_EQ(s.channels, 4);
}

TEST(tuning_log, the_newest_choice_counts) {
  const Selection s = selection_in(
      "AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}\n"
      "AllReduce: 9 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..7}\n"
      "something else\n\n");
  EXPECT_EQ(s.algorithm, "nvls");
}

TEST(tuning_log, a_log_without_a_choice_tells_nothing) {
  EXPECT_FALSE(parse_tuning_log(""));
  EXPECT_FALSE(parse_tuning_log("\n\n"));
  EXPECT_FALSE(parse_tuning_log("NCCL version 2.28.9+cuda13.0\n"));
}

TEST(tuning_log, subsystems_are_the_operators_and_ours) {
  EXPECT_EQ(subsystems_with_ours("", "INIT,TUNING"), "INIT,TUNING");
  EXPECT_EQ(subsystems_with_ours("COLL", "INIT,TUNING"), "COLL,INIT,TUNING");
  EXPECT_EQ(subsystems_with_ours("^COLL,init,P2P", "INIT,TUNING"), "^COLL,P2P");
  EXPECT_EQ(subsystems_with_ours("^tuning", "INIT,TUNING"), "ALL");
}

}  // namespace

}  // namespace p5::nccl
