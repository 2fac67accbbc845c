// Order statistics of more values than are stored.
#include "bench/base/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace p5 {
namespace {

std::vector<double> lognormal(std::size_t count, double spread) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> values(std::log(3e-5), spread);
  std::vector<double> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(values(random));
  return made;
}

TEST(Distribution, is_exact_up_to_its_limit) {
  const std::vector<double> values = lognormal(500, 0.1);
  Distribution all(500);
  for (std::size_t i = 0; i < values.size(); ++i) {
    all.add(values[i]);
    if (i % 97 == 0) all.median();  // queried in between
  }
  const Summary wanted = summarize(values), found = all.extremes();
  EXPECT_EQ(all.median(), wanted.median);
  EXPECT_EQ(found.samples, 500);
  EXPECT_EQ(found.min, wanted.min);
  EXPECT_EQ(found.max, wanted.max);
  EXPECT_EQ(found.p95, wanted.p95);
  EXPECT_EQ(found.p99, wanted.p99);
}

TEST(Distribution, is_right_to_half_a_step_beyond_it) {
  for (const double spread : {0.002, 0.1, 2.0}) {
    const std::vector<double> values = lognormal(20000, spread);
    Distribution all(64);
    for (const double value : values) all.add(value);
    const Summary wanted = summarize(values), found = all.extremes();
    EXPECT_NEAR(all.median() / wanted.median, 1, 0.00051) << spread;
    EXPECT_NEAR(*found.p95 / *wanted.p95, 1, 0.00051) << spread;
    EXPECT_NEAR(*found.p99 / *wanted.p99, 1, 0.00051) << spread;
    EXPECT_EQ(found.min, wanted.min);
    EXPECT_EQ(found.max, wanted.max);
    EXPECT_EQ(found.samples, 20000);
  }
}

TEST(Distribution, takes_values_that_are_not_known) {
  Distribution all(2);
  for (const double value : {0.0, 0.0, 0.0, 1.0}) all.add(value);
  EXPECT_EQ(all.median(), 0);
  EXPECT_EQ(all.extremes().max, 1);
}

TEST(Distribution, does_not_tell_the_highest_of_too_few) {
  Distribution all(4);
  for (int i = 1; i <= 39; ++i) all.add(i);
  EXPECT_FALSE(all.extremes().p95);
  all.add(40);
  EXPECT_TRUE(all.extremes().p95);
  EXPECT_FALSE(all.extremes().p99);
}

}  // namespace
}  // namespace p5
