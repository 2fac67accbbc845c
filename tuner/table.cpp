// Text forms of settings; writing and strict reading of nccl-tuner.csv.
#include "tuner/table.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <locale>
#include <span>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace p5::tuner {

namespace {

constexpr std::array<std::string_view, all_functions.size()> function_names{"broadcast", "reduce", "all_gather",
                                                                            "reduce_scatter", "all_reduce"};
constexpr std::array<std::string_view, all_algorithms.size()> algorithm_names{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, all_protocols.size()> protocol_names{"ll", "ll128", "simple"};

constexpr int format = 1;
constexpr std::size_t most_rows = 10000, most_tables = 100;
constexpr std::string_view first_of_head = "format";
constexpr std::string_view columns = "function,from,to,algorithm,protocol,channels,chunk,microseconds";

template <class Name, std::size_t count>
std::optional<Name> parse_name(const std::array<std::string_view, count>& names, std::string_view text) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Name>(found - names.begin());
}

// Parses the whole text as a decimal number.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string shortest_text(double number) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), written.ptr};
}

std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 40;  // a line of a wrong file may have any length
  std::string shown = "'";
  for (const char c : text.substr(0, longest)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > longest ? "...'" : "'");
}

struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class Value>
Value required(std::optional<Value> value, std::string_view column, std::string_view text, std::string_view wanted) {
  if (!value) throw Malformed(std::string(column) + " is " + quoted(text) + ", not " + std::string(wanted));
  return *value;
}

Row parse_row(std::string_view line) {
  const std::vector<std::string_view> fields = split(line, ',');
  const std::vector<std::string_view> names = split(columns, ',');
  if (fields.size() != names.size())
    throw Malformed(std::to_string(fields.size()) + " fields, not " + std::to_string(names.size()));
  const auto name = [&](auto parse, std::size_t i) {
    return required(parse(fields[i]), names[i], fields[i], "a known name");
  };
  const auto number = [&]<class Number>(Number, std::size_t i) {
    return required(parse_number<Number>(fields[i]), names[i], fields[i], "a number in its range");
  };
  Row row;
  row.function = name(parse_function, 0);
  row.from = number(std::uint64_t{}, 1);
  row.to = number(std::uint64_t{}, 2);
  row.setting.algorithm = name(parse_algorithm, 3);
  row.setting.protocol = name(parse_protocol, 4);
  row.setting.channels = number(int{}, 5);
  row.setting.chunk = number(std::uint64_t{}, 6);
  row.microseconds = number(double{}, 7);
  return row;
}

// Throws Malformed where the row is invalid or overlaps an earlier one.
void check_row(const Row& row, std::span<const Row> before) {
  if (row.from > row.to)
    throw Malformed("from " + std::to_string(row.from) + " is beyond to " + std::to_string(row.to));
  if (row.setting.channels < 0 || row.setting.channels > most_channels)
    throw Malformed("channels is " + std::to_string(row.setting.channels) + ", not 0 to " +
                    std::to_string(most_channels));
  if (row.setting.chunk > 0 && row.setting.chunk < least_chunk)
    throw Malformed("chunk is " + std::to_string(row.setting.chunk) + ", not 0 or at least " +
                    std::to_string(least_chunk));
  // NCCL's costs are floats, and it would prefer a cost of 0 to any of its own estimates.
  using Cost = std::numeric_limits<float>;
  if (!(row.microseconds >= Cost::min() && row.microseconds <= Cost::max()))
    throw Malformed("microseconds is " + shortest_text(row.microseconds) +
                    ", not a positive finite number that a float can hold");
  for (const Row& other : before)
    if (other.function == row.function && row.from <= other.to && other.from <= row.to)
      throw Malformed("overlaps " + std::string(name_of(other.function)) + " from " + std::to_string(other.from) +
                      " to " + std::to_string(other.to));
}

void check_validity(const Table& table) {
  if (table.nccl_version < 1) throw Malformed("nccl is not a version as ncclGetVersion counts it");
  if (table.ranks < 1) throw Malformed("ranks is not a number of ranks");
  if (table.nodes < 1 || table.nodes > table.ranks) throw Malformed("nodes is not a number of nodes for these ranks");
}

