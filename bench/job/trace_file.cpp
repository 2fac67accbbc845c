#include "bench/job/trace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include <fmt/format.h>

#ifdef P5BENCH_ZLIB
#include <zlib.h>
#endif

#include "bench/base/text.hpp"

namespace p5::job {

using nlohmann::json;

namespace {

constexpr std::size_t piece_size = std::size_t{256} << 10;
constexpr std::string_view gzip_mark = "\x1f\x8b";
constexpr std::string_view remedy = "name the files that a job's ranks wrote";

std::uint64_t lines_in(std::string_view text) { return static_cast<std::uint64_t>(std::ranges::count(text, '\n')); }

}  // namespace

// The bytes of a file, decompressed where they are gzip and zlib is there.
struct TraceFile::Source {
  explicit Source(int descriptor) : fd(descriptor) {
#ifdef P5BENCH_ZLIB
    stream = ::gzdopen(fd, "rb");
    if (!stream) ::close(fd);
    if (!stream) throw std::bad_alloc();
    ::gzbuffer(stream, static_cast<unsigned>(piece_size));
#endif
  }
  ~Source() {
#ifdef P5BENCH_ZLIB
    ::gzclose_r(stream);
#else
    ::close(fd);
#endif
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // The number of bytes, 0 at the end; below 0 with `problem`.
  std::ptrdiff_t read(char* to, std::size_t most) {
#ifdef P5BENCH_ZLIB
    const int got = ::gzread(stream, to, static_cast<unsigned>(most));
    int code = Z_OK;
    const char* const text = ::gzerror(stream, &code);
    if (got >= 0 && code != Z_BUF_ERROR) return got;
    problem = code == Z_BUF_ERROR ? "its compressed data end in the middle"
              : code == Z_ERRNO   ? std::strerror(errno)
                                  : text;
    return -1;
#else
    std::ptrdiff_t got = 0;
    do got = ::read(fd, to, most);
    while (got < 0 && errno == EINTR);
    if (got < 0) problem = std::strerror(errno);
    if (first && got >= 2 && std::string_view(to, 2) == gzip_mark) {
      problem = "it is compressed, and this p5bench was built without zlib: gunzip it first";
      return -1;
    }
    first = false;
    return got;
#endif
  }

  int fd;
#ifdef P5BENCH_ZLIB
  gzFile stream = nullptr;
#else
  bool first = true;
#endif
  std::string problem;
};

TraceFile::TraceFile(const std::filesystem::path& path) : name_(printable(path.native())) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) throw UsageError(fmt::format("'{}' cannot be read ({}); {}", name_, std::strerror(errno), remedy));
  struct stat about {};
  if (::fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    ::close(fd);
    throw UsageError(fmt::format("'{}' is not a regular file; {}", name_, remedy));
  }
  source_ = std::make_unique<Source>(fd);
  buffer_.resize(piece_size);
}

TraceFile::TraceFile(std::string name, std::string_view text) : name_(std::move(name)), piece_(text) {}

TraceFile::~TraceFile() = default;

bool TraceFile::refill() {
  if (!source_) return false;
  const std::ptrdiff_t got = source_->read(buffer_.data(), buffer_.size());
  if (got < 0) throw refuse(source_->problem);
  if (got == 0) return false;
  bytes_before_ += piece_.size();
  lines_before_ += lines_in(piece_);
  piece_ = std::string_view(buffer_).substr(0, static_cast<std::size_t>(got));
  at_ = 0;
  if (value_begin_ && bytes_before_ - *value_begin_ > longest_value)
    throw refuse(fmt::format("a value is longer than {} MiB", longest_value >> 20));
  if (bytes_before_ + piece_.size() > largest_trace)
    throw refuse(fmt::format("it has more than {} GiB", largest_trace >> 30));
  return true;
}

std::string_view TraceFile::ahead(std::size_t most) { return at_end() ? std::string_view() : piece_.substr(at_, most); }

