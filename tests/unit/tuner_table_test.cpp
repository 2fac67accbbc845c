// nccl-tuner.csv and the text forms of settings: writing and reading are inverse, and ambiguous text is refused.
#include "tuner/table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

namespace p5::tuner {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();

Table example() {
  return {.nccl_version = 22803,
          .ranks = 32,
          .nodes = 4,
          .rows = {{Function::all_reduce, 0, 4095, {Algorithm::ring, Protocol::ll}, 21.25},
                   {Function::all_reduce, 4096, 1048576, {Algorithm::nvls_tree, Protocol::simple, 16, 524288}, 1e-3},
                   {Function::all_gather, 4096, everything, {Algorithm::pat, Protocol::ll128, 64}, 0.1}}};
}

const std::string head =
    "format,1\nnccl,22803\nranks,32\nnodes,4\n"
    "function,from,to,algorithm,protocol,channels,chunk,microseconds\n";

std::string problem_of(const std::string& text) {
  const auto parsed = parse_csv(text);
  return std::holds_alternative<std::string>(parsed) ? std::get<std::string>(parsed) : "none";
}

std::string problem_of_row(const std::string& row) { return problem_of(head + row + "\n"); }

TEST(TunerTable, what_is_written_is_read_back) {
  const auto parsed = parse_csv(to_csv(example(), "Valid for four nodes.\n\nMeasure again after an upgrade."));
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(parsed)) << std::get<std::string>(parsed);
  EXPECT_EQ(std::get<std::vector<Table>>(parsed), std::vector{example()});
}

TEST(TunerTable, files_one_after_the_other_are_one_of_several_tables) {
  Table node = example(), newer = example();
  node.ranks = 8;
  node.nodes = 1;
  node.rows.resize(1);
  newer.nccl_version = 23102;
  newer.rows.clear();
  const std::string all = to_csv(example(), "a") + to_csv(node, "b") + to_csv(newer, "c");
  const auto parsed = parse_csv(all);
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(parsed)) << std::get<std::string>(parsed);
  const auto& tables = std::get<std::vector<Table>>(parsed);
  EXPECT_EQ(tables, (std::vector{example(), node, newer}));
  EXPECT_EQ(find_table(tables, 22803, 8, 1), &tables[1]);
  EXPECT_EQ(find_table(tables, 23102, 32, 4), &tables[2]);
  EXPECT_EQ(find_table(tables, 23102, 8, 1), nullptr);
  EXPECT_EQ(find_table(tables, 0, 8, 1), nullptr) << "an unknown version";
  EXPECT_THAT(problem_of(all + to_csv(node, "")), HasSubstr("a second table for NCCL 2.28.3, 8 ranks on 1 nodes"));
  EXPECT_THAT(problem_of(all + "format,2\n"), HasSubstr("format 2 is not known"));
  EXPECT_THAT(problem_of(all + "format,1\nnccl,22803\n"), HasSubstr("the file ends where 'ranks,NUMBER' has to be"));
}

TEST(TunerTable, versions_are_shown_as_nccl_shows_them) {
  EXPECT_EQ(version_text(22803), "2.28.3");
  EXPECT_EQ(version_text(23102), "2.31.2");
  EXPECT_EQ(version_text(2804), "2.8.4");
}

TEST(TunerTable, every_line_of_the_comment_is_one) {
  EXPECT_EQ(to_csv({.nccl_version = 1, .ranks = 1, .nodes = 1, .rows = {}}, "one\n\nformat,2"),
            "# one\n#\n# format,2\nformat,1\nnccl,1\nranks,1\nnodes,1\n"
            "function,from,to,algorithm,protocol,channels,chunk,microseconds\n");
}

TEST(TunerTable, comments_and_empty_lines_may_stand_anywhere) {
  const auto parsed = parse_csv("\n# a\nformat,1\n\nnccl,22803\nranks,32\n# b\nnodes,4\n" +
                                head.substr(head.find("function")) + "\n#c\nreduce,0,0,tree,ll,0,0,5\n# d\n");
  ASSERT_TRUE(std::holds_alternative<std::vector<Table>>(parsed)) << std::get<std::string>(parsed);
  EXPECT_EQ(std::get<std::vector<Table>>(parsed).at(0).rows.size(), 1u);
}

