#include "bench/base/input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

using nlohmann::json;

// This program's own files nest fewer than 20 levels.
constexpr std::size_t deepest = 64;

class Descriptor {
 public:
  explicit Descriptor(const char* path) : fd_(::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Unlike in_quotes(), not abbreviated.
std::string name_of(const std::filesystem::path& path) { return fmt::format("'{}'", printable(path.native())); }

std::string kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

// Line and column, from 1, of an offset in a text.
std::string place_in(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  return fmt::format("line {}, column {}", 1 + std::ranges::count(before, '\n'),
                     before.size() - (line_end == std::string_view::npos ? 0 : line_end + 1) + 1);
}

// Builds values from the parser's events and throws at the first error.
class Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(std::string_view text, std::span<const std::string_view> excluded, std::size_t most_values)
      : text_(text), excluded_(excluded), most_values_(most_values) {}

  json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*unknown*/) override { return open(json::object()); }
  bool start_array(std::size_t /*unknown*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (skipped_depth_ > 0) return true;
    if (open_.size() == 1) part_ = name;
    skip_next_ = std::ranges::find(excluded_, name) != excluded_.end();
    if (!skip_next_) member_ = &(*open_.back())[std::move(name)];
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const json::exception& problem) override {
    if (text_.find_first_not_of(" \t\r\n") == std::string_view::npos) throw UsageError("it is empty");
    // The parser's position is one past the last character read.
    const std::size_t at = position > 0 ? position - 1 : 0;
    const std::string place = place_in(text_, std::min(at, text_.size()));
    constexpr int out_of_range = 406;
    if (problem.id == out_of_range)
      throw UsageError(fmt::format("{}: the number {} is beyond all that can be read", place, in_quotes(token)));
    if (at >= text_.size()) throw UsageError(fmt::format("{}: it is no JSON: it ends in the middle", place));
    const std::string_view rest = text_.substr(at);
    throw UsageError(
        fmt::format("{}: it is no JSON from here on: {}", place, in_quotes(rest.substr(0, rest.find('\n')))));
  }

 private:
  json* place(json value) {
    if (++values_ > most_values_)
      throw UsageError(fmt::format("it holds more than {} values{}", most_values_, where()));
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    auto& list = open_.back()->get_ref<json::array_t&>();
    list.push_back(std::move(value));
    return &list.back();
  }
  bool put(json value) {
    if (!skip_next_) place(std::move(value));
    skip_next_ = skipped_depth_ > 0;
    return true;
  }
  bool open(json value) {
    if (open_.size() + skipped_depth_ == deepest)
      throw UsageError(fmt::format("its values are nested more than {} deep{}", deepest, where()));
    if (skip_next_)
      ++skipped_depth_;
    else
      open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    if (skipped_depth_ == 0)
      open_.pop_back();
    else
      skip_next_ = --skipped_depth_ > 0;
    return true;
  }
  std::string where() const { return part_.empty() ? "" : fmt::format(" (in {})", in_quotes(part_)); }

  std::string_view text_;
  json root_;
  std::vector<json*> open_;  // arrays and objects that are not closed yet
  json* member_ = nullptr;   // target of the next value in the innermost object
  std::string part_;         // current member of the outermost object, for messages
  std::span<const std::string_view> excluded_;
  bool skip_next_ = false;         // the next value is excluded
  std::size_t skipped_depth_ = 0;  // open arrays and objects within an excluded value
  std::size_t most_values_, values_ = 0;
};

// Redirected output of PowerShell is UTF-16, with a mark in front.
bool is_utf16(std::string_view text) { return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"); }

std::string utf8_of(std::string_view utf16) {
  const std::size_t high = utf16[0] == '\xff' ? 1 : 0;
  const auto byte = [&](std::size_t at) { return static_cast<char32_t>(static_cast<unsigned char>(utf16[at])); };
  const auto unit = [&](std::size_t at) { return byte(at + high) << 8 | byte(at + 1 - high); };
  std::string text;
  for (std::size_t at = 2; at + 1 < utf16.size(); at += 2) {
    char32_t code = unit(at);
    if ((code & 0xfc00) == 0xd800 && at + 3 < utf16.size() && (unit(at + 2) & 0xfc00) == 0xdc00) {
      at += 2;
      code = 0x10000 + ((code & 0x3ff) << 10 | (unit(at) & 0x3ff));
    }
    const int further = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr std::array<unsigned, 4> first{0, 0xc0, 0xe0, 0xf0};
    text += static_cast<char>(first[static_cast<std::size_t>(further)] | code >> 6 * further);
    for (int left = further - 1; left >= 0; --left) text += static_cast<char>(0x80 | (code >> 6 * left & 0x3f));
  }
  return text;
}

// The program that decompresses a file which begins so; "" for one that is not compressed.
std::string_view decompressor_of(std::string_view text) {
  constexpr std::size_t behind_level = 4;  // "BZh9"
  using namespace std::string_view_literals;
  if (text.starts_with("\x1f\x8b")) return "gunzip";
  if (text.starts_with("\x28\xb5\x2f\xfd")) return "unzstd";
  if (text.starts_with("\xfd\x37zXZ\0"sv)) return "unxz";
  if (text.starts_with("BZh") && text.substr(std::min(text.size(), behind_level)).starts_with("1AY&SY"))
    return "bunzip2";
  return "";
}

// Reads to the end of the file. `likely` is the expected size; `refused` makes the error for a reason.
std::string read_all(int descriptor, Bytes most, std::size_t likely, const auto& refused) {
  constexpr std::size_t step = 65536;
  std::string text;
  for (std::size_t size = 0;;) {
    text.resize(std::max(size + step, likely + 1));
    const ssize_t got = ::read(descriptor, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw refused(fmt::format("cannot be read ({})", std::strerror(errno)));
    size += static_cast<std::size_t>(got);
    if (size > most.count) throw refused(fmt::format("has more than {}, which is the most here", to_text(most)));
    if (got == 0) {
      text.resize(size);
      if (const std::string_view program = decompressor_of(text); !program.empty())
        throw refused(fmt::format("is compressed: {} it first", program));
      if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
      return is_utf16(text) ? utf8_of(text) : text;
    }
  }
}

}  // namespace

std::string read_input(const std::filesystem::path& path, Bytes most, std::string_view remedy) {
  const auto refused = [&](const std::string& why) {
    return UsageError(fmt::format("{} {}; {}", name_of(path), why, remedy));
  };
  const Descriptor file(path.c_str());
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0)
    throw refused(fmt::format("cannot be read ({})", std::strerror(errno)));
  if (!S_ISREG(about.st_mode)) throw refused(fmt::format("is {}, not a file", kind_of(about.st_mode)));
  const auto size = static_cast<std::size_t>(about.st_size);  // 0 for files of /proc and /sys
  if (size > most.count) throw refused(fmt::format("has more than {}, which is the most here", to_text(most)));
  return read_all(file.get(), most, size, refused);
}

std::string read_standard_input(Bytes most, std::string_view remedy) {
  return read_all(STDIN_FILENO, most, 0,
                  [&](const std::string& why) { return UsageError(fmt::format("stdin {}; {}", why, remedy)); });
}

json parse_json(std::string_view text, std::span<const std::string_view> excluded, std::size_t most_values) {
  Builder builder(text, excluded, most_values);
  if (!json::sax_parse(text, &builder)) throw UsageError("it is no JSON");
  return builder.take();
}

json read_json_input(const std::filesystem::path& path, Bytes most, std::string_view remedy,
                     std::span<const std::string_view> excluded) {
  const std::string text = read_input(path, most, remedy);
  try {
    return parse_json(text, excluded);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("{}: {}; {}", name_of(path), problem.what(), remedy));
  }
}

}  // namespace p5
