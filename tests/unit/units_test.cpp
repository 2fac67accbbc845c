// Sizes and durations as users write them and as reports show them.
#include "bench/base/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/base/error.hpp"

namespace p5 {
namespace {

using testing::HasSubstr;

TEST(ParseBytes, takes_plain_numbers_and_binary_and_decimal_units) {
  EXPECT_EQ(parse_bytes("8"), Bytes{8});
  EXPECT_EQ(parse_bytes("8B"), Bytes{8});
  EXPECT_EQ(parse_bytes("64K"), Bytes{65536});
  EXPECT_EQ(parse_bytes("64k"), Bytes{65536});
  EXPECT_EQ(parse_bytes("64KiB"), Bytes{65536});
  EXPECT_EQ(parse_bytes("64kB"), Bytes{64000});
  EXPECT_EQ(parse_bytes("64M"), MiB(64));
  EXPECT_EQ(parse_bytes("64MiB"), MiB(64));
  EXPECT_EQ(parse_bytes("64MB"), Bytes{64000000});
  EXPECT_EQ(parse_bytes("4G"), GiB(4));
  EXPECT_EQ(parse_bytes("1m"), MiB(1)) << "as nccl-tests takes it";
  EXPECT_EQ(parse_bytes("4g"), GiB(4));
  EXPECT_EQ(parse_bytes("4GiB"), GiB(4));
  EXPECT_EQ(parse_bytes("4GB"), Bytes{4000000000});
  EXPECT_EQ(parse_bytes("2T"), GiB(2048));
}

TEST(ParseBytes, takes_sizes_up_to_the_largest_signed_number) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), Bytes{9223372036854775807u});
  EXPECT_EQ(parse_bytes("8589934591G"), GiB(8589934591));
}

TEST(ParseBytes, refuses_anything_else_and_names_it) {
  for (const std::string text : {"8KBx",
                                 "-1",
                                 "nan",
                                 "inf",
                                 "1e30",
                                 "",
                                 "0",
                                 "0K",
                                 "9223372036854775808",
                                 "18446744073709551616",
                                 "99999999999999999999999",
                                 "8589934592G",
                                 "8388608T",
                                 "+8",
                                 " 8",
                                 "8 ",
                                 "8 K",
                                 "1.5K",
                                 "1,000",
                                 "0x10",
                                 "K",
                                 "KiB",
                                 "8Ki",
                                 "8KIB",
                                 "8b",
                                 "8P",
                                 "8KB8",
                                 "8;",
                                 "--min"}) {
    try {
      parse_bytes(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'" + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr("64K"));
    }
  }
}

TEST(ParseBytes, refuses_text_with_a_hidden_end) { EXPECT_THROW(parse_bytes(std::string_view("8\0", 2)), UsageError); }

TEST(ParseDuration, takes_milliseconds_seconds_minutes_and_hours) {
  EXPECT_EQ(parse_duration("500ms"), Seconds{0.5});
  EXPECT_EQ(parse_duration("30s"), Seconds{30});
  EXPECT_EQ(parse_duration("10min"), Seconds{600});
  EXPECT_EQ(parse_duration("2h"), Seconds{7200});
  EXPECT_EQ(parse_duration("45"), Seconds{45});
  EXPECT_EQ(parse_duration("1.5h"), Seconds{5400});
}

TEST(ParseDuration, refuses_anything_else_and_names_it) {
  for (const std::string text : {"8KBx",
                                 "-1",
                                 "-1s",
                                 "nan",
                                 "nans",
                                 "inf",
                                 "1e30",
                                 "1e3s",
                                 "",
                                 "0",
                                 "0s",
                                 "0.0min",
                                 "s",
                                 "min",
                                 "30x",
                                 "30 s",
                                 " 30",
                                 "+30",
                                 "10m",
                                 "10mins",
                                 "1h30min",
                                 "1.2.3s",
                                 ".",
                                 "1,5s",
                                 "0x10",
                                 "9223372036854775808",
                                 "99999999999h"}) {
    try {
      parse_duration(text);
      ADD_FAILURE() << "'" << text << "' was taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'" + text + "'"));
      EXPECT_THAT(error.what(), HasSubstr("10min"));
    }
  }
}

TEST(ToText, shows_sizes_in_the_largest_unit_that_is_whole) {
  EXPECT_EQ(to_text(Bytes{0}), "0 B");
  EXPECT_EQ(to_text(Bytes{8}), "8 B");
  EXPECT_EQ(to_text(KiB(64)), "64 KiB");
  EXPECT_EQ(to_text(GiB(4)), "4 GiB");
  EXPECT_EQ(to_text(Bytes{1536}), "1536 B");
  EXPECT_EQ(to_text(MiB(1536)), "1536 MiB");
  EXPECT_EQ(to_text(GiB(1 << 20)), "1024 TiB");
}

TEST(Units, BytesAreRoundedInTheUnitThatFits) {
  EXPECT_EQ(to_rounded_text(0), "0 B");
  EXPECT_EQ(to_rounded_text(1023), "1023 B");
  EXPECT_EQ(to_rounded_text(1023.7), "1.0 KiB");
  EXPECT_EQ(to_rounded_text(8.4e6), "8.0 MiB");
  EXPECT_EQ(to_rounded_text(1023.96 * 1024 * 1024), "1.0 GiB");
  EXPECT_EQ(to_rounded_text(128.0 * (1 << 30)), "128.0 GiB");
  EXPECT_EQ(to_rounded_text(2e15), "1819.0 TiB");
}

TEST(ToText, shows_sizes_that_parse_back) {
  for (const std::uint64_t count : {1ull, 1000ull, 1024ull, 65536ull, 1ull << 33, (1ull << 40) + 1}) {
    std::string text = to_text(Bytes{count});
    text.erase(text.find(' '), 1);
    EXPECT_EQ(parse_bytes(text), Bytes{count});
  }
}

TEST(ToText, shows_times_with_three_digits) {
  EXPECT_EQ(to_text(Seconds{0}), "0 us");
  EXPECT_EQ(to_text(Seconds{1.4e-6}), "1.4 us");
  EXPECT_EQ(to_text(Seconds{0.85}), "850 ms");
  EXPECT_EQ(to_text(Seconds{12.34}), "12.3 s");
  EXPECT_EQ(to_text(Seconds{250}), "4 min 10 s");
  EXPECT_EQ(to_text(Seconds{5400}), "1 h 30 min");
  EXPECT_EQ(to_text(Seconds{86400}), "24 h 0 min");
}

TEST(ToText, moves_to_the_next_unit_when_rounding_reaches_it) {
  EXPECT_EQ(to_text(Seconds{0.0009996}), "1 ms");
  EXPECT_EQ(to_text(Seconds{0.9996}), "1 s");
  EXPECT_EQ(to_text(Seconds{59.99}), "1 min 0 s");
  EXPECT_EQ(to_text(Seconds{3599.8}), "1 h 0 min");
}

TEST(Rates, are_decimal) {
  EXPECT_DOUBLE_EQ((Bytes{2'000'000'000} / Seconds{0.5}).count, 4);
  EXPECT_DOUBLE_EQ((GBps{4} * 1.75).count, 7);
  EXPECT_DOUBLE_EQ(microseconds(Seconds{0.0014}), 1400);
}

}  // namespace
}  // namespace p5