TEST(TunerTable, a_copy_that_is_cut_off_within_a_line_is_refused) {
  const std::string whole = to_csv(example(), "Valid for four nodes.");
  for (std::size_t length = 1; length < whole.size(); ++length)
    if (whole[length - 1] != '\n') {
      EXPECT_NE(problem_of(whole.substr(0, length)), "none") << length;
    }
  EXPECT_THAT(problem_of(whole.substr(0, whole.size() - 1)),
              AllOf(StartsWith("line 9: the file ends within this line"), HasSubstr("copy it again")));
}

TEST(TunerTable, line_ends_of_windows_are_refused_by_name) {
  std::string text;
  for (const char c : to_csv(example(), "")) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_THAT(problem_of(text), AllOf(StartsWith("line 1: "), HasSubstr("carriage return")));
}

// The cost table of NCCL holds floats.
TEST(TunerTable, a_time_that_a_float_cannot_hold_is_refused) {
  for (const char* time : {"1e-320", "1e-40", "0", "-1", "3.5e38", "1e300", "inf", "nan"})
    EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0," + std::string(time)), HasSubstr("microseconds is"))
        << time;
  EXPECT_EQ(problem_of_row("all_reduce,0,8,ring,ll,0,0,1e-6"), "none");
}

TEST(TunerTable, a_row_is_found_by_its_function_and_both_ends_of_its_range) {
  const Table table = example();
  EXPECT_EQ(find_row(table, Function::all_reduce, 0), &table.rows[0]);
  EXPECT_EQ(find_row(table, Function::all_reduce, 4095), &table.rows[0]);
  EXPECT_EQ(find_row(table, Function::all_reduce, 4096), &table.rows[1]);
  EXPECT_EQ(find_row(table, Function::all_reduce, 1048577), nullptr);
  EXPECT_EQ(find_row(table, Function::all_gather, 4095), nullptr);
  EXPECT_EQ(find_row(table, Function::all_gather, everything), &table.rows[2]);
  EXPECT_EQ(find_row(table, Function::reduce, 0), nullptr);
}

TEST(TunerTable, the_head_must_be_complete_and_in_order) {
  EXPECT_EQ(problem_of(""), "line 1: the file ends where 'format,NUMBER' has to be");
  EXPECT_THAT(problem_of("# only a comment\n"), StartsWith("line 2: the file ends"));
  EXPECT_THAT(problem_of("format,2\n"), StartsWith("line 1: format 2 is not known"));
  EXPECT_THAT(problem_of("format,1\nranks,4\n"), AllOf(StartsWith("line 2:"), HasSubstr("'nccl,NUMBER'")));
  EXPECT_THAT(problem_of("format,1\nnccl,2.28.3\n"), AllOf(StartsWith("line 2:"), HasSubstr("'2.28.3'")));
  EXPECT_THAT(problem_of("format,1\nnccl,22803\nranks,4\nnodes,5\n"), AllOf(StartsWith("line 4:"), HasSubstr("nodes")));
  EXPECT_THAT(problem_of("format,1\nnccl,22803\nranks,0\nnodes,0\n"), HasSubstr("ranks"));
  EXPECT_THAT(problem_of("format,1\nnccl,0\nranks,1\nnodes,1\n"), HasSubstr("nccl"));
  EXPECT_THAT(problem_of("format,1\nnccl,22803\nranks,4\nnodes,1\nall_reduce,0,1,ring,ll,0,0,1\n"),
              AllOf(StartsWith("line 5:"), HasSubstr("columns")));
}

TEST(TunerTable, a_row_of_anything_else_is_refused_and_named) {
  EXPECT_EQ(problem_of_row("all_reduce,0,8,ring,ll,0,0,1"), "none");
  EXPECT_EQ(problem_of_row("allreduce,0,8,ring,ll,0,0,1"), "line 6: function is 'allreduce', not a known name");
  EXPECT_THAT(problem_of_row("all_reduce,0,8,Ring,ll,0,0,1"), HasSubstr("algorithm is 'Ring'"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll64,0,0,1"), HasSubstr("protocol is 'll64'"));
  EXPECT_THAT(problem_of_row("all_reduce,9,8,ring,ll,0,0,1"), HasSubstr("from 9 is beyond to 8"));
  EXPECT_THAT(problem_of_row("all_reduce,-1,8,ring,ll,0,0,1"), HasSubstr("from is '-1'"));
  EXPECT_THAT(problem_of_row("all_reduce,0,18446744073709551616,ring,ll,0,0,1"), HasSubstr("to is"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,-1,0,1"), HasSubstr("channels is -1"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,65,0,1"), HasSubstr("channels is 65"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,-1,1"), HasSubstr("chunk is '-1'"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,4095,1"), HasSubstr("chunk is 4095"));
  EXPECT_EQ(problem_of_row("all_reduce,0,8,ring,ll,0,4096,1"), "none");
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,0"), HasSubstr("microseconds is 0"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,-1"), HasSubstr("microseconds is -1"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,nan"), HasSubstr("microseconds is"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,inf"), HasSubstr("microseconds is inf"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0"), HasSubstr("7 fields, not 8"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,1,"), HasSubstr("9 fields, not 8"));
  EXPECT_THAT(problem_of_row("all_reduce,0,8,ring,ll,0,0,1\r"), HasSubstr("carriage return"));
  EXPECT_THAT(problem_of_row("all_reduce, 0,8,ring,ll,0,0,1"), HasSubstr("from is ' 0'"));
  EXPECT_THAT(problem_of_row(std::string(500, 'x')), HasSubstr("1 fields"));
}

