// Facts that cannot be read are absent.
#include "topo/system_files.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "tests/unit/in_folder.hpp"

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

using DeviceFiles = InFolder;

TEST_F(DeviceFiles, without_a_driver_do_not_count) {
  EXPECT_TRUE(has_driver("/dev/null"));
  EXPECT_FALSE(has_driver(folder / "missing"));
  // Opening the file of a socket fails as opening that of a device without a driver does (ENXIO).
  const int file = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "device";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::ranges::copy(path, address.sun_path);
  ASSERT_EQ(::bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_FALSE(has_driver(path));
  ::close(file);
}

}  // namespace
}  // namespace p5::topo
