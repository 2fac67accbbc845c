#include "bench/backends/nccl/launch_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace p5::nccl {
namespace {

// The parts in the order of launching, as digits, until none may be launched.
std::string launch_all_that_may_be(LaunchOrder& order) {
  std::string launched;
  while (const auto part = order.next()) {
    order.launched(*part);
    launched += std::to_string(*part);
  }
  return launched;
}

TEST(LaunchOrder, parts_are_launched_in_proportion) {
  LaunchOrder order({{6, true}, {3, false}, {0, false}});
  EXPECT_EQ(launch_all_that_may_be(order), "001001001");
  EXPECT_TRUE(order.all_launched());
}

TEST(LaunchOrder, a_part_whose_operations_do_not_finish_lets_the_others_be_launched) {
  LaunchOrder order({{4000, true}, {100, false}});
  int products = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string launched = launch_all_that_may_be(order);
    products += static_cast<int>(std::ranges::count(launched, '1'));
    EXPECT_LE(order.launched_of(0), LaunchOrder::most_unfinished);
    order.finished(1, order.launched_of(1));
  }
  EXPECT_EQ(products, 100);
  EXPECT_FALSE(order.all_launched());
  order.finished(0, 16);
  EXPECT_EQ(launch_all_that_may_be(order), std::string(16, '0'));
}

// Two communicators: rank 0 launches the second one's operations after those of the first one that come before them,
// however many have finished, since another rank does the same.
TEST(LaunchOrder, operations_of_communicators_keep_their_order_whatever_has_finished) {
  const auto without_products = [](bool second_finishes) {
    LaunchOrder order({{200, true}, {100, true}, {50, false}});
    std::string all;
    for (int i = 0; i < 50 && !order.all_launched(); ++i) {
      for (const char each : launch_all_that_may_be(order))
        if (each != '2') all += each;
      order.finished(0, order.launched_of(0));
      if (second_finishes || i % 2 == 1) order.finished(1, order.launched_of(1));
      order.finished(2, order.launched_of(2) / 2);
    }
    return all;
  };
  EXPECT_EQ(without_products(true).size(), 300u);
  EXPECT_EQ(without_products(true), without_products(false));
}

}  // namespace
}  // namespace p5::nccl
