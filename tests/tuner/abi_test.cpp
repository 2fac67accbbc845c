// The layouts of NCCL's tuner interface, by version, against tuner/plugin/abi.hpp. The numbers were printed by small
// programs compiled against the headers of each tag (src/include/plugin; up to 2.26 src/include).
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tuner/plugin/abi.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {
namespace {

struct Release {
  const char* tag;
  int newest;             // the interface version that it tries first
  int algorithms;         // rows of the cost table
  std::size_t constants;  // bytes; 0: the tuner interface of this version does not have them
};
constexpr std::array releases{
    Release{"v2.21.5-1", 2, 6, 0},    Release{"v2.22.3-1", 3, 6, 0},    Release{"v2.23.4-1", 3, 7, 0},
    Release{"v2.24.3-1", 4, 7, 0},    Release{"v2.25.1-1", 4, 7, 0},    Release{"v2.26.2-1", 4, 7, 0},
    Release{"v2.27.7-1", 4, 7, 0},    Release{"v2.28.3-1", 5, 7, 1152}, Release{"v2.28.9-1", 5, 7, 1152},
    Release{"v2.29.2-1", 5, 7, 1152}, Release{"v2.29.7-1", 5, 7, 1152}, Release{"v2.30.3-1", 6, 7, 1152},
    Release{"v2.30.7-1", 6, 7, 1152}, Release{"2.31.0a16", 6, 7, 1152}, Release{"2.32, 2449986f", 7, 7, 1272}};

// Name, init, choose, finalize, and from version 6 on the chunk size: consecutive pointers.
template <class Tuner>
std::vector<std::size_t> layout() {
  std::vector<std::size_t> all{offsetof(Tuner, name), offsetof(Tuner, init), offsetof(Tuner, choose),
                               offsetof(Tuner, finalize)};
  if constexpr (requires(Tuner tuner) { tuner.chunk; }) all.push_back(offsetof(Tuner, chunk));
  all.push_back(sizeof(Tuner));
  return all;
}

struct Ours {
  std::vector<std::size_t> layout;
  std::size_t constants;
};
const std::map<int, Ours>& ours() {
  static const std::map<int, Ours> all{{2, {layout<abi::TunerV2>(), 0}},
                                       {3, {layout<abi::TunerV3>(), 0}},
                                       {4, {layout<abi::TunerV4>(), 0}},
                                       {5, {layout<abi::TunerV5>(), sizeof(abi::Constants)}},
                                       {6, {layout<abi::TunerV6>(), sizeof(abi::Constants)}},
                                       {7, {layout<abi::TunerV7>(), sizeof(abi::ConstantsV7)}}};
  return all;
}

TEST(TunerAbi, the_newest_interface_of_each_release_is_laid_out_as_its_header_has_it) {
  for (const Release& release : releases) {
    ASSERT_TRUE(ours().contains(release.newest)) << release.tag;
    const Ours& our = ours().at(release.newest);
    const std::vector<std::size_t> plain{0, 8, 16, 24, 32}, with_chunks{0, 8, 16, 24, 32, 40};
    EXPECT_EQ(our.layout, release.newest < 6 ? plain : with_chunks) << release.tag;
    EXPECT_EQ(our.constants, release.constants) << release.tag;
    EXPECT_EQ(release.algorithms, release.newest == 2 || release.tag == std::string("v2.22.3-1")
                                      ? abi::algorithms_without_pat
                                      : abi::algorithms)
        << release.tag;
  }
}

TEST(TunerAbi, constants_lie_where_nccl_reads_them) {
  EXPECT_EQ(offsetof(abi::Constants, link_latencies), 168u);
  EXPECT_EQ(offsetof(abi::Constants, bandwidths), 672u);
  EXPECT_EQ(offsetof(abi::ConstantsV7, link_latencies), 168u);
  EXPECT_EQ(offsetof(abi::ConstantsV7, bandwidths), 672u);
  EXPECT_EQ(sizeof(abi::Constants::bandwidths[0]), 96u);
  EXPECT_EQ(sizeof(abi::ConstantsV7::bandwidths[0]), 120u);
  EXPECT_EQ(sizeof(abi::NvlinkDomains), 12u);
}

// The same values hold at all tags above.
TEST(TunerAbi, names_have_nccls_numbers) {
  const auto number = [](auto name) { return static_cast<int>(name); };
  const std::array functions{Function::broadcast, Function::reduce, Function::all_gather, Function::reduce_scatter,
                             Function::all_reduce};
  for (int i = 0; i < abi::functions; ++i) EXPECT_EQ(number(functions.at(static_cast<std::size_t>(i))), i);
  const std::array algorithms{
      Algorithm::tree,      Algorithm::ring, Algorithm::collnet_direct, Algorithm::collnet_chain, Algorithm::nvls,
      Algorithm::nvls_tree, Algorithm::pat};
  for (int i = 0; i < abi::algorithms; ++i) EXPECT_EQ(number(algorithms.at(static_cast<std::size_t>(i))), i);
  const std::array protocols{Protocol::ll, Protocol::ll128, Protocol::simple};
  for (int i = 0; i < abi::protocols; ++i) EXPECT_EQ(number(protocols.at(static_cast<std::size_t>(i))), i);
  EXPECT_EQ(abi::unavailable, -1);
  EXPECT_EQ((std::array{abi::warn, abi::info}), (std::array{2, 3}));
  EXPECT_EQ((std::array{abi::init, abi::tuning}), (std::array{0x1ul, 0x40ul}));
  EXPECT_EQ((std::array{abi::success, abi::system_error, abi::internal_error, abi::invalid_usage}),
            (std::array{0, 2, 3, 5}));
}

}  // namespace
}  // namespace p5::tuner
