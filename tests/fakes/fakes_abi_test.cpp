// Properties of NCCL's header, by version, that let programs built with it run with another NCCL. The numbers were
// printed by small programs compiled against src/nccl.h.in of each tag.
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <cstddef>

namespace {

struct Header {
  const char* tag;
  int version;
  std::size_t config;  // bytes of ncclConfig_t
};
constexpr std::array headers{
    Header{"v2.21.5-1", 22105, 48}, Header{"v2.26.2-1", 22602, 48},  Header{"v2.27.3-1", 22703, 72},
    Header{"v2.27.7-1", 22707, 72}, Header{"v2.28.3-1", 22803, 80},  Header{"v2.28.9-1", 22809, 80},
    Header{"v2.29.2-1", 22902, 88}, Header{"v2.29.7-1", 22907, 88},  Header{"v2.30.3-1", 23003, 96},
    Header{"v2.30.7-1", 23007, 96}, Header{"2.31.0a16", 23100, 112}, Header{"2.31.2, 021e8045", 23102, 120}};

// Values of the newest known version that is not newer than the header at hand.
const Header& known() {
  const Header* found = &headers.front();
  for (const Header& each : headers)
    if (each.version <= NCCL_VERSION_CODE) found = &each;
  return *found;
}

TEST(NcclHeader, has_the_layouts_that_are_written_down) {
  EXPECT_EQ(sizeof(ncclUniqueId), 128u);
  EXPECT_EQ(NCCL_SPLIT_NOCOLOR, -1);
  if (NCCL_VERSION_CODE <= headers.back().version) {
    EXPECT_EQ(sizeof(ncclConfig_t), known().config) << known().tag;
  }
#if NCCL_VERSION_CODE >= 22700
  EXPECT_EQ(NCCL_WIN_COLL_SYMMETRIC, 1);
  EXPECT_EQ(offsetof(ncclConfig_t, CTAPolicy), 60u);
  EXPECT_EQ(NCCL_CTA_POLICY_EFFICIENCY, 1);
#endif
#if NCCL_VERSION_CODE >= 23100
  EXPECT_EQ(offsetof(ncclCollConfig_t, minCTAs), 24u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, maxCTAs), 28u);
#endif
#if NCCL_VERSION_CODE >= 23102  // absent in 2.31.0a16
  EXPECT_EQ(offsetof(ncclCollConfig_t, algSelection), 40u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, forceAlgSelection), 48u);
#endif
}

// Enumerators that the worker passes on by number.
TEST(NcclHeader, counts_types_and_operations_as_it_always_did) {
  EXPECT_EQ((std::array{ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32,
                        ncclFloat64, ncclBfloat16}),
            (std::array<ncclDataType_t, 10>{ncclDataType_t(0), ncclDataType_t(1), ncclDataType_t(2), ncclDataType_t(3),
                                            ncclDataType_t(4), ncclDataType_t(5), ncclDataType_t(6), ncclDataType_t(7),
                                            ncclDataType_t(8), ncclDataType_t(9)}));
  EXPECT_EQ(
      (std::array{ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}),
      (std::array<ncclRedOp_t, 5>{ncclRedOp_t(0), ncclRedOp_t(1), ncclRedOp_t(2), ncclRedOp_t(3), ncclRedOp_t(4)}));
}

}  // namespace
