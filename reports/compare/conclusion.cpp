// The answer of a comparison, its exit code, and the sentence that every format shows.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/compare/comparing.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t longest_headline = 120;  // as far as naming one part allows

std::string counted(std::size_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

std::string rounded_change(double ratio) {
  const double percent = 100 * (ratio - 1);
  return fmt::format("{:+.{}f} %", percent, std::abs(percent) < 9.95 ? 1 : 0);
}

std::string_view sizes_of(std::string_view band) {
  if (band == "latency") return "<= 64 KiB";
  if (band == "mid") return "64 KiB to 64 MiB";
  return band == "bandwidth" ? ">= 64 MiB" : band;
}

// What of the row got worse; the largest step of level where a history shows one.
std::string text_of(const BandRow& row, const Comparison& c, bool dated) {
  const std::string name = fmt::format("{}{} {}", row.collective, row.quantity == Quantity::latency ? " latency" : "",
                                       sizes_of(row.threshold.band));
  if (row.change) {
    const Trend::Change& change = c.trend->changes[*row.change];
    const std::string& since = c.trend->points[change.first].started;
    return fmt::format("{} {}{}", name, rounded_change(*change.still),
                       since.empty() || !dated ? "" : " since " + since.substr(0, since.find('T')));
  }
  if (row.time_rose) return fmt::format("{} {}", name, rounded_change(row.time.ratio));
  return fmt::format("{} spread x {:.1f}", name, row.spread->ratio);
}

// As many as fit into so many characters, at least one; the others are counted.
std::string list_of(const std::vector<std::string>& parts, const char* others, std::size_t room) {
  const auto text_of_first = [&](std::size_t count) {
    std::string text = join({parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count)});
    if (count < parts.size()) text += fmt::format(" and {} more {}", parts.size() - count, others);
    return text;
  };
  std::size_t named = parts.size();
  while (named > 1 && text_of_first(named).size() > room) --named;
  return text_of_first(named);
}

std::string text_of_regressions(const std::vector<const BandRow*>& rows, const Comparison& c, std::size_t room) {
  for (const bool dated : {true, false}) {
    std::vector<std::string> names;
    for (const BandRow* row : rows) names.push_back(text_of(*row, c, dated));
    constexpr std::string_view word = "REGRESSION: ";
    std::string text = std::string(word) + list_of(names, "bands", room - std::min(room, word.size()));
    if (text.size() <= room) return text;
  }
  return fmt::format("REGRESSION in {}", counted(rows.size(), "band", "bands"));
}

std::string text_of_figures(const Comparison& c, std::size_t room) {
  std::vector<const BandRow*> regressions;
  std::size_t open = 0;
  int most_needed = 0;
  bool never = false;
  for (const BandRow& row : c.bands) {
    if (row.answer == Answer::regression) regressions.push_back(&row);
    if (row.answer != Answer::inconclusive) continue;
    ++open;
    never = never || !row.launches_needed;
    most_needed = std::max(most_needed, row.launches_needed.value_or(0));
  }
  if (!regressions.empty()) return text_of_regressions(regressions, c, room);
  std::string text;
  if (c.bands.empty())
    text = "INCONCLUSIVE: nothing was measured on both sides";
  else if (open > 0)
    text = fmt::format("INCONCLUSIVE in {} of {} bands; {}", open, c.bands.size(),
                       never ? "more launches alone would not settle all of them"
                             : fmt::format("about {} launches a side would settle it", most_needed));
  else
    text = fmt::format("{} in {}", c.answer == Answer::no_regression ? "NO REGRESSION" : "no slower",
                       counted(c.bands.size(), "band", "bands"));
  const auto slower =
      std::ranges::count_if(c.sizes, [](const SizeRow& row) { return row.marked && row.time.ratio > 1; });
  if (slower > 0)
    text += fmt::format("; {} slower", counted(static_cast<std::size_t>(slower), "single size is", "single sizes are"));
  return text;
}

