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

TEST(CommandLine, takes_every_format_and_for_a_run_those_that_show_one) {
  for (const reports::Writer& writer : reports::writers()) {
    EXPECT_EQ(parse_options({"compare", "a", "b", "--format", writer.name}).options.formats, std::vector{writer.name});
    const auto run = [&] { return parse_options({"run", "--format", writer.name}).options.formats; };
    if (writer.render)
      EXPECT_EQ(run(), std::vector{writer.name});
    else
      EXPECT_THAT(run, ThrowsMessage<UsageError>(HasSubstr("--format " + writer.name + " is for comparisons")));
  }
}

}  // namespace
}  // namespace p5