// Iterates over the lines that are neither empty nor comments. Throws Malformed where a line does not end with a line
// feed alone: a copy that is cut off may end within a number.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // Returns false at the end.
  bool next() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++number;
      if (end == std::string_view::npos)
        throw Malformed("the file ends within this line, so it may be cut off: copy it again, or end the line");
      if (line.ends_with('\r'))
        throw Malformed("it ends with a carriage return, as on Windows: copy the file unchanged, byte for byte");
      if (!line.empty() && line.front() != '#') return true;
    }
    ++number;
    return false;
  }

  std::string_view line;
  int number = 0;

 private:
  std::string_view rest_;
};

int parse_head_value(const Lines& lines, std::string_view name) {
  const std::string start = std::string(name) + ",";
  if (!lines.line.starts_with(start)) throw Malformed(quoted(lines.line) + ", not '" + start + "NUMBER'");
  const std::string_view value = lines.line.substr(start.size());
  return required(parse_number<int>(value), name, value, "a number");
}

int parse_head_line(Lines& lines, std::string_view name) {
  if (!lines.next()) throw Malformed("the file ends where '" + std::string(name) + ",NUMBER' has to be");
  return parse_head_value(lines, name);
}

// Parses a table's head, from its "format" line, which is the current one, to the names of the columns.
Table parse_head(Lines& lines, const std::vector<Table>& before) {
  if (const int found = parse_head_value(lines, first_of_head); found != format)
    throw Malformed("format " + std::to_string(found) + " is not known here, only " + std::to_string(format));
  Table table;
  table.nccl_version = parse_head_line(lines, "nccl");
  table.ranks = parse_head_line(lines, "ranks");
  table.nodes = parse_head_line(lines, "nodes");
  check_validity(table);
  if (find_table(before, table.nccl_version, static_cast<std::uint64_t>(table.ranks),
                 static_cast<std::uint64_t>(table.nodes)))
    throw Malformed("a second table for NCCL " + version_text(table.nccl_version) + ", " + std::to_string(table.ranks) +
                    " ranks on " + std::to_string(table.nodes) + " nodes");
  if (!lines.next() || lines.line != columns) throw Malformed("not the columns '" + std::string(columns) + "'");
  return table;
}

std::vector<Table> parse_lines(Lines& lines) {
  std::vector<Table> tables;
  std::size_t rows = 0;
  if (!lines.next()) throw Malformed("the file ends where '" + std::string(first_of_head) + ",NUMBER' has to be");
  for (bool more = true; more;) {
    if (tables.size() == most_tables) throw Malformed("more than " + std::to_string(most_tables) + " tables");
    tables.push_back(parse_head(lines, tables));
    while ((more = lines.next()) && !lines.line.starts_with(std::string(first_of_head) + ",")) {
      // Checking a row takes time proportional to the rows before it.
      if (++rows > most_rows) throw Malformed("more than " + std::to_string(most_rows) + " rows");
      const Row row = parse_row(lines.line);
      check_row(row, tables.back().rows);
      tables.back().rows.push_back(row);
    }
  }
  return tables;
}

void check_table(const Table& table) {
  check_validity(table);
  for (std::size_t i = 0; i < table.rows.size(); ++i) check_row(table.rows[i], std::span(table.rows).first(i));
}

std::string capitals(std::string_view name) {
  std::string text;
  for (const char c : name) text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string_view name_of(Function function) { return function_names.at(static_cast<std::size_t>(function)); }
std::string_view name_of(Algorithm algorithm) { return algorithm_names.at(static_cast<std::size_t>(algorithm)); }
std::string_view name_of(Protocol protocol) { return protocol_names.at(static_cast<std::size_t>(protocol)); }
std::optional<Function> parse_function(std::string_view name) { return parse_name<Function>(function_names, name); }
std::optional<Algorithm> parse_algorithm(std::string_view name) { return parse_name<Algorithm>(algorithm_names, name); }
std::optional<Protocol> parse_protocol(std::string_view name) { return parse_name<Protocol>(protocol_names, name); }

std::string to_text(const Setting& setting) {
  std::string text = std::string(name_of(setting.algorithm)) + "/" + std::string(name_of(setting.protocol));
  if (setting.channels > 0 || setting.chunk > 0) text += "/" + std::to_string(setting.channels);
  if (setting.chunk > 0) text += "/" + std::to_string(setting.chunk);
  return text;
}

std::optional<Setting> parse_setting(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() < 2 || parts.size() > 4) return std::nullopt;
  const auto algorithm = parse_algorithm(parts[0]);
  const auto protocol = parse_protocol(parts[1]);
  const auto channels = parts.size() > 2 ? parse_number<int>(parts[2]) : 0;
  const auto chunk = parts.size() > 3 ? parse_number<std::uint64_t>(parts[3]) : 0;
  if (!algorithm || !protocol || !channels || *channels < 0 || *channels > most_channels || !chunk) return std::nullopt;
  if (*chunk > 0 && *chunk < least_chunk) return std::nullopt;
  return Setting{*algorithm, *protocol, *channels, *chunk};
}

