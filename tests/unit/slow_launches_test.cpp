// Finding run.slow_launch: slow launches of a run.
#include "reports/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/model/collective.hpp"

namespace p5::reports {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A case of `size` whose launches took these times, in milliseconds.
CombinedLaunches launches_of(Bytes size, const std::vector<double>& times, std::optional<std::size_t> failed = {}) {
  CombinedLaunches all;
  for (std::size_t i = 0; i < times.size(); ++i) {
    Measurement m;
    m.measured_case.collective = &find_collective("all_reduce");
    m.measured_case.bytes = size;
    m.launch = static_cast<int>(i);
    m.throughput.emplace();
    m.throughput->samples = {times[i] * 1e-3};
    m.throughput->summary = summarize(m.throughput->samples);
    if (i == failed) m.outcome = Outcome::failed;
    all.add(m);
  }
  return all;
}

TEST(SlowLaunches, are_named_with_what_was_slow_in_them) {
  const CombinedLaunches large = launches_of(MiB(256), {1, 1.001, 1, 1.12, 0.999, 1}),
                         larger = launches_of(GiB(1), {1, 1, 1.001, 1.3, 1, 1});
  const std::vector<topo::Finding> found = slow_launches({&large, &larger}, {{{"default", 3}, "2026-11-20T12:00:00Z"}});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "run.slow_launch");
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
  EXPECT_THAT(found[0].evidence, HasSubstr("launch 4, begun at 2026-11-20T12:00:00Z,"));
  EXPECT_LT(found[0].evidence.find("+30.0 %"), found[0].evidence.find("+12.0 %")) << found[0].evidence;
}

TEST(SlowLaunches, are_none_where_launches_differ_anyway_or_by_little) {
  const CombinedLaunches restless = launches_of(MiB(256), {1, 1.05, 0.95, 1.1, 0.9, 1.2});
  EXPECT_THAT(slow_launches({&restless}, {}), IsEmpty());
  const CombinedLaunches steady = launches_of(MiB(256), {1, 1, 1, 1.05, 1, 1});
  EXPECT_THAT(slow_launches({&steady}, {}), IsEmpty()) << "below twice 3 %";
  const CombinedLaunches faster = launches_of(MiB(256), {1, 1, 1, 0.5, 1, 1});
  EXPECT_THAT(slow_launches({&faster}, {}), IsEmpty());
  const CombinedLaunches few = launches_of(MiB(256), {1, 1, 2, 1});
  EXPECT_THAT(slow_launches({&few}, {}), IsEmpty());
}

TEST(SlowLaunches, pass_over_what_failed) {
  const CombinedLaunches launches = launches_of(MiB(256), {1, 1, 1, 9, 1, 1}, 3);
  EXPECT_THAT(slow_launches({&launches}, {}), IsEmpty());
}

}  // namespace
}  // namespace p5::reports
