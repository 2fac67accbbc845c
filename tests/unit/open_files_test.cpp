#include "bench/base/thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

#include "topo/discover.hpp"

namespace p5 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

rlimit limit_now() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

void set_limit(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  setrlimit(RLIMIT_NOFILE, &limit);
}

// A raised limit cannot be lowered again: each check runs in a process of its own, which exits with 0 on success.
void expect_in_child(bool (*holds)()) { EXPECT_EXIT(std::_Exit(holds() ? 0 : 1), testing::ExitedWithCode(0), ""); }

TEST(OpenFiles, the_limit_is_raised_as_far_as_needed_and_no_further) {
  expect_in_child([] {
    set_limit(100, 1000);
    if (!raise_open_file_limit(300).empty()) return false;
    const rlimit raised = limit_now();
    return raised.rlim_cur >= 300 + 64 && raised.rlim_cur < 1000 && raised.rlim_max == 1000 &&
           raise_open_file_limit(10).empty() && limit_now().rlim_cur == raised.rlim_cur;
  });
}

TEST(OpenFiles, what_the_host_gives_is_told_as_it_was) {
  expect_in_child([] {
    set_limit(100, 1000);
    const auto at_start = initial_open_file_limit();
    raise_open_file_limit(300);
    return limit_now().rlim_cur != at_start && initial_open_file_limit() == at_start &&
           topo::discover_process_limits().open_files == at_start;
  });
}

TEST(OpenFiles, a_limit_that_is_too_low_is_told_with_the_remedy) {
  expect_in_child([] {
    set_limit(100, 200);
    return testing::Matches(AllOf(HasSubstr("may open 200 files"), HasSubstr("4088 ranks"), HasSubstr("LimitNOFILE")))(
               raise_open_file_limit(4088)) &&
           limit_now().rlim_cur == 100;
  });
}

}  // namespace
}  // namespace p5
