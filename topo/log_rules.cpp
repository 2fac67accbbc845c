#include "topo/log_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "topo/tables.hpp"

namespace p5::topo {

namespace {

constexpr std::array<std::string_view, 7> places{"", "fabric", "efa", "verbs", "direct", "nvls", "beyond p4"};
constexpr std::array<std::string_view, 3> counts{"nics", "rails", ""};

}  // namespace

void fields(auto& archive, Is<LogWording> auto& line) {
  archive.must("says", line.says);
  archive.may("matches", line.matches);
  archive.may("certain", line.certain);
  archive.must("known", line.known);
  archive.must("source", line.source);
}

void fields(auto& archive, Is<LogRule> auto& rule) {
  archive.must("id", rule.id);
  archive.must("summary", rule.summary);
  archive.must("severity", json_fields::named(rule.severity, severity_from));
  archive.must("about", json_fields::named(rule.about, about_from));
  archive.must("where", json_fields::one_of(rule.where, places));
  archive.may("across_nodes", rule.across_nodes);
  archive.may("count", json_fields::one_of(rule.count, counts));
  archive.may("evidence", rule.evidence);
  archive.must("lines", rule.lines);
  archive.must("remedy", rule.remedy);
}

const std::vector<LogRule>& log_rules() {
  static const auto all = make_rows<LogRule>("nccl_log.json");
  return all;
}

namespace {

struct Compiled {
  const LogRule* rule;
  const LogWording* wording;
  std::regex regex;
};

const std::vector<Compiled>& compiled_rules() {
  static const std::vector<Compiled> all = [] {
    std::vector<Compiled> made;
    for (const LogRule& rule : log_rules())
      for (const LogWording& wording : rule.lines)
        made.push_back({&rule, &wording, std::regex(wording.matches, std::regex::optimize)});
    return made;
  }();
  return all;
}

// Excerpt of the line around a position: the recursion of std::regex needs a stack as deep as the text is long.
std::string around(const std::string& line, std::size_t at) {
  constexpr std::size_t before = 300, after = 900;
  const std::size_t from = at > before ? at - before : 0;
  return line.substr(from, at - from + after);
}

}  // namespace

std::vector<LogMatch> rules_met(const std::string& line) {
  std::vector<LogMatch> met;
  for (const auto& [rule, wording, regex] : compiled_rules()) {
    if (!met.empty() && met.back().rule == rule) continue;
    const std::size_t at = line.find(wording->says);
    if (at == std::string::npos) continue;
    LogMatch match{rule, wording, {}};
    if (!wording->matches.empty()) {
      const std::string text = around(line, at);
      std::smatch found;
      if (!std::regex_search(text, found, regex)) continue;
      for (std::size_t i = 1; i < found.size(); ++i) match.caught.push_back(found[i]);
    }
    met.push_back(std::move(match));
  }
  return met;
}

}  // namespace p5::topo
