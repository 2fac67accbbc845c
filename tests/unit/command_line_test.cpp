// What the command line takes from tables elsewhere.
#include "bench/app/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/base/error.hpp"
#include "reports/writer.hpp"

namespace p5 {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CommandLine, takes_every_format) {
  for (const reports::Writer& writer : reports::writers()) {
    EXPECT_EQ(parse_options({"compare", "a", "b", "--format", writer.name}).options.formats, std::vector{writer.name});
    EXPECT_EQ(parse_options({"run", "--format", writer.name}).options.formats, std::vector{writer.name});
  }
}

TEST(CommandLine, a_check_takes_a_few_options_of_a_run_and_divides_its_time) {
  const Options o = parse_options({"check"}).options;
  EXPECT_TRUE(o.checks());
  EXPECT_EQ(o.backend, "nccl");
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.formats, std::vector<std::string>{"console"});
  EXPECT_EQ(o.limit.count, 20);
  EXPECT_EQ(o.timeout.count, 5);
  const Options sim =
      parse_options({"check",   "--backend",    "sim",       "--platform", "p5.48xlarge", "--nodes", "4",
                     "--fault", "gpu:n1g3:0.5", "--cluster", "c",          "--out",       "o",       "--format",
                     "json",    "--quiet",      "--limit",   "1min",       "--timeout",   "2s"})
          .options;
  EXPECT_EQ(sim.limit.count, 60);
  EXPECT_EQ(sim.timeout.count, 2);
  for (const char* option : {"--tune", "--sizes", "--max", "--budget", "--launches", "--baseline", "--collectives"})
    EXPECT_THAT(
        [&] {
          parse_options({"check", option, "1"});
        },
        ThrowsMessage<UsageError>(HasSubstr(std::string(option) + " has no meaning for check")));
  EXPECT_THAT([] { parse_options({"check", "--nodes", "2"}); }, ThrowsMessage<UsageError>(HasSubstr("--backend sim")));
  EXPECT_THAT([] { parse_options({"check", "--limit", "3s"}); }, ThrowsMessage<UsageError>(HasSubstr("8 s or more")));
  EXPECT_THAT([] { parse_options({"run", "--limit", "30s"}); }, ThrowsMessage<UsageError>(HasSubstr("--limit")));
}

}  // namespace
}  // namespace p5