TEST(TunerTable, ranges_of_one_function_must_not_overlap) {
  const std::string first = "all_reduce,100,200,ring,ll,0,0,1\n";
  EXPECT_EQ(problem_of_row(first + "all_reduce,200,300,tree,ll,0,0,1"), "line 7: overlaps all_reduce from 100 to 200");
  EXPECT_THAT(problem_of_row(first + "all_reduce,0,100,tree,ll,0,0,1"), StartsWith("line 7: overlaps"));
  EXPECT_THAT(problem_of_row(first + "all_reduce,120,130,tree,ll,0,0,1"), StartsWith("line 7: overlaps"));
  EXPECT_EQ(problem_of_row(first + "all_reduce,201,300,tree,ll,0,0,1\nall_reduce,0,99,ring,ll,0,0,1"), "none");
  EXPECT_EQ(problem_of_row(first + "all_gather,100,200,ring,ll,0,0,1"), "none");
}

TEST(TunerTable, the_number_of_rows_has_a_limit) {
  std::string rows;
  for (int i = 0; i < 10000; ++i) {
    const std::string size = std::to_string(i);
    rows += "all_reduce," + size + "," + size + ",ring,ll,0,0,1\n";
  }
  EXPECT_EQ(problem_of_row(rows), "none");
  EXPECT_EQ(problem_of_row(rows + "reduce,0,8,ring,ll,0,0,1"), "line 10006: more than 10000 rows");
}

TEST(TunerTable, what_could_not_be_read_back_is_not_written) {
  for (const auto& spoil : {+[](Table& t) { t.nccl_version = 0; }, +[](Table& t) { t.nodes = 33; },
                            +[](Table& t) { t.rows[1].from = 4095; }, +[](Table& t) { t.rows[0].microseconds = 0; },
                            +[](Table& t) { t.rows[0].setting.channels = 65; }}) {
    Table table = example();
    spoil(table);
    EXPECT_THROW(to_csv(table, ""), std::invalid_argument);
  }
}

TEST(TunerTable, the_fingerprint_is_64_bits_of_fnv_1a) {
  EXPECT_EQ(fingerprint(""), "cbf29ce484222325");  // published test vectors of FNV-1a
  EXPECT_EQ(fingerprint("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(fingerprint("foobar"), "85944171f73967e8");
  EXPECT_NE(fingerprint(std::string("a\0b", 3)), fingerprint("ab"));
}

TEST(TunerSetting, text_and_back) {
  for (const std::string text : {"ring/ll128", "nvls_tree/simple", "ring/ll128/16", "tree/simple/0/524288",
                                 "pat/simple/64/18446744073709551615"}) {
    const auto setting = parse_setting(text);
    ASSERT_TRUE(setting) << text;
    EXPECT_EQ(to_text(*setting), text);
  }
  EXPECT_EQ(parse_setting("ring/ll128/16/524288"), (Setting{Algorithm::ring, Protocol::ll128, 16, 524288}));
}

TEST(TunerSetting, anything_else_is_none) {
  for (const std::string text :
       {"", "ring", "ring/", "/ll", "RING/LL", "ring/ll/", "ring/ll/x", "ring/ll/-1", "ring/ll/65", "ring/ll/1/-1",
        "ring/ll/1/9", "ring/ll/1/4096/3", "ring/ll ", "ring/ll/ 1"})
    EXPECT_FALSE(parse_setting(text)) << text;
}

}  // namespace
}  // namespace p5::tuner
