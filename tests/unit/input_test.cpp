#include "bench/base/input.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "nothing was refused";
}

class Input : public testing::Test {
 protected:
  Input() {
    std::string name = (fs::temp_directory_path() / "input-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~Input() override { fs::remove_all(folder); }
  std::string refusal(const std::string& name) const {
    return message_of([&] { read_input(folder / name, MiB(1), "name another"); });
  }
  fs::path folder;
};

TEST_F(Input, that_is_compressed_is_refused_with_the_remedy) {
  using namespace std::string_literals;
  for (const auto& [name, beginning, program] :
       {std::array{"log.gz"s, "\x1f\x8b\x08"s, "gunzip"s}, std::array{"log.zst"s, "\x28\xb5\x2f\xfd\x04"s, "unzstd"s},
        std::array{"log.xz"s, "\xfd\x37zXZ\0\0"s, "unxz"s}, std::array{"log.bz2"s, "BZh91AY&SY"s, "bunzip2"s}}) {
    std::ofstream(folder / name) << beginning << " whatever";
    EXPECT_THAT(refusal(name), testing::HasSubstr(name + "' is compressed: " + program + " it first"));
  }
}

TEST_F(Input, AFileIsReadWhole) {
  const std::string text(200'000, 'x');
  std::ofstream(folder / "file") << text;
  EXPECT_EQ(read_input(folder / "file", MiB(1), ""), text);
  EXPECT_EQ(read_input("/proc/self/comm", MiB(1), "").back(), '\n');
}

TEST_F(Input, AByteOrderMarkIsNoPartOfTheText) {
  std::ofstream(folder / "file") << "\xef\xbb\xbf"
                                 << "4096,1";
  EXPECT_EQ(read_input(folder / "file", MiB(1), ""), "4096,1");
}

// Redirected output of PowerShell is UTF-16.
TEST_F(Input, OfUtf16IsReadAsUtf8) {
  const std::u16string wide = u"n1: \u00b5 \u2502 \U0001f600\r\n";
  for (const bool little : {true, false}) {
    std::string bytes = little ? "\xff\xfe" : "\xfe\xff";
    for (const char16_t unit : wide) {
      const std::array both{static_cast<char>(unit & 0xff), static_cast<char>(unit >> 8)};
      bytes += {both[little ? 0 : 1], both[little ? 1 : 0]};
    }
    std::ofstream(folder / "wide") << bytes;
    EXPECT_EQ(read_input(folder / "wide", MiB(1), ""), "n1: \xc2\xb5 \xe2\x94\x82 \xf0\x9f\x98\x80\r\n") << little;
  }
}

TEST_F(Input, WhatIsNoFileIsRefusedByName) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  fs::create_symlink("loop", folder / "loop");
  for (const std::string name : {"pipe", "folder", "loop", "missing"}) {
    EXPECT_THAT(refusal(name), testing::HasSubstr("/" + name + "' ")) << name;
    EXPECT_THAT(refusal(name), testing::EndsWith("; name another")) << name;
  }
  EXPECT_THAT(refusal("pipe"), testing::HasSubstr("is a pipe, not a file"));
  EXPECT_THAT(message_of([] { read_input("/dev/zero", MiB(1), ""); }), testing::HasSubstr("is a device"));
}

TEST_F(Input, ALargeFileIsRefusedUnread) {
  std::ofstream(folder / "large") << "x";
  fs::resize_file(folder / "large", std::uintmax_t{1} << 40);
  EXPECT_THAT(refusal("large"), testing::HasSubstr("more than 1 MiB"));
}

// The sizes of kernel files and of growing files are unknown.
TEST_F(Input, AFileThatIsLargerThanItSaysIsRefused) {
  ASSERT_EQ(fs::file_size("/proc/self/status"), 0U);
  EXPECT_THAT(message_of([] { read_input("/proc/self/status", Bytes{100}, ""); }),
              testing::HasSubstr("has more than 100 B"));
}

std::string refusal_of(const std::string& text) {
  return message_of([&] { parse_json(text); });
}

TEST(ParseJson, BuildsWhatTheLibraryBuilds) {
  const std::string text =
      R"({"a": [1, -2, 3.5, "x", null, true, {"b": {}}, []], "": 18446744073709551615, "c": "é\n"})";
  EXPECT_EQ(parse_json(text), json::parse(text));
  EXPECT_EQ(parse_json("7"), json(7));
}

TEST(ParseJson, WhatIsNoJsonIsRefusedByItsPlace) {
  EXPECT_EQ(refusal_of("{\n  \"a\": [1,\n  x]}"), "line 3, column 3: it is no JSON from here on: 'x]}'");
  EXPECT_THAT(refusal_of("{\"a\": 1e999}"), testing::HasSubstr("the number '1e999' is beyond all that can be read"));
  EXPECT_THAT(refusal_of("{\"a\": [1,"), testing::HasSubstr("line 1, column 10: it is no JSON: it ends in the middle"));
  for (const char* const nothing : {"", " \n"}) EXPECT_EQ(refusal_of(nothing), "it is empty");
  EXPECT_THAT(refusal_of("[\"\xff\"]"), testing::HasSubstr("line 1, column 3: it is no JSON from here on"));
  EXPECT_THAT(refusal_of("[1] 2"), testing::HasSubstr("line 1, column 5"));
  EXPECT_LT(refusal_of("[" + std::string(1'000'000, 'x')).size(), 200U);
}

TEST(ParseJson, MembersThatAreLeftOutAreCheckedAndNotKept) {
  constexpr std::array<std::string_view, 2> left_out{"out", "too"};
  const auto parsed = [&](const std::string& text) { return parse_json(text, left_out); };
  EXPECT_EQ(
      parsed(R"({"a": 1, "out": [[1, {"a": [2]}], "x", {}], "too": null, "b": [{"too": {"b": {}}, "c": "out"}, 3]})"),
      json::parse(R"({"a": 1, "b": [{"c": "out"}, 3]})"));
  EXPECT_EQ(parsed(R"(["out", {"out": []}, {"out": 1}, "too"])"), json::parse(R"(["out", {}, {}, "too"])"));
  EXPECT_EQ(message_of([&] { parsed("{\"out\": [1, x]}"); }), "line 1, column 13: it is no JSON from here on: 'x]}'");
  EXPECT_EQ(message_of([&] { parsed("{\"out\": " + std::string(100'000, '[')); }),
            "its values are nested more than 64 deep (in 'out')");
  EXPECT_EQ(parse_json("{\"out\": [0, 1, 2], \"a\": 3}", left_out, 2), json::parse("{\"a\": 3}"));
}

TEST(ParseJson, NestingHasALimit) {
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']')));
  EXPECT_EQ(refusal_of(std::string(100'000, '[')), "its values are nested more than 64 deep");
  EXPECT_EQ(refusal_of("{\"env\": " + std::string(100'000, '[')), "its values are nested more than 64 deep (in 'env')");
}

TEST(ParseJson, TheNumberOfValuesHasALimit) {
  std::string many = "{\"a\": [0";
  for (int i = 0; i < 1000; ++i) many += ",0";
  EXPECT_EQ(message_of([&] { parse_json(many, {}, 1000); }), "it holds more than 1000 values (in 'a')");
}

// ---- lists of fields

struct Part {
  std::string text;
  double share = 0;
  std::optional<int> rank;
  std::vector<std::uint64_t> counts;
  std::map<std::string, bool> flags;
};
struct Whole {
  std::vector<Part> parts;
  double below = 0;
};
constexpr std::array<std::string_view, 2> texts{"one", "two"};
void fields(auto& archive, Is<Part> auto& part) {
  archive.must("text", json_fields::one_of(part.text, texts));
  archive.must("share", json_fields::between(0, 1, part.share));
  archive.may("rank", json_fields::at_least(-1, part.rank));
  archive.may("counts", part.counts);
  archive.may("flags", part.flags);
}
void fields(auto& archive, Is<Whole> auto& whole) {
  archive.must("parts", whole.parts);
  archive.may("below", json_fields::any(whole.below));
}

std::string refusal_by_fields(const std::string& part) {
  const json j = json::parse(R"({"parts": [{"text": "one", "share": 1}, )" + part + "]}");
  return message_of([&] { json_fields::read_as<Whole>(j); });
}

TEST(JsonFields, AValueThatDoesNotFitIsRefusedByItsPlace) {
  const auto refused = [](const char* part, const char* message) { EXPECT_EQ(refusal_by_fields(part), message); };
  refused(R"({"text": "one"})", "/parts/1/share is missing");
  refused(R"({"text": "three", "share": 1})", "/parts/1/text has to be one or two, not 'three'");
  refused(R"({"text": 7, "share": 1})", "/parts/1/text has to be a text, not 7");
  refused(R"({"text": "one", "share": 1.5})", "/parts/1/share has to be a number from 0 to 1, not 1.5");
  refused(R"({"text": "one", "share": "1"})", "/parts/1/share has to be a number from 0 to 1, not '1'");
  refused(R"({"text": "one", "share": 1, "rank": -2})",
          "/parts/1/rank has to be a whole number from -1 to 2147483647, not -2");
  refused(R"({"text": "one", "share": 1, "rank": 1e308})",
          "/parts/1/rank has to be a whole number from -1 to 2147483647, not 1e+308");
  refused(R"({"text": "one", "share": 1, "rank": 1.5})",
          "/parts/1/rank has to be a whole number from -1 to 2147483647, not 1.5");
  refused(R"({"text": "one", "share": 1, "counts": [1, -1]})",
          "/parts/1/counts/1 has to be a whole number from 0, not -1");
  refused(R"({"text": "one", "share": 1, "counts": {}})", "/parts/1/counts has to be a list, not an object");
  refused(R"({"text": "one", "share": 1, "flags": {"a": 1}})", "/parts/1/flags/a has to be true or false, not 1");
  refused("[]", "/parts/1 has to be an object, not a list");
}

TEST(JsonFields, WhatFitsIsRead) {
  const json j = json::parse(
      R"({"parts": [{"text": "two", "share": 0, "rank": 4.0, "counts": [18446744073709551615, 1e3]}], "below": -1e9})");
  const Whole whole = json_fields::read_as<Whole>(j);
  EXPECT_EQ(whole.parts.at(0).rank, 4);
  EXPECT_EQ(whole.parts.at(0).counts, (std::vector<std::uint64_t>{18446744073709551615U, 1000}));
  EXPECT_EQ(whole.below, -1e9);
  EXPECT_EQ(json_fields::written(whole)["parts"][0]["rank"], 4);
}

}  // namespace

}  // namespace p5
