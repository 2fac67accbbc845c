// Suggestions for mistyped names, lists, and the precedence of exit codes.
#include "bench/base/names.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/base/error.hpp"

namespace p5 {
namespace {

const std::vector<std::string> some_collectives{"p2p", "all_reduce", "all_gather", "broadcast"};

TEST(Nearest, finds_the_name_that_was_meant) {
  EXPECT_EQ(nearest("all_reduce", some_collectives), "all_reduce");
  EXPECT_EQ(nearest("allreduce", some_collectives), "all_reduce");
  EXPECT_EQ(nearest("all_gahter", some_collectives), "all_gather");
  EXPECT_EQ(nearest("p2", some_collectives), "p2p");
  EXPECT_EQ(nearest("bcast", std::vector<std::string>{"bcast2", "bcasts3"}), "bcast2");
}

TEST(Nearest, takes_the_first_of_equally_near_names) {
  EXPECT_EQ(nearest("ax", std::vector<std::string>{"ab", "ac"}), "ab");
}

TEST(FolderNames, may_hold_what_clusters_are_called) {
  for (const char* name : {"lab", "sim-p5.48xlarge-4n", "A_1", "-x", "_", "latest2", "Latest", "imported"})
    EXPECT_EQ(folder_name_error(name), "") << name;
  EXPECT_EQ(folder_name_error(std::string(128, 'x')), "");
}

TEST(FolderNames, stay_in_their_folder_and_on_one_line) {
  const std::string right_to_left =
                        "lab\xe2\x80\xae"
                        "gpj",
                    nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"), std::string("a/b"),
        std::string("../../x"), std::string("/x/y"), std::string("a b"), std::string("a\tb"), std::string("a\nb"),
        std::string("\x1b[2J"), std::string("a\\b"), std::string("a:b"), std::string("\xff"), std::string("latest"),
        std::string("baselines"), std::string(129, 'x'), right_to_left, nul}) {
    const std::string objection = folder_name_error(name);
    EXPECT_NE(objection, "") << name;
    EXPECT_TRUE(std::ranges::all_of(objection, [](char c) { return c >= ' ' && c <= '~'; })) << name;
  }
  EXPECT_NE(folder_name_error("\x1b[2J").find("'\\x1b[2J'"), std::string::npos);
}

TEST(FolderNames, what_the_objection_allows_is_allowed) {
  const std::string objection = folder_name_error("a b");
  for (const char* allowed : {"1 to 128", "a to z, A to Z", "digits", "'-'", "'_'", "'.'", "baselines or latest"})
    EXPECT_NE(objection.find(allowed), std::string::npos) << allowed;
  EXPECT_EQ(folder_name_error("azAZ09-_."), "");
}

TEST(Nearest, prefers_what_begins_alike_and_minds_no_capitals) {
  const std::vector<std::string> platforms{"p4d.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5.4xlarge"};
  EXPECT_EQ(nearest("p5.48xl", platforms), "p5.48xlarge");
  EXPECT_EQ(nearest("P5E.48XLARGE", platforms), "p5e.48xlarge");
  EXPECT_EQ(nearest("all_reduce_perf", some_collectives), "all_reduce");
}

TEST(Nearest, finds_nothing_far_away) {
  EXPECT_EQ(nearest("", std::vector<std::string>{"ab"}), "");
  EXPECT_EQ(nearest("b", std::vector<std::string>{"ab"}), "");
  EXPECT_EQ(nearest("xyz", std::vector<std::string>{"sum", "prod"}), "");
  EXPECT_EQ(nearest("completely_different", some_collectives), "");
  EXPECT_EQ(nearest("anything", std::vector<std::string>{}), "");
}

TEST(UnknownName, names_the_culprit_the_nearest_and_all_known) {
  EXPECT_EQ(unknown_name("collective", "allreduce", some_collectives),
            "unknown collective 'allreduce'; did you mean 'all_reduce'? Known: p2p, all_reduce, all_gather, broadcast");
}

TEST(UnknownName, leaves_the_suggestion_out_when_nothing_is_near) {
  EXPECT_EQ(unknown_name("operation", "xyz", std::vector<std::string>{"sum", "prod"}),
            "unknown operation 'xyz'. Known: sum, prod");
}

TEST(Split, keeps_empty_parts) {
  EXPECT_EQ(split("a,b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split("a"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(split(""), (std::vector<std::string>{""}));
  EXPECT_EQ(split(",a,,b,"), (std::vector<std::string>{"", "a", "", "b", ""}));
  EXPECT_EQ(split("a:b,c", ':'), (std::vector<std::string>{"a", "b,c"}));
}

TEST(Join, is_the_inverse_of_split) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(join(std::vector<std::string>{}), "");
  EXPECT_EQ(join(split("a,,b"), ","), "a,,b");
}

TEST(Worse, prefers_wrong_data_then_unfinished_environment_slow_inconclusive) {
  const std::vector<ExitCode> order{ExitCode::wrong_data, ExitCode::unfinished,   ExitCode::environment,
                                    ExitCode::slow,       ExitCode::inconclusive, ExitCode::ok};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i; j < order.size(); ++j) {
      EXPECT_EQ(worse(order[i], order[j]), order[i]);
      EXPECT_EQ(worse(order[j], order[i]), order[i]);
    }
  }
}

TEST(ExitCodes, are_the_documented_numbers) {
  EXPECT_EQ(static_cast<int>(ExitCode::ok), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::usage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::slow), 10);
  EXPECT_EQ(static_cast<int>(ExitCode::wrong_data), 11);
  EXPECT_EQ(static_cast<int>(ExitCode::unfinished), 12);
  EXPECT_EQ(static_cast<int>(ExitCode::environment), 13);
  EXPECT_EQ(static_cast<int>(ExitCode::inconclusive), 14);
}

}  // namespace
}  // namespace p5