std::optional<std::string_view> TraceFile::line() {
  if (at_end()) return std::nullopt;
  line_.clear();
  bool is_long = false;
  while (true) {
    const std::size_t end = piece_.find_first_of("\r\n", at_);
    const bool ends = line_ends_ = end != std::string_view::npos;
    const std::string_view part = piece_.substr(at_, ends ? end - at_ : end);
    at_ += part.size() + (ends ? 1 : 0);
    is_long = is_long || line_.size() + part.size() > longest_line;
    if (ends && !is_long && line_.empty()) return part;
    if (!is_long) line_ += part;
    if (!ends && !at_end()) continue;
    if (!is_long) return line_;
    ++lines_left_out_;
    if (at_end()) return std::nullopt;
    line_.clear();
    is_long = false;
  }
}

std::string TraceFile::place() const {
  return fmt::format("'{}' line {}, byte {}", name_,
                     lines_before_ + lines_in(piece_.substr(0, at_ > 0 ? at_ - 1 : 0)) + 1, bytes_before_ + at_);
}

UsageError TraceFile::refuse(const std::string& why) const { return UsageError(fmt::format("{}: {}", place(), why)); }

// ---- records

const Field* Record::find(std::string_view name) const {
  const auto end = fields_.begin() + static_cast<std::ptrdiff_t>(used_);
  const auto found = std::find_if(fields_.begin(), end, [&](const Field& each) { return each.name == name; });
  return found == end ? nullptr : &*found;
}

std::string_view Record::text(std::string_view name) const {
  const Field* const field = find(name);
  return field && field->is_text ? std::string_view(field->text) : std::string_view();
}

std::optional<double> Record::number(std::string_view name) const {
  const Field* const field = find(name);
  return field && field->is_number && std::isfinite(field->number) ? std::optional(field->number) : std::nullopt;
}

std::optional<std::int64_t> Record::integer(std::string_view name) const {
  const std::optional<double> value = number(name);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 9e18) return std::nullopt;
  return find(name)->integer;
}

Field& Record::add(std::string_view name) {
  if (used_ == fields_.size()) fields_.emplace_back();
  Field& field = fields_[used_++];
  field.name = name;
  field.text.clear();
  field.number = std::numeric_limits<double>::quiet_NaN();
  field.integer = 0;
  field.is_text = field.is_number = false;
  return field;
}

namespace {

constexpr int deepest = 64;
constexpr std::size_t longest_text = std::size_t{1} << 20, longest_name = std::size_t{64} << 10;
constexpr std::size_t most_kept = 4'000'000, most_kept_bytes = std::size_t{64} << 20;

// Fills a record from the parser's events.
class RecordBuilder {
 public:
  RecordBuilder(const TraceFile& file, const std::vector<std::string_view>& fields, Record& record)
      : file_(file), fields_(fields), record_(record) {}

  bool within() const { return depth_ > 0; }
  void key(std::string_view name) {
    if (lists_ > 0 || skipped_ > 0) return;
    path_.resize(ends_.back());
    if (!path_.empty()) path_ += '.';
    path_ += name;
    wanted_ = std::ranges::find(fields_, std::string_view(path_));
    is_wanted_ = wanted_ != fields_.end();
  }
  void open(bool list) {
    if (++depth_ > deepest) throw file_.refuse(fmt::format("its values are nested more than {} deep", deepest));
    if (skipped_ > 0) {
      ++skipped_;
    } else if (list || lists_ > 0) {
      if (depth_ > 1 && lists_ == 0 && !is_wanted_) {
        ++skipped_;
        return;
      }
      if (lists_++ == 0) list_ = &record_.add(*wanted_);
      list_->is_text = true;
      put("[");
    } else {
      if (depth_ == 1) {
        record_.clear();
        path_.clear();
      }
      ends_.push_back(path_.size());
    }
  }
  // True at the end of the record.
  bool close() {
    --depth_;
    if (skipped_ > 0) {
      --skipped_;
    } else if (lists_ > 0) {
      --lists_;
      put("],");
    } else {
      ends_.pop_back();
    }
    return depth_ == 0;
  }
  void text(std::string_view value) {
    if (skipped_ > 0) return;
    if (lists_ > 0) {
      put(value);
      put("\n");
    } else if (is_wanted_) {
      Field& field = record_.add(*wanted_);
      if (value.size() > longest_text) throw file_.refuse("a text is longer than all that a trace holds");
      field.text = value;
      field.is_text = true;
    }
  }
  void number(double value, std::int64_t integer) {
    if (skipped_ > 0) return;
    if (lists_ > 0) {
      fmt::format_to(std::back_inserter(list_->text), "{},", integer);
      if (list_->text.size() > longest_text) throw file_.refuse("a list is longer than all that a trace holds");
    } else if (is_wanted_) {
      Field& field = record_.add(*wanted_);
      field.number = value;
      field.integer = integer;
      field.is_number = true;
    }
  }

