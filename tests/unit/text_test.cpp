#include "bench/base/text.hpp"

#include <gtest/gtest.h>

namespace p5 {

namespace {

TEST(Text, WhatATerminalObeysOrHidesIsShownAsBytes) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\x0ab\\x09c\\x0dd\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");                // a control of C1
  EXPECT_EQ(printable("a\u202eb"), "a\\xe2\\x80\\xaeb");           // right to left
  EXPECT_EQ(printable("a\u2028b"), "a\\xe2\\x80\\xa8b");           // a line end
  EXPECT_EQ(printable("a\U000e0041b"), "a\\xf3\\xa0\\x81\\x81b");  // an invisible tag
  EXPECT_EQ(printable_lines("a\nb\x1b\n"), "a\nb\\x1b\n");
}

TEST(Text, WhatIsNoUtf8IsShownAsBytes) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xc0\x80"), "\\xc0\\x80");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_FALSE(is_utf8("caf\xe9"));
  EXPECT_TRUE(is_utf8("caf\u00e9\n"));
}

TEST(Text, LettersStayAndWhatWasMadePrintableToo) {
  for (const char* const text : {"n1.example", "Zürich", "計算機", "a\\b 'c'", "🦊", "45 °C"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(printable("a\x1b")), printable("a\x1b"));
}

TEST(Text, QuotesAreShort) {
  EXPECT_EQ(in_quotes("a\nb"), "'a\\x0ab'");
  const std::string quote = in_quotes(std::string(2'000'000, 'x'));
  EXPECT_LT(quote.size(), 100U);
  EXPECT_TRUE(quote.ends_with("...'"));
  // The cut is not within a character.
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "üü"), "'" + std::string(79, 'x') + "...'");
}

TEST(Text, IsQuotedForAShellOnlyWhereThatIsNeeded) {
  EXPECT_EQ(for_shell("out/job.json"), "out/job.json");
  EXPECT_EQ(for_shell("o ut/job.json"), "'o ut/job.json'");
  EXPECT_EQ(for_shell("$(x)"), "'$(x)'");
  EXPECT_EQ(for_shell(""), "''");
}

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(cut("all_reduce", 10), "all_reduce");
  EXPECT_EQ(cut("all_reduce beside", 10), "all_red...");
  for (std::size_t most = 3; most < 12; ++most) {
    EXPECT_TRUE(is_utf8(cut("計算機 Zürich", most))) << most;
    EXPECT_LE(cut("計算機 Zürich", most).size(), most);
  }
}

TEST(Text, ArgumentsOfAFormatAreMadePrintable) {
  const std::string name = "n\x1b[2J\n";
  const char* const other = "b\n";
  EXPECT_EQ(format_printable("{:>12}|{}|{}|{:.1f}|{}\n", name, other, "c\n", 1.25, 7),
            "n\\x1b[2J\\x0a|b\\x0a|c\\x0a|1.2|7\n");
}

}  // namespace

}  // namespace p5
