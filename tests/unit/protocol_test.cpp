// A worker reads what its supervisor writes, and the other way round.
#include "bench/backends/protocol.hpp"

#include <gtest/gtest.h>

namespace p5::protocol {
namespace {

TEST(Protocol, a_request_for_samples_arrives_with_its_setting) {
  const SampleRequest request{
      .quantity = Quantity::device, .operations = 7, .samples = 5, .poison_last = true, .setting = "ring/ll128/16"};
  const SampleRequest read = request_from_json(to_json(request));
  EXPECT_EQ(read.quantity, Quantity::device);
  EXPECT_EQ(read.operations, 7);
  EXPECT_EQ(read.samples, 5);
  EXPECT_TRUE(read.poison_last);
  EXPECT_EQ(read.setting, "ring/ll128/16");
}

TEST(Protocol, a_request_for_works_at_the_same_time_arrives_with_its_setting) {
  ConcurrentRequest request{.operations = {3, 0, 7}, .samples = 2, .poison_last = true, .setting = "ring/ll/4"};
  const ConcurrentRequest read = concurrent_request_from_json(to_json(request));
  EXPECT_EQ(read.operations, request.operations);
  EXPECT_EQ(read.setting, "ring/ll/4");
  EXPECT_FALSE(read.steady);
  request.steady = true;
  EXPECT_TRUE(concurrent_request_from_json(to_json(request)).steady);
  request.setting.clear();
  EXPECT_FALSE(to_json(request).contains("setting")) << "an absent one means none";
}

TEST(Protocol, offers_arrive_in_their_order) {
  const std::vector<Offer> read =
      cost_table_from_json(to_json(std::vector<Offer>{{"tree/ll", 12.5, false}, {"ring/ll", 8, true}}));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].setting, "tree/ll");
  EXPECT_EQ(read[0].microseconds, 12.5);
  EXPECT_FALSE(read[0].chosen);
  EXPECT_EQ(read[1].setting, "ring/ll");
  EXPECT_TRUE(read[1].chosen);
}

}  // namespace
}  // namespace p5::protocol
