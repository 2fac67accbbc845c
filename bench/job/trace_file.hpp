// Files of traces, read in pieces: plain or gzip, lines or the records of a JSON document. A file may be larger than
// the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/error.hpp"

namespace p5::job {

// Names of files: a trace of gigabytes is common, more than this is a mistake or an attack by compression.
inline constexpr std::uint64_t largest_trace = std::uint64_t{64} << 30;
inline constexpr std::size_t longest_line = std::size_t{1} << 20;
// Largest text, number or blanks between two values of a document, in bytes, which the parser keeps.
inline constexpr std::size_t longest_value = std::size_t{16} << 20;

// Bytes of a trace, one after the other. From a file, whose gzip form is recognized, or from memory.
class TraceFile {
 public:
  // Throws UsageError that names the file where it cannot be read.
  explicit TraceFile(const std::filesystem::path& path);
  TraceFile(std::string name, std::string_view text);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& name() const { return name_; }

  // The next bytes without taking them; fewer than asked for only at the end of the file or of a piece.
  std::string_view ahead(std::size_t most);
  bool at_end() { return at_ == piece_.size() && !refill(); }
  // Only before the end.
  char current() const { return piece_[at_]; }
  void advance() { ++at_; }

  // The next value of a document begins here; one above longest_value is refused.
  void begin_value() { value_begin_ = bytes_before_ + at_; }

  // The next line without its end, which a carriage return is as well; nullopt at the end of the file. Leaves out those
  // above longest_line.
  std::optional<std::string_view> line();
  std::size_t lines_left_out() const { return lines_left_out_; }
  // True if the last line that was read ends with the file, which may have cut it.
  bool may_be_cut() const { return !line_ends_; }

  // "'NAME' line 3, byte 120", of what was read last.
  std::string place() const;
  UsageError refuse(const std::string& why) const;

 private:
  struct Source;
  bool refill();

  std::string name_;
  std::unique_ptr<Source> source_;
  std::string_view piece_;
  std::size_t at_ = 0;
  std::uint64_t bytes_before_ = 0, lines_before_ = 0;  // of earlier pieces
  std::size_t lines_left_out_ = 0;
  bool line_ends_ = true;
  std::optional<std::uint64_t> value_begin_;  // of a document
  std::string buffer_, line_;
};

// A member of a record that was asked for. Lists become text: numbers as in JSON, each string followed by a line end.
struct Field {
  std::string_view name;
  std::string text = {};
  double number = 0;         // NaN unless it is a number
  std::int64_t integer = 0;  // 0 unless it is a whole number
  bool is_text = false, is_number = false;
};

// The requested members of a JSON object. Members of inner objects are named "args.rank".
class Record {
 public:
  const Field* find(std::string_view name) const;
  // "" and nullopt where the member is missing or of another type.
  std::string_view text(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;

  void clear() { used_ = 0; }
  Field& add(std::string_view name);

 private:
  std::vector<Field> fields_;
  std::size_t used_ = 0;
};

// What to take from a JSON document.
struct Wanted {
  std::vector<std::string_view> lists;    // members of the document: lists of records
  std::vector<std::string_view> members;  // members of the document that are kept whole
  std::vector<std::string_view> fields;   // members of the records
};

// Both throw UsageError with the place where the text is no JSON or exceeds a limit.
// Calls `record` for each object in one of the lists, and `member` for each kept member.
void read_document(TraceFile& file, const Wanted& wanted, const std::function<void(const Record& record)>& record,
                   const std::function<void(std::string_view name, const nlohmann::json& value)>& member);
// Fills `record` from a line that is one object.
void read_line(const TraceFile& file, std::string_view line, const std::vector<std::string_view>& fields,
               Record& record);

}  // namespace p5::job
