// Several programs of nccl-tests in one log, and the commands that a report gives for them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "bench/base/units.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"

namespace p5::reports::nccl_tests {
namespace {

using testing::HasSubstr;

// 8 B times 2^31 twice is 2^65.
TEST(NcclTestsPrograms, of_sizes_far_apart_have_one_range_that_ends) {
  for (const auto& [first, last, range] :
       {std::tuple{Bytes{8}, GiB(16), "-b 8 -e 17179869184 -f 2147483648 "},
        {Bytes{4}, GiB(8), "-b 4 -e 8589934592 -f 2147483648 "},
        {Bytes{8}, Bytes{std::uint64_t{1} << 60}, "-b 8 -e 1152921504606846976 -f 144115188075855872 "}}) {
    Report report;
    report.run.ranks = 2;
    report.run.nodes = 1;
    report.topology.hosts.resize(1);
    report.topology.hosts[0].name = "a";
    report.topology.host_of_rank = {0, 0};
    for (const Bytes bytes : {first, last}) {
      Measurement& m = report.results.emplace_back().measurement;
      m.measured_case.backend = "nccl";
      m.measured_case.collective = &all_reduce;
      m.measured_case.op = ReduceOp::sum;
      m.measured_case.bytes = bytes;
      m.measured_case.ranks = 2;
      m.throughput = Series{};
      m.throughput->summary.median = static_cast<double>(bytes.count) / 1e11;
    }
    EXPECT_THAT(render_nccl_tests(report), HasSubstr(range));
  }
}

}  // namespace
}  // namespace p5::reports::nccl_tests