std::string alg_selection(const Setting& setting) {
  const bool has_all_protocols = setting.algorithm == Algorithm::tree || setting.algorithm == Algorithm::ring;
  if (!has_all_protocols && setting.protocol != Protocol::simple) return "";
  const std::string algorithm =
      setting.algorithm == Algorithm::nvls_tree ? "NVLSTREE" : capitals(name_of(setting.algorithm));
  const std::string name = algorithm + "_" + capitals(name_of(setting.protocol));
  // NCCL matches names by prefix, so LL would include LL128.
  return setting.protocol == Protocol::ll ? name + "+^" + name + "128" : name;
}

std::string version_text(int nccl_version) {
  // NCCL has counted so since 2.9; 2.8.4 was 2804.
  const int step = nccl_version < 10000 ? 1000 : 10000;
  return std::to_string(nccl_version / step) + "." + std::to_string(nccl_version % step / 100) + "." +
         std::to_string(nccl_version % 100);
}

const Table* find_table(const std::vector<Table>& tables, int nccl_version, std::uint64_t ranks, std::uint64_t nodes) {
  for (const Table& table : tables)
    if (nccl_version == table.nccl_version && ranks == static_cast<std::uint64_t>(table.ranks) &&
        nodes == static_cast<std::uint64_t>(table.nodes))
      return &table;
  return nullptr;
}

const Row* find_row(const Table& table, Function function, std::uint64_t bytes) {
  for (const Row& row : table.rows)
    if (row.function == function && row.from <= bytes && bytes <= row.to) return &row;
  return nullptr;
}

std::string to_csv(const Table& table, std::string_view comment) {
  try {
    check_table(table);
  } catch (const Malformed& problem) {
    throw std::invalid_argument(problem.what());
  }
  std::ostringstream text;
  text.imbue(std::locale::classic());  // numbers without separators, whatever the program's locale is
  if (!comment.empty())
    for (const std::string_view line : split(comment, '\n')) text << "#" << (line.empty() ? "" : " ") << line << "\n";
  text << "format," << format << "\nnccl," << table.nccl_version << "\nranks," << table.ranks << "\nnodes,"
       << table.nodes << "\n"
       << columns << "\n";
  for (const Row& row : table.rows)
    text << name_of(row.function) << "," << row.from << "," << row.to << "," << name_of(row.setting.algorithm) << ","
         << name_of(row.setting.protocol) << "," << row.setting.channels << "," << row.setting.chunk << ","
         << shortest_text(row.microseconds) << "\n";
  return text.str();
}

std::variant<std::vector<Table>, std::string> parse_csv(std::string_view text) {
  Lines lines(text);
  try {
    return parse_lines(lines);
  } catch (const Malformed& problem) {
    return "line " + std::to_string(lines.number) + ": " + problem.what();
  }
}

bool is_on(std::string_view value) {
  constexpr std::array<std::string_view, 5> words{"1", "y", "yes", "t", "true"};
  const auto same = [](char one, char other) { return std::tolower(static_cast<unsigned char>(one)) == other; };
  return std::ranges::any_of(words, [&](std::string_view word) { return std::ranges::equal(value, word, same); });
}

std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (int shift = 60; shift >= 0; shift -= 4) shown += digits[hash >> shift & 0xf];
  return shown;
}

}  // namespace p5::tuner
