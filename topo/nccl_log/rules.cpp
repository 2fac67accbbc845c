// The rules: the table of messages that NCCL, its network plugin and the layers below log when something is wrong
// (tables/nccl_log.json), and what a line shows by it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <regex>
#include <utility>

#include "bench/base/json_fields.hpp"
#include "bench/base/text.hpp"
#include "topo/nccl_log/parts.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace {

constexpr std::array<std::string_view, 8> rule_places{"",       "fabric", "efa",  "verbs",
                                                      "direct", "far",    "nvls", "beyond p4"};
constexpr std::array<std::string_view, 3> rule_counts{"nics", "rails", ""};

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
  archive.must("where", json_fields::one_of(rule.where, rule_places));
  archive.may("across_nodes", rule.across_nodes);
  archive.may("count", json_fields::one_of(rule.count, rule_counts));
  archive.may("evidence", rule.evidence);
  archive.may("progress", rule.progress);
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

}  // namespace

std::vector<LogMatch> rules_met(const std::string& line) {
  std::vector<LogMatch> met;
  for (const auto& [rule, wording, regex] : compiled_rules()) {
    if (!met.empty() && met.back().rule == rule) continue;
    const std::size_t at = line.find(wording->says);
    if (at == std::string::npos) continue;
    if (auto caught = caught_by(regex, line, at)) met.push_back({rule, wording, *std::move(caught)});
  }
  return met;
}

std::vector<FindingKind> log_findings() {
  std::vector<FindingKind> all;
  for (const LogRule& rule : log_rules()) all.push_back({rule.id, rule.about, rule.summary});
  return all;
}

std::optional<Remedy> remedy_for(std::string_view text) {
  for (const LogMatch& match : rules_met(std::string(text))) {
    const LogRule& rule = *match.rule;
    if (rule.where.empty() && rule.count.empty() && rule.severity == Severity::error)
      return Remedy{rule.id, rule.remedy.at("any"), rule.about};
  }
  return std::nullopt;
}

std::string remedy_of(const LogRule& rule, const LogOrigin& place) {
  if (const auto any = rule.remedy.find("any"); any != rule.remedy.end()) return any->second;
  const std::string &efa = rule.remedy.at("efa"), &verbs = rule.remedy.at("verbs");
  if (place.efa() == Answer::yes) return efa;
  if (place.efa() == Answer::no && place.fabric() != Answer::no) return verbs;
  return fmt::format("with InfiniBand or RoCE: {}. On EFA: {}", verbs, efa);
}

namespace {

// Compares the number in the line with the platform's, else with those in other lines of the log. Null: the number is
// as expected, or no expected one is known.
std::optional<std::string> counted(const LogMatch& match, const LogOrigin& place) {
  const std::optional<int> seen = as_number<int>(match.caught.at(0));
  if (!seen) return std::nullopt;
  const std::string& what = match.rule->count;
  const Platform* const platform = place.platform;
  if (!platform || platform->nics == 0) {
    const auto most = place.facts.most.find(what);
    if (most == place.facts.most.end() || *seen >= most->second) return std::nullopt;
    return fmt::format("{} {} here, {} elsewhere in the log: ", *seen, what, most->second);
  }
  if (what == "nics")
    return *seen == platform->nics ? std::nullopt
                                   : std::optional(fmt::format("{} NICs of {}: ", *seen, platform->nics));
  const int expected = std::max(1, platform->nics / std::max(1, platform->gpus));
  return *seen >= expected ? std::nullopt : std::optional(fmt::format("{} of {} rails for a GPU: ", *seen, expected));
}

// Replaces %1, %2, ... in the text by the groups of the match; "" if the line lacks one of them.
std::string filled(const std::string& text, const std::vector<std::string>& caught) {
  std::string whole;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      whole += text[at];
      continue;
    }
    const auto number = static_cast<std::size_t>(text[++at] - '0');
    if (number == 0 || number > caught.size() || caught[number - 1].empty()) return "";
    whole += caught[number - 1];
  }
  return whole;
}

Severity milder(Severity severity) { return severity == Severity::error ? Severity::warning : Severity::info; }

}  // namespace

std::optional<Shown> shown_by(const std::string& line, const LogOrigin& place) {
  for (const LogMatch& match : rules_met(line)) {
    const LogRule& rule = *match.rule;
    Answer wrong = place.holds(rule.where);
    if (wrong == Answer::unknown && match.wording->certain) wrong = Answer::yes;
    if (wrong == Answer::no || (rule.across_nodes && !place.several_nodes())) continue;
    Shown shown{&rule, wrong == Answer::yes ? rule.severity : milder(rule.severity),
                filled(rule.evidence, match.caught), match.caught};
    if (!rule.count.empty()) {
      const std::optional<std::string> difference = counted(match, place);
      if (!difference) continue;
      shown.before = *difference;
    }
    return shown;
  }
  return std::nullopt;
}

}  // namespace p5::topo