// Wrong data or failures, with how many of them BASE had too.
std::string text_of_troubles(const Comparison& c, bool wrong_data) {
  std::size_t count = 0, before = 0;
  for (const FailedCase& each : c.troubles) {
    if (each.wrong_data != wrong_data) continue;
    ++count;
    before += each.in_base;
  }
  if (count == 0) return "";
  const std::string too = before == 0       ? ""
                          : before == count ? fmt::format(", as of {}", c.base_name)
                                            : fmt::format(", {} of them as of {}", before, c.base_name);
  return fmt::format("{} in {} of {}{}", wrong_data ? "WRONG DATA" : "FAILED", counted(count, "case", "cases"),
                     c.new_name, too);
}

std::string text_of_end(const Comparison& c, ExitCode code) {
  const auto found = std::ranges::find(c.bad_ends, code, &FailedRun::code);
  if (found == c.bad_ends.end()) return "";
  return code == ExitCode::wrong_data ? fmt::format("WRONG DATA in {}", c.new_name)
                                      : fmt::format("{} DID NOT FINISH ({})", c.new_name, printable(found->because));
}

std::string kind_for_people(const std::string& kind) {
  return kind == "gpu" || kind == "nic" ? upper_case(kind) : kind;
}

}  // namespace

bool comes_first(const BandRow& one, const BandRow& other) {
  if (one.answer != other.answer) return one.answer > other.answer;
  return one.answer == Answer::regression && one.time.ratio > other.time.ratio;
}

std::string text_of(const Suspect& suspect) {
  return fmt::format("{} {}", kind_for_people(suspect.kind), suspect.name);
}

void conclude(Comparison& c) {
  const auto is_broken = [](const FailedRun& end) { return end.code == ExitCode::slow; };
  const bool in_trouble = !c.troubles.empty() || !std::ranges::all_of(c.bad_ends, is_broken) || c.wrong_in_base > 0;
  c.answer = c.bands.empty() || in_trouble ? Answer::inconclusive : Answer::no_regression;
  for (const BandRow& row : c.bands) c.answer = std::max(c.answer, row.answer);
  const auto broken = std::ranges::find_if(c.bad_ends, is_broken);
  if (!c.new_suspects.empty() || broken != c.bad_ends.end()) c.answer = Answer::regression;
  c.exit_code = c.answer == Answer::regression     ? ExitCode::slow
                : c.answer == Answer::inconclusive ? ExitCode::inconclusive
                                                   : ExitCode::ok;
  for (const FailedCase& each : c.troubles)
    c.exit_code = worse(c.exit_code, each.wrong_data ? ExitCode::wrong_data : ExitCode::unfinished);
  for (const FailedRun& each : c.bad_ends) c.exit_code = worse(c.exit_code, each.code);
  if (c.wrong_in_base > 0) c.exit_code = worse(c.exit_code, ExitCode::wrong_data);

  std::string first;
  std::string wrong = text_of_troubles(c, true);
  if (wrong.empty()) wrong = text_of_end(c, ExitCode::wrong_data);
  if (wrong.empty() && c.wrong_in_base > 0)
    wrong = fmt::format("WRONG DATA in {} of {}", counted(c.wrong_in_base, "case", "cases"), c.base_name);
  for (const std::string& part : {wrong, text_of_troubles(c, false), text_of_end(c, ExitCode::unfinished)})
    if (!part.empty()) first += part + "; ";
  std::string last;
  const bool figures_too =
      std::ranges::any_of(c.bands, [](const BandRow& row) { return row.answer == Answer::regression; });
  if (broken != c.bad_ends.end()) {
    const std::string found =
        fmt::format("{} found {}", c.new_name, printable(broken->because.substr(0, broken->because.find(':'))));
    if (figures_too)
      last += "; " + found;
    else
      first += "REGRESSION: " + found + "; ";
  }
  if (!c.new_suspects.empty()) {
    std::vector<std::string> names;
    for (const Suspect& each : c.new_suspects) names.push_back(text_of(each));
    constexpr std::size_t longest_list = 40;
    const std::string accusation = fmt::format("{} accuses {}", c.new_name, list_of(names, "parts", longest_list));
    if (figures_too)
      last += "; " + accusation;
    else if (broken != c.bad_ends.end())
      first += accusation + "; ";
    else
      first += "REGRESSION: " + accusation + "; ";
  }
  if (c.screening) last += " (screening)";
  const std::size_t taken = first.size() + last.size();
  c.headline = first + text_of_figures(c, longest_headline - std::min(longest_headline, taken)) + last;
}

}  // namespace p5::reports