 private:
  void put(std::string_view part) {
    if (list_->text.size() + part.size() > longest_text)
      throw file_.refuse("a list is longer than all that a trace holds");
    list_->text += part;
  }

  const TraceFile& file_;
  const std::vector<std::string_view>& fields_;
  Record& record_;
  std::string path_;
  std::vector<std::size_t> ends_;  // length of the path of each open object
  std::vector<std::string_view>::const_iterator wanted_;
  bool is_wanted_ = false;
  Field* list_ = nullptr;
  int depth_ = 0, lists_ = 0, skipped_ = 0;
};

// Passes the parser's events on, to a record or to a member that is kept, and throws at the first error.
class Events final : public nlohmann::json_sax<json> {
 public:
  Events(const TraceFile& file, const Wanted& wanted, std::function<void(const Record&)> on_record,
         std::function<void(std::string_view, const json&)> on_member, TraceFile* document)
      : file_(file),
        wanted_(wanted),
        on_record_(std::move(on_record)),
        on_member_(std::move(on_member)),
        builder_(file, wanted.fields, record_),
        document_(document) {
    begin_value();
  }

  bool null() override {
    return value([] { return json(); }, [] {});
  }
  bool boolean(bool v) override {
    return value([&] { return json(v); }, [&] { builder_.number(v ? 1 : 0, v ? 1 : 0); });
  }
  bool number_integer(number_integer_t v) override {
    return value([&] { return json(v); }, [&] { builder_.number(static_cast<double>(v), v); });
  }
  bool number_unsigned(number_unsigned_t v) override {
    const auto most = static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max());
    return value([&] { return json(v); },
                 [&] { builder_.number(static_cast<double>(v), static_cast<std::int64_t>(std::min(v, most))); });
  }
  bool number_float(number_float_t v, const string_t& /*text*/) override {
    const bool whole = std::isfinite(v) && std::abs(v) < 9e18;
    return value([&] { return json(v); }, [&] { builder_.number(v, whole ? static_cast<std::int64_t>(v) : 0); });
  }
  bool string(string_t& v) override {
    keep_bytes(v.size());
    return value([&] { return json(std::move(v)); }, [&] { builder_.text(v); });
  }
  bool binary(binary_t& /*v*/) override { return false; }
  bool start_object(std::size_t /*unknown*/) override { return open(false); }
  bool start_array(std::size_t /*unknown*/) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    begin_value();
    if (name.size() > longest_name) throw file_.refuse(fmt::format("a name is longer than {} KiB", longest_name >> 10));
    keep_bytes(name.size());
    if (builder_.within()) {
      builder_.key(name);
    } else if (!kept_.empty()) {
      member_ = &(*kept_.back())[name];
    } else if (depth_ == 1) {
      name_ = name;
      in_list_ = std::ranges::find(wanted_.lists, std::string_view(name)) != wanted_.lists.end();
      keep_ = std::ranges::find(wanted_.members, std::string_view(name)) != wanted_.members.end();
    }
    return true;
  }
  bool parse_error(std::size_t /*position*/, const std::string& token, const json::exception& /*problem*/) override {
    throw file_.refuse(fmt::format("{}: {}", document_ ? "it is no JSON here" : "the line is no JSON object by itself",
                                   in_quotes(token)));
  }

 private:
  template <class Value, class Field>
  bool value(const Value& make, const Field& field) {
    begin_value();
    if (builder_.within())
      field();
    else if (keep_ && depth_ >= 1)
      place(make());
    return true;
  }
  bool open(bool list) {
    begin_value();
    // A line is a record; in a document the objects in one of the lists are.
    if (builder_.within() || (!document_ && depth_ == 0 && !list) || (in_list_ && depth_ == 2 && !list)) {
      builder_.open(list);
      return true;
    }
    if (++depth_ > deepest) throw file_.refuse(fmt::format("its values are nested more than {} deep", deepest));
    if (keep_ && depth_ >= 2) kept_.push_back(place(list ? json::array() : json::object()));
    return true;
  }
  bool close() {
    begin_value();
    if (builder_.within()) {
      if (builder_.close()) on_record_(record_);
      return true;
    }
    --depth_;
    if (!kept_.empty()) {
      kept_.pop_back();
      if (kept_.empty()) finish_member();
    }
    return true;
  }
  json* place(json value) {
    if (++values_ > most_kept)
      throw file_.refuse(fmt::format("{} has more than {} values", in_quotes(name_), most_kept));
    if (kept_.empty()) {
      root_ = std::move(value);
      if (!root_.is_structured()) finish_member();
      return &root_;
    }
    if (kept_.back()->is_object()) return &(*member_ = std::move(value));
    kept_.back()->push_back(std::move(value));
    return &kept_.back()->back();
  }
  void begin_value() {
    if (document_) document_->begin_value();
  }
  void keep_bytes(std::size_t bytes) {
    if (keep_ && !builder_.within() && (kept_bytes_ += bytes) > most_kept_bytes)
      throw file_.refuse(fmt::format("{} has more than {} MiB", in_quotes(name_), most_kept_bytes >> 20));
  }
  void finish_member() {
    on_member_(name_, root_);
    root_ = json();
    keep_ = false;
  }

  const TraceFile& file_;
  const Wanted& wanted_;
  std::function<void(const Record&)> on_record_;
  std::function<void(std::string_view, const json&)> on_member_;
  Record record_;
  RecordBuilder builder_;
  TraceFile* const document_;  // null for a line
  std::string name_;           // the current member of the document
  bool in_list_ = false, keep_ = false;
  int depth_ = 0;  // outside of records
  json root_;
  std::vector<json*> kept_;
  json* member_ = nullptr;
  std::size_t values_ = 0, kept_bytes_ = 0;
};

