#include "reports/journal.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/input.hpp"
#include "bench/base/text.hpp"
#include "reports/json_values.hpp"

namespace p5::reports {

namespace {

constexpr const char* remedy = "move the file away to compare without its samples";

struct NotJson : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Scans one line of JSON without building values.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  // Calls `take` for each member of the object, with the texts of key (as written) and value.
  template <class Take>
  void members(const Take& take) {
    expect('{');
    if (accept('}')) return;
    do {
      const std::string_view key = value();
      expect(':');
      const std::string_view name = key.substr(1, key.size() - 2);
      const std::string_view text = value();
      try {
        take(name, text);
      } catch (const std::runtime_error& problem) {
        throw NotJson(fmt::format("{}: {}", printable(name), problem.what()));
      }
    } while (accept(','));
    expect('}');
  }

  // Text of the next value of any type.
  std::string_view value() {
    skip_space();
    const std::size_t from = at_;
    int depth = 0;
    do {
      const char c = next();
      if (c == '"') skip_string();
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (depth == 0 && c != '"' && c != '}' && c != ']') skip_bare();
    } while (depth > 0);
    return text_.substr(from, at_ - from);
  }

  void end() {
    skip_space();
    if (at_ != text_.size()) throw NotJson("there is more after its end");
  }

 private:
  char next() {
    if (at_ == text_.size()) throw NotJson("it ends in the middle");
    return text_[at_++];
  }
  void skip_string() {
    for (char c = next(); c != '"'; c = next())
      if (c == '\\') next();
  }
  void skip_bare() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == ',' || c == ':' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\r') return;
    }
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) throw NotJson(fmt::format("it has no '{}' at column {}", wanted, at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Parses the number at the beginning of the text; returns the position behind it.
template <class Number>
const char* number_at(std::string_view text, Number& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc()) throw NotJson(fmt::format("{} is no number here", in_quotes(text)));
  return end;
}

const char* time_at(std::string_view text, double& seconds) {
  double microseconds = 0;
  const char* const end = number_at(text, microseconds);
  seconds = microseconds * 1e-6;
  constexpr double longest = 1e9;
  if (!(seconds > 0 && seconds <= longest))
    throw NotJson(fmt::format("{} is no time above 0 and below 1e15", in_quotes(text.substr(0, text.find(',')))));
  return end;
}

double time_in(std::string_view text) {
  double seconds = 0;
  if (time_at(text, seconds) != text.data() + text.size()) throw NotJson(fmt::format("{} is no time", in_quotes(text)));
  return seconds;
}

// A number in [0, most]. `what`: it is none of these otherwise.
template <class Number>
Number number_in(std::string_view text, std::string_view what, Number most = std::numeric_limits<Number>::max()) {
  Number value = 0;
  if (number_at(text, value) != text.data() + text.size() || !(value >= 0 && value <= most))
    throw NotJson(fmt::format("{} is no {}", in_quotes(text), what));
  return value;
}

// The index of a launch, or of a run of a baseline.
int launch_in(std::string_view text) {
  return number_in<int>(text, fmt::format("launch, counted from 0 to {}", most_launches - 1), most_launches - 1);
}

std::vector<double> times(std::string_view list) {
  std::vector<double> values;
  if (list.size() < 2 || list.front() != '[') throw NotJson(fmt::format("{} is no list of times", in_quotes(list)));
  const char* at = list.data() + 1;
  const char* const end = list.data() + list.size() - 1;
  const auto skip_space = [&] {
    while (at != end && (*at == ' ' || *at == '\t')) ++at;
  };
  for (skip_space(); at != end; skip_space()) {
    at = time_at(std::string_view(at, end), values.emplace_back());
    skip_space();
    if (at == end) break;
    if (*at != ',') throw NotJson(fmt::format("{} is no list of times", in_quotes(list)));
    ++at;
  }
  return values;
}

// Why samples are not those that a series' smallest and largest are of; "" if they may be, or one of the two is absent.
std::string contradiction_of_samples(const Series& series) {
  constexpr double rounding = 1e-9;  // relative; files have twelve digits
  const Summary& summary = series.summary;
  if (series.samples.empty() || summary.min <= 0 || summary.max <= 0) return "";
  const auto [low, high] = std::ranges::minmax(series.samples);
  const auto is_same = [](double one, double other) { return std::abs(one - other) <= rounding * other; };
  if (is_same(low, summary.min) && is_same(high, summary.max)) return "";
  return fmt::format("has samples of {:.6g} to {:.6g} us, but min_us and max_us are {:.6g} and {:.6g}", 1e6 * low,
                     1e6 * high, 1e6 * summary.min, 1e6 * summary.max);
}

std::optional<Series> series_of(std::string_view text) {
  if (text == "null") return std::nullopt;
  Series series;
  bool has_median = false;
  Walk(text).members([&](std::string_view key, std::string_view value) {
    if (key == "samples_us") series.samples = times(value);
    if (key == "median_us") series.summary.median = time_in(value), has_median = true;
    if (key == "min_us") series.summary.min = time_in(value);
    if (key == "max_us") series.summary.max = time_in(value);
    if (key == "ci95_us" && value != "null") {
      const std::vector<double> ends = times(value);
      if (ends.size() != 2) throw NotJson("ci95_us does not have two ends");
      series.summary.interval = Interval{ends[0], ends[1]};
    }
    if (key == "rounding_us" && value != "null")
      series.rounding_us = number_in<double>(value, "rounding error of a time");
  });
  if (!has_median) throw NotJson("a series has no median_us");
  if (const std::string why = contradiction_of_samples(series); !why.empty()) throw NotJson("it " + why);
  return series;
}

// Parsed cases by their text: most lines repeat the case of another launch.
using Cases = std::unordered_map<std::string_view, Case>;

Result result_of(std::string_view line, Cases& cases) {
  Result result;
  Measurement& m = result.measurement;
  Walk walk(line);
  walk.members([&](std::string_view key, std::string_view value) {
    if (key == "case") {
      const auto [place, fresh] = cases.try_emplace(value);
      if (fresh) place->second = case_from_json(parse_json(value));
      m.measured_case = place->second;
    }
    if (key == "launch" && value != "null") m.launch = launch_in(value);
    if (key == "run") m.run = launch_in(value);
    if (key == "outcome" && value == R"("failed")") m.outcome = Outcome::failed;
    if (key == "wrong_elements") m.wrong_elements = number_in<std::uint64_t>(value, "number of elements");
    if (key == "latency") m.latency = series_of(value);
    if (key == "throughput") m.throughput = series_of(value);
  });
  walk.end();
  if (!m.measured_case.collective) throw NotJson("it has no case");
  return result;
}

// Calls action(series, its JSON, its path) for each series of a line.
template <class Action>
void for_each_series_of_line(auto& m, auto& line, const Action& action) {
  if (m.latency) action(*m.latency, line.at("latency"), "latency");
  if (m.throughput) action(*m.throughput, line.at("throughput"), "throughput");
  if (!m.concurrency) return;
  auto& concurrency = line.at("concurrency");
  for (std::size_t i = 0; i < m.concurrency->operations.size(); ++i) {
    auto& operation = m.concurrency->operations[i];
    auto& its = concurrency.at("operations").at(i);
    const std::string path = fmt::format("concurrency/operations/{}", i);
    action(operation.alone, its.at("alone"), path + "/alone");
    action(operation.beside, its.at("beside"), path + "/beside");
    for (std::size_t one = 0; one < operation.beside_each.size(); ++one)
      action(operation.beside_each[one].times, its.at("beside_each").at(one).at("times"),
             fmt::format("{}/beside_each/{}/times", path, one));
  }
  action(m.concurrency->together, concurrency.at("together"), "concurrency/together");
}

// Lists of groups by their names in a line.
auto named_groups(auto& m) {
  return std::array{std::pair("silent_groups", &m.silent_groups), std::pair("finished_groups", &m.finished_groups),
                    std::pair("wrong_groups", &m.wrong_groups)};
}

nlohmann::json spaced_samples(const std::vector<float>& samples) {
  constexpr int digits = 6;  // of single precision
  const std::size_t count = std::min(samples.size(), most_samples_of_group);
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(json_fields::written(rounded(1e6 * double{samples[i * samples.size() / count]}, digits)));
  return list;
}

}  // namespace

