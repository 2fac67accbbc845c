// The table of backends.
#include "bench/model/backends.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"

namespace p5 {
namespace {

TEST(Backends, are_found_by_name_and_auto_is_none_of_them) {
  EXPECT_EQ(find_backend("ofi").name, "ofi");
  EXPECT_EQ(requested_backend("nccl"), &find_backend("nccl"));
  EXPECT_EQ(requested_backend("auto"), nullptr);
  EXPECT_THAT([] { find_backend("ncll"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("unknown backend 'ncll'; did you mean 'nccl'?")));
}

TEST(Backends, the_simulator_is_what_its_row_says) {
  const auto sim = make_sim_backend(SimMachine{});
  const BackendInfo& row = find_backend("sim");
  EXPECT_EQ(sim->relaunches(), row.relaunches());
  EXPECT_EQ(sim->provenance() == "simulated", row.simulated());
}

}  // namespace
}  // namespace p5
