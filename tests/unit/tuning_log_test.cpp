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

TEST(tuning_log, tells_the_parts_of_an_initialization) {
  const CommunicatorCosts parts = parse_init_timings(
      "h:1:1 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.67 (kernels 0.12, alloc 0.01, "
      "bootstrap 0.04, allgathers 0.00, topo 0.35, graphs 0.00, connections 0.13, rest 0.02)\nh:1:1 [0] more (a "
      "1.00)\n");
  EXPECT_EQ(parts.size(), 8u);
  EXPECT_DOUBLE_EQ(parts.at("init_bootstrap_s"), 0.04);
  EXPECT_DOUBLE_EQ(parts.at("init_rest_s"), 0.02);
  EXPECT_FALSE(parts.contains("init_a_s"));
  EXPECT_DOUBLE_EQ(parse_init_timings("Init timings: rank 1 nranks 2 total 1.25 (kernels 0.25, bootstrap 1.00)")
                       .at("init_bootstrap_s"),
                   1)
      << "as up to NCCL 2.23";
  EXPECT_TRUE(parse_init_timings("NCCL INFO Init COMPLETE").empty());
}

TEST(tuning_log, kernels_on_symmetric_memory_have_a_name_of_their_own) {
  const Selection s =
      selection_in("AllReduce [Symmetric]: 64 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 nthreads 5\n");
  EXPECT_EQ(s.algorithm, "allreduce_agxll_r");
  EXPECT_EQ(s.protocol, "symmetric");
  EXPECT_EQ(s.channels, 4);
  EXPECT_EQ(selection_in("AllReduce [Symmetric]: 4294967296 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 "
                         "nthreads 512 nWorks 1\n")
                .algorithm,
            "allreduce_rsxldmc_agxstmc")
      << "by which a verdict knows that the switch reduced";
}

TEST(tuning_log, copies_by_the_copy_engines_are_a_choice) {
  for (const char* line : {"AllGather [Copy Engine]: 1048576 Bytes -> cudaMemcpy; CE synchronization with NVLS\n",
                           "AllGather [Hierarchical CE]: 1048576 Bytes -> RMA proxy + CE\n"}) {
    const Selection s = selection_in(std::string("h:1:1 [0] NCCL INFO ") + line);
    EXPECT_EQ(s.algorithm, "copy_engine");
    EXPECT_EQ(s.protocol, "symmetric");
    EXPECT_EQ(s.channels, 0);
  }
}

TEST(tuning_log, nccl_2_31_tells_its_choice_before_the_line_that_counts) {
  const std::string input =
      "h:1:1 [0] NCCL INFO Input: { .comm = 0x1, .tuningMask = 0x1fffff, .func = AllReduce, .nBytes = 8 }\n";
  const std::string best =
      "h:1:1 [0] NCCL INFO Best tuning { .id = 5, .valid = 1, timeUs = 9.5,  .algo = RING, .proto = SIMPLE, "
      ".symKernelId = Unknown, .ceMethodId = 2, nChannels = 4, maxChannels = 8, nWarps = 16, forced = 0 }\n";
  const std::string kernels =
      "h:1:1 [0] NCCL INFO Best tuning { .id = 22, .valid = 1, timeUs = 4.5,  .algo = Unknown, .proto = Unknown, "
      ".symKernelId = AllReduce_AGxLL_R, .ceMethodId = 2, nChannels = 1, maxChannels = 1, nWarps = 16, forced = 0 }\n";
  EXPECT_EQ(selection_in(input + best).algorithm, "ring");
  EXPECT_EQ(selection_in(input + best).channels, 4);
  EXPECT_FALSE(parse_tuning_log(input + kernels));
  EXPECT_EQ(selection_in(input + kernels + input + best).protocol, "simple");
  const Selection s =
      selection_in(input + best + "AllReduce: 8 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1} cgaClusterSize 4\n");
  EXPECT_EQ(s.algorithm, "tree");
  EXPECT_EQ(s.channels, 2);
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
  EXPECT_EQ(merge_subsystems("", "INIT,TUNING"), "INIT,TUNING");
  EXPECT_EQ(merge_subsystems("COLL", "INIT,TUNING"), "COLL,INIT,TUNING");
  EXPECT_EQ(merge_subsystems("^COLL,init,P2P", "INIT,TUNING"), "^COLL,P2P");
  EXPECT_EQ(merge_subsystems("^tuning", "INIT,TUNING"), "ALL");
  EXPECT_EQ(merge_subsystems("COLL,misspelt", "INIT,TUNING"), "COLL,INIT,TUNING");
  EXPECT_EQ(merge_subsystems("^COLL,misspelt", "INIT,TUNING"), "^COLL");
}

}  // namespace

}  // namespace p5::nccl
