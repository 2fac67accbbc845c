// Facts that cannot be read are absent.
#include "topo/system_files.hpp"

#include <gtest/gtest.h>

namespace p5::topo {
namespace {

TEST(SystemFiles, a_file_that_opens_and_cannot_be_read_is_absent) {
  EXPECT_EQ(read_text("/proc/self/mem"), std::nullopt);  // nothing is mapped where it begins
  EXPECT_EQ(read_number("/proc/self/mem"), std::nullopt);
}

TEST(SystemFiles, so_are_files_that_are_not_there_folders_and_empty_ones) {
  for (const char* const path : {"/no/such/file", "/proc", "/dev/null"})
    EXPECT_EQ(read_text(path), std::nullopt) << path;
}

}  // namespace
}  // namespace p5::topo
