#include "bench/base/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace p5 {

TEST(LogLines, TheOriginIsTheSameBehindWhateverLaunchersPutBeforeIt) {
  for (const std::string before :
       {"", "[1,3]<stdout>:", "[1,3]<stdout>: ", "[default3]:", "[rank3]:", "[rank3]: ", "3:", "3: ", "gpu-b: ",
        "[pod/train-3/main] ", "train-3 main ", "(worker pid=17, ip=10.0.0.1) ", "2026-11-20T10:00:00.123Z stdout F ",
        "[2026-11-20 10:00:00] ", "w-1  | ", "Thu Nov 20 10:00:00 2026<stdout>:", "h:1:2 [0] NCCL INFO h:1:2 [0] "}) {
    const std::string line = before + "gpu-a.x:401:460 [-1] ";
    const std::optional<NcclOrigin> found = nccl_origin(line);
    ASSERT_TRUE(found.has_value()) << line;
    EXPECT_EQ(found->host, "gpu-a.x") << line;
    EXPECT_EQ(found->process, "gpu-a.x:401") << line;
    EXPECT_EQ(found->before, before) << line;
  }
}

TEST(LogLines, AnOriginHasAHostAProcessAThreadAndADevice) {
  for (const char* const line : {"", " [0] ", "a:1 [0] ", ":1:2 [0] ", "a:b:2 [0] ", "a:1:b [0] ", "a:1:2 0 ",
                                 "a:1:2 [x] ", "a:1:2 [] ", "a:1:2 [0"})
    EXPECT_FALSE(nccl_origin(line).has_value()) << line;
  EXPECT_EQ(nccl_origin("a:1:2 [0] transport/net.cc:12 [send] ")->host, "a");
}

TEST(LogLines, ColoursInAnySpellingAndCarriageReturnsAreLeftOut) {
  for (const char* const line : {"a:1:2 [0] NCCL INFO x", "\x1b[36ma:1:2\x1b[0m [0] NCCL \x1b[1;32mINFO x\x1b[K\r",
                                 "\\u001b[36ma:1:2 [0] NCCL INFO x", "^[[36ma:1:2 [0]#033[0m NCCL INFO x",
                                 "\x1b(Ba:1:2 [0] NCCL INFO x", "\x1b]0;job 7\aa:1:2 [0] NCCL INFO x",
                                 "\x1b"
                                 "7a:1:2 [0] NCCL INFO x\x1b"
                                 "8",
                                 "a:1:2 [0] NCCL INFO x\x1b[0;3"})
    EXPECT_EQ(plain_line(line), "a:1:2 [0] NCCL INFO x");
  for (const char* const line : {"a^b #0 [1]", "C:\\temp", "x^[y", "\\"}) EXPECT_EQ(plain_line(line), line);
  EXPECT_EQ(plain_line("{\\\"a\\\"}"), "{\"a\"}");
  EXPECT_EQ(plain_line("a:1:2\xc2\xa0[0] NCCL\xc2\xa0INFO \xc3\xa0"), "a:1:2 [0] NCCL INFO \xc3\xa0");
}

TEST(LogLines, ACarriageReturnWithinALineEndsTheTextBeforeIt) {
  for (const char* const line : {"step 1\rstep 2\ra:1:2 [0] NCCL INFO x", "step 2\ra:1:2 [0] NCCL INFO x\r\r",
                                 "\ra:1:2 [0] NCCL INFO x\r\x1b[K", "46%|##\x1b[0m\r\x1b[36ma:1:2 [0] NCCL INFO x\r"})
    EXPECT_EQ(plain_line(line), "a:1:2 [0] NCCL INFO x");
  EXPECT_EQ(plain_line("\r"), "");
}

std::vector<std::pair<std::string, bool>> parts_of(const std::string& line) {
  std::vector<std::pair<std::string, bool>> parts;
  for (const LogLine& each : log_lines(line)) parts.emplace_back(each.text, each.begins);
  return parts;
}

TEST(LogLines, OfOneLineOfAFileAreParted) {
  using Parts = std::vector<std::pair<std::string, bool>>;
  const std::string a = "a:1:2 [0] NCCL INFO x/y", b = "[2026-11-20 10:00:00] b:1:2 [3] init.cc:7 NCCL WARN z [1]";
  EXPECT_EQ(parts_of(a), (Parts{{a, true}}));
  EXPECT_EQ(parts_of(""), (Parts{{"", true}}));
  EXPECT_EQ(parts_of(a + "\\r\\n" + b), (Parts{{a, true}, {b, true}}));
  EXPECT_EQ(parts_of(a + "\t" + a + b), (Parts{{a, true}, {a, true}, {b, true}}));
  EXPECT_EQ(parts_of(a + "b:1:2 [3] NCCL INFO z"),
            (Parts{{"a:1:2 [0] NCCL INFO x/", true}, {"yb:1:2 [3] NCCL INFO z", false}}));
  EXPECT_EQ(parts_of("NCCL INFO says NCCL WARN without an origin"),
            (Parts{{"NCCL INFO says NCCL WARN without an origin", true}}));
  EXPECT_EQ(known_end("yb", {"b", "c"}), "b");
  EXPECT_EQ(known_end("yb", {"yb", "b"}), "yb");
  EXPECT_EQ(known_end("yb", {}), "yb");
}

}  // namespace p5