// Lets the parser take bytes from a file.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit ByteIterator(TraceFile* file = nullptr) : file_(file) {}
  char operator*() const { return file_->current(); }
  ByteIterator& operator++() {
    file_->advance();
    return *this;
  }
  ByteIterator operator++(int) {
    file_->advance();
    return *this;
  }
  friend bool operator==(const ByteIterator& a, const ByteIterator& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const ByteIterator& a, const ByteIterator& b) { return !(a == b); }

 private:
  bool ended() const { return !file_ || file_->at_end(); }
  TraceFile* file_;
};

}  // namespace

void read_document(TraceFile& file, const Wanted& wanted, const std::function<void(const Record& record)>& record,
                   const std::function<void(std::string_view name, const json& value)>& member) {
  Events events(file, wanted, record, member, &file);
  if (!json::sax_parse(ByteIterator(&file), ByteIterator(), &events)) throw file.refuse("it is no JSON here");
}

void read_line(const TraceFile& file, std::string_view line, const std::vector<std::string_view>& fields,
               Record& record) {
  bool found = false;
  const Wanted wanted{.lists = {}, .members = {}, .fields = fields};
  Events events(
      file, wanted,
      [&](const Record& one) {
        record = one;
        found = true;
      },
      [](std::string_view, const json&) {}, nullptr);
  if (!json::sax_parse(line, &events) || !found) throw file.refuse("the line is no JSON object");
}

}  // namespace p5::job
