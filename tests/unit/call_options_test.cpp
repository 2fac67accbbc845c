// The table of CallOptions: each option is in reports and in texts, and tells cases apart.
#include "bench/model/case.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "bench/model/result_fields.hpp"

namespace p5 {
namespace {

// One of each option beside its default, in the order of the table.
std::vector<CallOptions> variants() {
  return {
      {.cuda_graph = true}, {.registration = "symmetric"}, {.aggregate = 4}, {.cta_policy = "zero"}, {.unalign = 3}};
}

TEST(CallOptions, are_silent_where_all_are_defaults) {
  EXPECT_EQ(describe(CallOptions{}, ", "), "");
  for (const CallOption& each : call_options()) EXPECT_EQ(each.value({}), "") << each.name;
}

TEST(CallOptions, each_have_a_row_words_and_a_member_of_their_own) {
  const std::vector<CallOptions> all = variants();
  ASSERT_EQ(all.size(), call_options().size());
  std::set<std::string> words, paths;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CallOption& row = call_options()[i];
    const nlohmann::json written = json_fields::written(all[i]), usual = json_fields::written(CallOptions{});
    EXPECT_TRUE(written.contains(row.name)) << row.name;
    EXPECT_NE(written, usual) << row.name;
    EXPECT_EQ(json_fields::read_as<CallOptions>(written), all[i]) << row.name;
    EXPECT_EQ(row.text(row.words, all[i]), describe(all[i], ", ")) << row.name;
    words.insert(row.text(row.words, all[i]));
    paths.insert(row.text(row.path, all[i]));
  }
  EXPECT_EQ(words.size(), all.size());
  EXPECT_EQ(paths.size(), all.size());
}

TEST(CallOptions, are_told_together) {
  EXPECT_EQ(describe(CallOptions{.cuda_graph = true, .registration = "local", .aggregate = 4, .unalign = 1}, ", "),
            "graph, registered local, 4 in a group, unaligned by 1");
}

TEST(CallOptions, of_a_message_or_report_are_checked) {
  nlohmann::json j = json_fields::written(CallOptions{});
  for (const auto& [name, bad] : std::vector<std::pair<const char*, nlohmann::json>>{{"aggregate", 0},
                                                                                     {"unalign", -1},
                                                                                     {"aggregate", "4"},
                                                                                     {"register", "else"},
                                                                                     {"cta_policy", "none"},
                                                                                     {"cuda_graph", 1}}) {
    nlohmann::json other = j;
    other[name] = bad;
    EXPECT_THROW(json_fields::read_as<CallOptions>(other), json_fields::BadValue) << name;
  }
}

}  // namespace
}  // namespace p5
