// nccl-tuned-calls.h: its rows, and that compilers of C and C++ accept it, with an NCCL that has settings for single
// calls and with one that has none.
#include "tuner/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "bench/base/text.hpp"
#include "tests/unit/in_folder.hpp"
#include "tests/unit/tuner_setting.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {
namespace {

using testing::HasSubstr;

TuningResult tuned_for(int nccl_version) {
  TuningResult result;
  result.cluster = "a */ /* lab";
  result.folder = "/shared/out";
  result.plugin = "/opt/lib/libnccl-tuner-p5bench.so";
  result.table = {nccl_version,
                  8,
                  1,
                  {{Function::all_reduce, 1000, 2000, setting("ring/ll/16"), 9},
                   {Function::all_reduce, 2001, ~std::uint64_t{0}, setting("nvls_tree/simple"), 9},
                   {Function::all_gather, 1000, 2000, setting("nvls/ll"), 9},               // no such kernel
                   {Function::broadcast, 1000, 2000, setting("ring/simple/4/65536"), 9}}};  // no chunk size for a call
  Table job = result.table;
  job.ranks = 32;
  job.nodes = 4;
  job.rows = {{Function::all_gather, 0, 10, setting("ring/ll128"), 9}};
  Table older = job;
  older.nccl_version = 22803;
  result.kept = {job, older};
  return result;
}

// The part of nccl.h that the header needs.
const std::string nccl_2_31 = R"(
#define NCCL_VERSION_CODE 23102
typedef struct { int minCTAs, maxCTAs; const char* algSelection; int forceAlgSelection; } ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER { -1, -1, 0, 1 }
)";

// Looks up calls and prints the results.
const std::string program = R"(
#include <stdio.h>
#include "nccl-tuned-calls.h"
#if P5BENCH_NCCL_TUNED_CALLS
static void ask(int nccl, int ranks, int nodes, p5bench_function function, size_t bytes) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  const int found = p5bench_tuned_call(nccl, ranks, nodes, function, bytes, &config);
  printf("%d %s %d %d %d\n", found, config.algSelection ? config.algSelection : "-", config.minCTAs, config.maxCTAs,
         config.forceAlgSelection);
}
#endif
int main(void) {
#if P5BENCH_NCCL_TUNED_CALLS
  ask(23102, 8, 1, P5BENCH_ALL_REDUCE, 999);
  ask(23102, 8, 1, P5BENCH_ALL_REDUCE, 1000);
  ask(23102, 8, 1, P5BENCH_ALL_REDUCE, 2000);
  ask(23102, 8, 1, P5BENCH_ALL_REDUCE, 2001);
  ask(23102, 8, 1, P5BENCH_ALL_GATHER, 1500);
  ask(23102, 8, 1, P5BENCH_BROADCAST, 1500);
  ask(23102, 8, 2, P5BENCH_ALL_REDUCE, 1000);
  ask(23206, 8, 1, P5BENCH_ALL_REDUCE, 1000);
  ask(23102, 32, 4, P5BENCH_ALL_GATHER, 10);
  ask(22803, 32, 4, P5BENCH_ALL_GATHER, 10);
#else
  puts("none");
#endif
  return 0;
}
)";

class TunedCalls : public InFolder {
 protected:
  std::string output_with(const std::string& compiler, const std::string& nccl) const {
    const auto made = calls_header(tuned_for(23102));
    EXPECT_TRUE(std::holds_alternative<NamedFile>(made));
    std::ofstream(folder / "nccl-tuned-calls.h") << std::get<NamedFile>(made).text;
    std::ofstream(folder / "nccl.h") << nccl;
    std::ofstream(folder / "program.c") << program;
    const std::string command = "cd " + shell_word(folder.string()) + " && " + compiler +
                                " -Wall -Wextra -Wpedantic -Werror -I. program.c -o program 2>&1 && ./program > said";
    EXPECT_EQ(std::system(command.c_str()), 0) << compiler;
    std::ifstream said(folder / "said");
    return {std::istreambuf_iterator<char>(said), {}};
  }
};

TEST_F(TunedCalls, are_looked_up_by_nccl_ranks_nodes_function_and_bytes) {
  for (const char* const compiler : {"cc -std=c99", "c++ -std=c++11 -x c++"})
    EXPECT_EQ(output_with(compiler, nccl_2_31),
              "0 - -1 -1 1\n"
              "1 RING_LL+^RING_LL128 16 16 0\n"
              "1 RING_LL+^RING_LL128 16 16 0\n"
              "1 NVLSTREE_SIMPLE -1 -1 0\n"
              "0 - -1 -1 1\n"
              "0 - -1 -1 1\n"
              "0 - -1 -1 1\n"
              "0 - -1 -1 1\n"
              "1 RING_LL128 -1 -1 0\n"
              "0 - -1 -1 1\n")
        << compiler;
}

TEST_F(TunedCalls, are_none_with_an_nccl_that_has_no_settings_for_them) {
  for (const char* const compiler : {"cc -std=c99", "c++ -std=c++11 -x c++"})
    EXPECT_EQ(output_with(compiler, "#define NCCL_VERSION_CODE 22809\n"), "none\n") << compiler;
}

TEST_F(TunedCalls, are_not_written_where_they_could_not_be_used) {
  const auto why = [](const TuningResult& result) {
    const auto made = calls_header(result);
    return std::holds_alternative<std::string>(made) ? std::get<std::string>(made) : "a file";
  };
  EXPECT_THAT(why(tuned_for(22809)), HasSubstr("need NCCL 2.31.2; this is 2.28.9"));
  TuningResult nothing = tuned_for(23102);
  nothing.table.rows.clear();
  EXPECT_THAT(why(nothing), HasSubstr("nothing beats the default"));
  TuningResult chunks = tuned_for(23102);
  chunks.table.rows.erase(chunks.table.rows.begin(), chunks.table.rows.begin() + 2);
  EXPECT_THAT(why(chunks), HasSubstr("None of the settings"));
}

// The names are those of NCCL 2.31.2's registry of algorithms, which matches names by prefix.
TEST(AlgSelection, names_exactly_one_kernel) {
  EXPECT_EQ(alg_selection(setting("tree/ll")), "TREE_LL+^TREE_LL128");
  EXPECT_EQ(alg_selection(setting("tree/ll128")), "TREE_LL128");
  EXPECT_EQ(alg_selection(setting("ring/simple")), "RING_SIMPLE");
  EXPECT_EQ(alg_selection(setting("collnet_direct/simple")), "COLLNET_DIRECT_SIMPLE");
  EXPECT_EQ(alg_selection(setting("collnet_chain/simple")), "COLLNET_CHAIN_SIMPLE");
  EXPECT_EQ(alg_selection(setting("nvls/simple")), "NVLS_SIMPLE");
  EXPECT_EQ(alg_selection(setting("nvls_tree/simple")), "NVLSTREE_SIMPLE");
  EXPECT_EQ(alg_selection(setting("pat/simple")), "PAT_SIMPLE");
  EXPECT_EQ(alg_selection(setting("pat/ll")), "");
}

}  // namespace
}  // namespace p5::tuner
