// Tests and corrections against published values and against full enumeration.
#include "bench/base/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace p5 {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;

struct Wanted {
  std::vector<double> a, b;
  double above, apart;
};

// Expected values come from tests/fixtures/rank_sums.py.
TEST(RankTest, counts_all_ways_also_with_ties) {
  const std::vector<Wanted> all{{{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}, 1.0 / 3432, 1.0 / 1716},
                                {{1.0, 3.5, 4.0, 9.0}, {2.0, 5.0, 6.0, 7.0, 8.0}, 5.0 / 18, 5.0 / 9},
                                {{1, 2, 2, 3, 3, 3}, {2, 3, 4, 4, 5}, 13.0 / 231, 25.0 / 231},
                                {{5, 5, 5}, {5, 5, 5, 5}, 1, 1},
                                {{7}, {9, 9}, 1.0 / 3, 1.0 / 3},
                                {{1, 2}, {2, 3, 3}, 0.2, 0.3},
                                {{10, 11, 12, 13, 14}, {1, 2, 3, 4, 10}, 1, 1.0 / 63}};
  RankTest test;
  for (const Wanted& each : all) {
    EXPECT_DOUBLE_EQ(test.one_sided_p(each.a, each.b), each.above);
    EXPECT_DOUBLE_EQ(test.two_sided_p(each.a, each.b), each.apart);
  }
}

// Hollander and Wolfe, Nonparametric Statistical Methods, 1973, page 69: permeability of the membrane at term and
// earlier. One-sided p 0.1272 (also in the examples of R's wilcox.test).
TEST(RankTest, agrees_with_a_textbook) {
  const std::vector<double> at_term{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
  const std::vector<double> earlier{1.15, 0.88, 0.90, 0.74, 1.21};
  EXPECT_THAT(RankTest().one_sided_p(earlier, at_term), DoubleNear(0.1272, 5e-5));
}

TEST(RankTest, is_near_the_exact_value_where_it_approximates) {
  std::vector<double> a, b, longer_a;
  for (int i = 0; i < 30; ++i) {
    a.push_back(i);
    b.push_back(i + 5.5);
  }
  longer_a = a;
  longer_a.push_back(15.25);
  RankTest test;
  EXPECT_THAT(test.one_sided_p(longer_a, b), DoubleNear(test.one_sided_p(a, b), 0.003));
  EXPECT_THAT(test.two_sided_p(longer_a, b), DoubleNear(test.two_sided_p(a, b), 0.006));
}

TEST(RankTest, is_exact_where_one_of_the_samples_is_small) {
  std::vector<double> many;
  for (int i = 0; i < 199; ++i) many.push_back(i);
  const std::vector<double> above{1000}, below{-1}, two_above{1000, 1001};
  RankTest test;
  EXPECT_DOUBLE_EQ(test.one_sided_p(many, above), 1.0 / 200);
  EXPECT_DOUBLE_EQ(test.two_sided_p(many, above), 1.0 / 100);
  EXPECT_DOUBLE_EQ(test.one_sided_p(many, two_above), 1.0 / 20100);
  EXPECT_DOUBLE_EQ(test.one_sided_p(below, many), 1.0 / 200);
  EXPECT_DOUBLE_EQ(test.one_sided_p(above, many), 1);
  many.push_back(1000);  // a tie: one of two values at the top of 201
  EXPECT_DOUBLE_EQ(test.one_sided_p(many, above), 2.0 / 201);
  EXPECT_DOUBLE_EQ(test.one_sided_p(above, many), 1);
}

TEST(RankTest, says_nothing_where_all_are_alike_however_many) {
  const std::vector<double> alike(40, 1.0);
  EXPECT_EQ(RankTest().two_sided_p(alike, alike), 1);
}

TEST(LeastP, is_that_of_samples_that_do_not_overlap) {
  EXPECT_DOUBLE_EQ(smallest_p(7, 7), 1.0 / 3432);
  EXPECT_DOUBLE_EQ(smallest_p(1, 9), 0.1);
  EXPECT_DOUBLE_EQ(RankTest::least_p(60, 1), 1.0 / 61);
  EXPECT_DOUBLE_EQ(RankTest::least_p(2, 400), 2.0 / (402 * 401));
}

TEST(LeastP, is_that_of_the_approximation_where_it_is_used) {
  std::vector<double> low, high;
  for (int i = 0; i < 1000; ++i) low.push_back(i);
  for (int i = 0; i < 7; ++i) high.push_back(1000 + i);
  ASSERT_FALSE(RankTest::is_exact(low.size(), high.size()));
  EXPECT_NEAR(RankTest::least_p(low.size(), high.size()) / RankTest().one_sided_p(low, high), 1, 1e-9);
}

// Expected values by hand: 4 * 0.005, 3 * 0.01, 2 * 0.03, and 0.04 not below the one before.
TEST(Holm, multiplies_by_what_is_left_and_never_falls) {
  EXPECT_THAT(holm_adjusted(std::vector{0.01, 0.04, 0.03, 0.005}),
              ElementsAre(DoubleEq(0.03), DoubleEq(0.06), DoubleEq(0.06), DoubleEq(0.02)));
  EXPECT_THAT(holm_adjusted(std::vector{0.6, 0.7}), ElementsAre(1, 1));
}

// The example of Benjamini and Hochberg's paper (1995), 3.2: of 15 comparisons four are significant at 5 %, with
// Bonferroni's and Holm's way three.
TEST(FalseDiscovery, finds_what_its_authors_found) {
  const std::vector<double> p{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
                              0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000};
  const auto significant = [](const std::vector<double>& adjusted) {
    return std::ranges::count_if(adjusted, [](double each) { return each <= 0.05; });
  };
  EXPECT_EQ(significant(false_discovery_adjusted(p)), 4);
  EXPECT_EQ(significant(holm_adjusted(p)), 3);
  EXPECT_DOUBLE_EQ(false_discovery_adjusted(p)[3], 0.0095 * 15 / 4);
}

// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: critical values of Student's t, two-sided 5 % and 1 %.
TEST(Student, agrees_with_the_tables) {
  const std::vector<std::tuple<int, double, double>> table{{1, 12.706, 63.657}, {2, 4.303, 9.925}, {3, 3.182, 5.841},
                                                           {4, 2.776, 4.604},   {5, 2.571, 4.032}, {10, 2.228, 3.169},
                                                           {17, 2.110, 2.898},  {30, 2.042, 2.750}};
  for (const auto& [degrees, five, one] : table) {
    EXPECT_NEAR(student_quantile(0.05, degrees), five, 5e-4) << degrees;
    EXPECT_NEAR(student_quantile(0.01, degrees), one, 5e-4) << degrees;
    EXPECT_NEAR(student_two_sided_p(-five, degrees), 0.05, 5e-5) << degrees;
  }
}

TEST(Normal, agrees_with_the_tables) {
  EXPECT_NEAR(normal_cdf(1.96), 0.97500, 5e-6);
  EXPECT_NEAR(normal_cdf(-2.5758), 0.005, 5e-6);
}

// The values that Vigna's splitmix64.c gives for this seed.
TEST(Random, is_splitmix64) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

}  // namespace
}  // namespace p5