void add_to_line(const Measurement& m, nlohmann::json& line) {
  for_each_series_of_line(m, line, [](const Series& series, nlohmann::json& its, const std::string& /*path*/) {
    nlohmann::json list = nlohmann::json::array();
    for (const double sample : series.samples) list.push_back(microseconds(sample));
    its["samples_us"] = std::move(list);
  });
  const bool pairwise = m.measured_case.collective->pairwise;
  const bool sampled = std::ranges::any_of(m.groups, [](const GroupResult& each) { return !each.samples.empty(); });
  if (sampled && (pairwise || m.groups.size() > 1)) {
    nlohmann::json lists = nlohmann::json::array();
    for (const GroupResult& each : m.groups) lists.push_back(spaced_samples(each.samples));
    line["group_samples_us"] = std::move(lists);
  }
  for (const auto& [name, groups] : named_groups(m)) {
    if (groups->empty()) continue;
    nlohmann::json list = nlohmann::json::array();
    for (const Group& group : *groups)
      list.push_back(pairwise ? nlohmann::json(group) : nlohmann::json::array({group.front()}));
    line[name] = std::move(list);
  }
}

void read_from_line(const nlohmann::json& line, Measurement& m) {
  const auto with = [](const nlohmann::json& j, const char* name, const std::string& path, const auto& read_it) {
    if (const auto found = j.find(name); found != j.end()) json_fields::at(path, [&] { read_it(*found); });
  };
  for_each_series_of_line(m, line, [&](Series& series, const nlohmann::json& its, const std::string& path) {
    with(its, "samples_us", path + "/samples_us", [&](const nlohmann::json& list) {
      for (const nlohmann::json& sample : json_fields::list_in(list)) series.samples.push_back(seconds_from(sample));
      if (const std::string why = contradiction_of_samples(series); !why.empty()) throw json_fields::BadValue("", why);
      if (!series.samples.empty()) series.summary.trimmed_mean = summarize(series.samples).trimmed_mean;
    });
  });
  with(line, "group_samples_us", "group_samples_us", [&](const nlohmann::json& j) {
    const nlohmann::json::array_t& lists = json_fields::list_of_size(m.groups.size(), j);
    for (std::size_t i = 0; i < lists.size(); ++i)
      json_fields::at(i, [&] {
        for (const nlohmann::json& sample : json_fields::list_in(lists[i]))
          m.groups[i].samples.push_back(static_cast<float>(seconds_from(sample)));
      });
  });
  const std::size_t named_ranks = m.measured_case.collective->pairwise ? 2 : 1;
  for (const auto& [name, groups] : named_groups(m))
    with(line, name, name, [&, into = groups](const nlohmann::json& list) {
      json_fields::read(list, *into);
      for (std::size_t i = 0; i < into->size(); ++i)
        json_fields::at(i, [&] { json_fields::list_of_size(named_ranks, list[i]); });
    });
}

std::vector<Result> read_journal(const std::filesystem::path& path) {
  return journal_in(read_input(path, largest_journal, remedy), path.native());
}

std::vector<Result> journal_in(std::string_view text, std::string_view name) {
  std::vector<Result> lines;
  lines.reserve(static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1);
  Cases cases;
  int number = 1;
  for (std::size_t from = 0; from < text.size(); ++number) {
    const std::size_t to = text.find('\n', from);
    const std::string_view line = text.substr(from, to - from);
    const bool is_blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    try {
      if (!is_blank) lines.push_back(result_of(line, cases));
    } catch (const std::exception& problem) {
      if (to == std::string_view::npos) break;
      throw UsageError(fmt::format("'{}' line {} is not a line of a journal: {}; {}", printable(name), number,
                                   problem.what(), remedy));
    }
    from = to == std::string_view::npos ? text.size() : to + 1;
  }
  return lines;
}

}  // namespace p5::reports
