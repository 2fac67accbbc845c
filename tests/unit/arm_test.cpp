// The meaning of an arm's text, and the texts that are refused.
#include "bench/model/options.hpp"

#include <gtest/gtest.h>

#include "bench/base/error.hpp"

namespace p5 {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(Arm, is_a_list_of_variables) {
  EXPECT_EQ(parse_arm(""), Variables{});
  EXPECT_EQ(parse_arm("NCCL_MAX_CTAS=8"), (Variables{{"NCCL_MAX_CTAS", "8"}}));
  EXPECT_EQ(parse_arm("NCCL_PROTO=,LD_LIBRARY_PATH=/a:/b"),
            (Variables{{"NCCL_PROTO", ""}, {"LD_LIBRARY_PATH", "/a:/b"}}));
}

TEST(Arm, values_may_hold_commas_and_equals_signs) {
  EXPECT_EQ(parse_arm("NCCL_ALGO=ring,tree,NCCL_PROTO=LL"),
            (Variables{{"NCCL_ALGO", "ring,tree"}, {"NCCL_PROTO", "LL"}}));
  EXPECT_EQ(parse_arm("NCCL_IB_HCA==mlx5_0:1,mlx5_1"), (Variables{{"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1"}}));
  EXPECT_EQ(parse_arm("X=slow:rank=1:us=9,slow:rank=0:us=9"), (Variables{{"X", "slow:rank=1:us=9,slow:rank=0:us=9"}}));
}

TEST(Arm, nonsense_is_refused_by_its_name) {
  for (const auto& [text, culprit] :
       std::map<std::string, std::string>{{"NCCL_PROTO", "'NCCL_PROTO'"},
                                          {"=8", "'=8'"},
                                          {"/opt/nccl", "'/opt/nccl'"},
                                          {"8X=1", "'8X=1'"},
                                          {",A=1", "''"},
                                          {"A=1,A=2", "A twice"},
                                          {"NCCL_PROTO=LL,CUDA_VISIBLE_DEVICES=1", "cannot set CUDA_VISIBLE_DEVICES"},
                                          {"NCCL_HOSTID=x", "cannot set NCCL_HOSTID"},
                                          {"NCCL_ALGO=ring,NCCL_PROTO", "'NCCL_PROTO'"}}) {
    try {
      parse_arm(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& problem) {
      EXPECT_NE(std::string(problem.what()).find(culprit), std::string::npos) << problem.what();
    }
  }
}

}  // namespace
}  // namespace p5
