// Computes a Comparison of two sides: pairs the cases, judges each band on its launches, lists sizes.
#include "reports/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/base/embedded.hpp"
#include "bench/base/names.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/decision.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/part_names.hpp"

namespace p5::reports {

namespace {

constexpr int most_useful_launches = 200;  // more are impractical

// ---- answers

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * std::abs(share)); }

std::string text_of(const Effect& effect) {
  return fmt::format("{:.1f} % {} ({:+.1f} to {:+.1f} %)", 100 * std::abs(effect.ratio - 1),
                     effect.ratio >= 1 ? "slower" : "faster", 100 * (effect.interval.low - 1),
                     100 * (effect.interval.high - 1));
}

// True if the interval and p of a row, as far as runs that differ make them, would decide with this scatter between
// runs and this half interval of launches.
bool would_decide(const BandRow& row, std::size_t rows, double run_deviation, int degrees, double of_launches) {
  const double ratio = std::log(row.time.ratio);
  const double of_runs = run_deviation > 0 ? student_quantile(0.05, degrees) * run_deviation : 0;
  const double half = std::hypot(of_runs, of_launches + row.parts.rounding);
  if (half < std::log1p(row.threshold.matters) - ratio) return true;
  if (half >= ratio - std::log1p(row.threshold.negligible)) return false;
  return run_deviation <= 0 ||
         student_two_sided_p(ratio / run_deviation, degrees) / 2 * static_cast<double>(rows) <= false_alarm_probability;
}

// Launches per side at which the interval would be clear of the limit: what launches make of it shrinks with their
// square root; what runs that differ and rounding make of it stays. Null: no number, or more than is practical.
std::optional<int> launches_needed(const BandRow& row, std::size_t rows) {
  const double now = 2.0 / (1.0 / row.base_launches + 1.0 / row.new_launches);
  const auto decide = [&](double launches) {
    return would_decide(row, rows, row.parts.run_deviation, row.parts.run_degrees,
                        row.parts.launches * std::sqrt(now / launches));
  };
  if (!decide(most_useful_launches)) return std::nullopt;
  double few = 1e-3, wanted = most_useful_launches;
  for (int i = 0; i < 60; ++i) (decide((few + wanted) / 2) ? wanted : few) = (few + wanted) / 2;
  // If the interval is narrow enough already, the permutation test is the obstacle: half as many launches again.
  auto launches = static_cast<std::size_t>(std::ceil(std::max(wanted, wanted <= now ? 1.5 * now : now)));
  while (RankTest::least_p(launches, launches) * static_cast<double>(rows) > false_alarm_probability) ++launches;
  return static_cast<int>(launches);
}

// Runs per side, of as many launches each, at which the interval would be clear of the limit. Null: runs do not differ
// beyond their launches, or more than is practical.
std::optional<int> runs_needed(const BandRow& row, std::size_t rows) {
  constexpr int most_useful_runs = 60;
  if (row.parts.run_deviation <= 0) return std::nullopt;
  for (int runs = std::max(2, static_cast<int>(row.parts.runs)); runs <= most_useful_runs; ++runs)
    if (would_decide(row, rows, row.runs_differ * std::sqrt(2.0 / runs), 2 * (runs - 1),
                     row.parts.launches * std::sqrt(row.parts.runs / runs)))
      return runs;
  return std::nullopt;
}

std::string why_undecided(const BandRow& row) {
  if (row.launches_needed) return fmt::format("about {} launches per side would decide", *row.launches_needed);
  if (row.runs_needed)
    return fmt::format("about {} runs per side would decide, and no number of launches of these", *row.runs_needed);
  if (row.parts.rounding >= row.parts.launches)
    return fmt::format("times rounded by up to {} do not decide", percent(std::expm1(row.parts.rounding)));
  if (row.parts.run_deviation > 0) return "runs differ too much to decide; find out what disturbs them";
  return fmt::format("more than {} launches per side would be needed; find out what disturbs it", most_useful_launches);
}

bool rose(const Effect& effect, const Threshold& t) {
  return effect.interval.high - 1 >= t.matters && effect.interval.low - 1 > t.negligible &&
         effect.p_adjusted <= false_alarm_probability;
}

void answer(BandRow& row, std::size_t rows) {
  const Threshold& t = row.threshold;
  const std::string seen = text_of(row.time);
  if (row.time.interval.high - 1 < t.matters) {
    row.answer = Answer::no_regression;
    row.because = fmt::format("{}: less than the {} that matter", seen, percent(t.matters));
  } else if (rose(row.time, t)) {
    row.answer = Answer::regression;
    row.time_rose = true;
    row.because = fmt::format("{}: certainly more than {}, p {:.2g} among {} bands", seen, percent(t.negligible),
                              row.time.p_adjusted, rows);
  } else {
    row.answer = Answer::inconclusive;
    row.launches_needed = launches_needed(row, rows);
    if (!row.launches_needed) row.runs_needed = runs_needed(row, rows);
    row.because = fmt::format("{}, {} matter: {}", seen, percent(t.matters), why_undecided(row));
  }
  row.mean_rose = !row.time_rose && row.mean && rose(*row.mean, t);
  if (row.mean_rose) {
    row.answer = Answer::regression;
    row.because += fmt::format(
        "; but the mean without the slowest twentieth of the samples is {}: more samples are slow", text_of(*row.mean));
  }
  const SpreadRule& spread = thresholds().spread;
  row.spread_rose = row.spread && row.spread->p_adjusted <= false_alarm_probability &&
                    row.spread->ratio >= spread.matters && row.spread->interval.low > spread.negligible &&
                    *row.new_spread >= spread.least;
  if (row.spread_rose) {
    row.answer = Answer::regression;
    row.because +=
        fmt::format("; samples within a launch spread {:.1f} times as wide as before ({:.1f} % instead of {:.1f} %)",
                    row.spread->ratio, 100 * *row.new_spread, 100 * *row.base_spread);
  }
}

void adjust(std::vector<BandRow>& rows) {
  for (const auto& effect_of : std::initializer_list<Effect* (*)(BandRow&)>{
           [](BandRow& row) { return &row.time; }, [](BandRow& row) { return row.mean ? &*row.mean : nullptr; },
           [](BandRow& row) { return row.spread ? &*row.spread : nullptr; }}) {
    std::vector<Effect*> effects;
    for (BandRow& row : rows)
      if (Effect* const effect = effect_of(row)) effects.push_back(effect);
    std::vector<double> chances;
    for (const Effect* const each : effects) chances.push_back(each->p);
    const std::vector<double> adjusted = holm_adjusted(chances);
    for (std::size_t i = 0; i < effects.size(); ++i) effects[i]->p_adjusted = adjusted[i];
  }
}

std::string text_of(const std::vector<Selection>& selections) {
  std::vector<std::string> texts;
  for (const Selection& s : selections) {
    // Some logs name the algorithm only.
    std::string text = s.algorithm + (s.protocol.empty() ? "" : "/" + s.protocol);
    if (s.channels > 0) text += fmt::format("/{}", s.channels);
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  return join(texts, " | ");
}

std::vector<SizeRow> map_of(const std::vector<Pair>& pairs, const BandJudge& judge) {
  std::vector<SizeRow> map;
  std::vector<double> p;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SizeRow& row = map.emplace_back();
    row.measured_case = pairs[i].fresh->measured_case;
    row.quantity = pairs[i].quantity;
    row.band = band_of(row.measured_case).name;
    row.base_s = median_of(pairs[i].sides().base);
    row.new_s = median_of(pairs[i].sides().fresh);
    row.time = judge.size(i);
    row.base_selection = text_of(pairs[i].base->selections);
    row.new_selection = text_of(pairs[i].fresh->selections);
    p.push_back(row.time.p);
  }
  const std::vector<double> adjusted = false_discovery_adjusted(p);
  for (std::size_t i = 0; i < map.size(); ++i) {
    SizeRow& row = map[i];
    row.time.p_adjusted = adjusted[i];
    const BandRule& band = band_of(row.measured_case);
    const double least = 1 + matters_at(band, row.base_s) * band.negligible;
    row.marked =
        adjusted[i] <= false_alarm_probability && (row.time.interval.low > least || row.time.interval.high < 1 / least);
  }
  std::ranges::stable_sort(map, {}, [](const SizeRow& row) {
    return std::tuple(label_of(row.measured_case), row.quantity, row.measured_case.bytes);
  });
  return map;
}

// ---- the comparison

std::vector<FailedCase> troubles_of(const Side& fresh, const Matched& matched) {
  std::vector<FailedCase> troubles;
  for (const Observation& each : fresh.observations) {
    if (each.trouble.empty()) continue;
    const auto base = matched.base_of.find(&each);
    const bool in_base =
        base != matched.base_of.end() && (each.wrong_data ? base->second->wrong_data : base->second->failed);
    troubles.push_back({each.measured_case, each.wrong_data, each.trouble, in_base});
  }
  return troubles;
}

bool ended_wrong(const Report& report) { return report.exit_code == ExitCode::wrong_data; }

std::size_t without_baseline(const Side& base) {
  const auto all_wrong = [](const Observation& each) {
    return each.wrong_data && each.latency.empty() && each.throughput.empty();
  };
  const auto cases = static_cast<std::size_t>(std::ranges::count_if(base.observations, all_wrong));
  // If no measurement records wrong data, the cases that had it are unknown.
  const bool none_told = std::ranges::none_of(base.observations, &Observation::wrong_data);
  return cases == 0 && none_told && std::ranges::all_of(base.reports, ended_wrong) ? base.observations.size() : cases;
}

std::size_t count_failed(const Side& side) {
  return static_cast<std::size_t>(std::ranges::count_if(
      side.observations, [](const Observation& each) { return !each.wrong_data && !each.trouble.empty(); }));
}

// A host as both sides can know it. Names change, as those of pods, and other instances get them.
struct HostName {
  std::string name, instance;
};

bool same_host(const HostName& a, const HostName& b) {
  return a.instance.empty() || b.instance.empty() ? a.name == b.name : a.instance == b.instance;
}

// The instance by which a host is known; "" if several hosts are on it, as pods: their names tell them apart.
std::string own_instance(const std::string& instance, const topo::Topology& topology) {
  return std::ranges::count(topology.hosts, instance, &topo::Host::instance) > 1 ? "" : instance;
}

// In any order.
bool same_hosts(const std::vector<HostName>& a, const std::vector<HostName>& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const HostName& one) {
           return std::ranges::any_of(b, [&](const HostName& other) { return same_host(one, other); });
         });
}

std::vector<HostName> hosts_as_known(const std::vector<std::string>& names, const topo::Topology& topology) {
  std::vector<HostName> hosts;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(topology.hosts, name, &topo::Host::name);
    hosts.push_back({name, found == topology.hosts.end() ? "" : own_instance(found->instance, topology)});
  }
  return hosts;
}

bool same_finding(const topo::Finding& a, const topo::Topology& of_a, const topo::Finding& b,
                  const topo::Topology& of_b) {
  const topo::Subject &one = a.subject, &other = b.subject;
  // One code may be worse than another.
  const bool same_xid = !one.xid || !other.xid || *one.xid == *other.xid;
  return a.id == b.id && same_xid &&
         same_host({one.host, own_instance(one.instance, of_a)}, {other.host, own_instance(other.instance, of_b)}) &&
         one.gpu == other.gpu && one.nic == other.nic &&
         same_hosts(hosts_as_known(a.hosts, of_a), hosts_as_known(b.hosts, of_b));
}

// True if at least half of a side's runs have a property, so that it describes the side.
template <class Tells>
bool most_tell(const std::vector<Report>& reports, const Tells& tells) {
  const auto count = static_cast<std::size_t>(std::ranges::count_if(reports, tells));
  return count > 0 && 2 * count >= reports.size();
}

const std::string& source_of(const Side& side, std::size_t run) {
  return side.sources[std::min(run, side.sources.size() - 1)];
}

// True if at least half of the runs that measured a case had slow samples there that a median hides.
bool is_mostly_unsteady(const Observation& each) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(each.mean_fractions, [](const auto& of_run) { return of_run.second.has_value(); }));
  return count > 0 && 2 * count >= each.mean_fractions.size();
}

// The time of most samples on average, which a launch without samples takes at least in its median.
double least_mean_time(std::span<const Launch> launches) {
  std::vector<double> times;
  for (const Launch& each : launches)
    times.push_back(each.samples_s.empty() ? each.median_s
                                           : summarize(each.samples_s).trimmed_mean.value_or(each.median_s));
  return median(std::move(times));
}

// True if a case took as long in BASE on average, whatever its median and the bar for it were there.
bool takes_no_longer(double mean_time_s, const Observation& base) {
  if (base.throughput.empty()) return false;
  const double before = least_mean_time(base.throughput);
  return mean_time_s <= before * (1 + matters_at(band_of(base.measured_case), before));
}

// A case of a run of NEW with slow samples that a median hides.
struct Unsteady {
  const Observation* observation = nullptr;
  std::size_t run = 0;
  double mean_fraction = 0;
  bool in_base = false;    // most runs of BASE had such there too
  bool no_longer = false;  // it takes no longer than in BASE all the same
  bool before() const { return in_base || no_longer; }
  std::string evidence() const {
    return fmt::format("{} reaches {:.0f} % of its limit on average", describe(observation->measured_case),
                       100 * mean_fraction);
  }
};

// The case of the least mean fraction; one that was no better in BASE only if there is no other. Null: none.
std::optional<Unsteady> most_unsteady(const Side& fresh, const Matched& matched) {
  std::optional<Unsteady> worst;
  for (const Observation& each : fresh.observations) {
    const auto base = matched.base_of.find(&each);
    const bool in_base = base != matched.base_of.end() && is_mostly_unsteady(*base->second);
    for (const auto& [run, fraction] : each.mean_fractions) {
      if (!fraction) continue;
      const auto time = each.mean_times_s.find(run);
      const Unsteady its{&each, run, *fraction, in_base,
                         base != matched.base_of.end() && time != each.mean_times_s.end() &&
                             takes_no_longer(time->second, *base->second)};
      if (!worst || std::pair(its.before(), *fraction) < std::pair(worst->before(), worst->mean_fraction)) worst = its;
    }
  }
  return worst;
}

// "r5" of "n1r5": the rank alone, since hosts may be in another order.
std::string_view within_host(std::string_view name) {
  const std::size_t end = name.find_first_not_of("0123456789", 1);
  return name.starts_with('n') && end != std::string_view::npos ? name.substr(end) : "";
}

// A part with its hosts, which may be in another order, and others in their places.
struct PlacedPart {
  std::string kind, which;  // within its hosts; all of the name where these are unknown
  std::vector<HostName> hosts;
  std::vector<std::vector<HostName>> sets = {};  // of links between sets of nodes
};

bool same_part(const PlacedPart& a, const PlacedPart& b) {
  const auto is_in_b = [&](const std::vector<HostName>& set) {
    return std::ranges::any_of(b.sets, [&](const std::vector<HostName>& other) { return same_hosts(set, other); });
  };
  return a.kind == b.kind && a.which == b.which && same_hosts(a.hosts, b.hosts) && a.sets.size() == b.sets.size() &&
         std::ranges::all_of(a.sets, is_in_b);
}

PlacedPart part_on_hosts(const std::string& full_name, const topo::Topology& topology) {
  const std::size_t space = full_name.find(' ');
  PlacedPart part{full_name.substr(0, space), full_name.substr(space + 1), {}};
  // A rail is the same on all hosts.
  const std::optional<Part> known = part.kind == "rail" ? std::nullopt : part_named(full_name);
  if (known) {
    part.sets.resize(known->sets.size());
    for (const std::size_t host : hosts_of(*known, topology)) {
      part.hosts.push_back({topology.hosts[host].name, own_instance(topology.hosts[host].instance, topology)});
      for (std::size_t set = 0; set < part.sets.size(); ++set)
        if (std::ranges::find(known->sets[set], static_cast<int>(host)) != known->sets[set].end())
          part.sets[set].push_back(part.hosts.back());
    }
  }
  if (!part.hosts.empty()) part.which = part.kind == "link" ? "" : within_host(part.which);
  return part;
}

PlacedPart part_on_hosts(const Suspect& suspect, const topo::Topology& topology) {
  PlacedPart part = part_on_hosts(suspect.kind + " " + suspect.name, topology);
  if (suspect.kind != "link" && !suspect.host.empty()) {
    part.which = within_host(suspect.name);
    part.hosts = {{suspect.host, own_instance(suspect.instance, topology)}};
  }
  return part;
}

std::vector<PlacedPart> candidates_of(const OpenQuestion& question, const topo::Topology& topology) {
  std::vector<PlacedPart> candidates;
  for (const std::string& each : question.candidates) candidates.push_back(part_on_hosts(each, topology));
  return candidates;
}

bool contains(const std::vector<PlacedPart>& parts, const PlacedPart& part) {
  return std::ranges::any_of(parts, [&](const PlacedPart& each) { return same_part(each, part); });
}

// True if a report has the question with these candidates too, or suspects one of them.
bool explains(const Report& report, const std::vector<PlacedPart>& candidates, const std::string& fault) {
  const auto is_same = [&](const OpenQuestion& question) {
    const std::vector<PlacedPart> others = candidates_of(question, report.topology);
    return question.fault == fault && others.size() == candidates.size() &&
           std::ranges::all_of(others, [&](const PlacedPart& each) { return contains(candidates, each); });
  };
  return std::ranges::any_of(report.open_questions, is_same) ||
         std::ranges::any_of(report.suspects, [&](const Suspect& each) {
           return each.fault == fault && contains(candidates, part_on_hosts(each, report.topology));
         });
}

// Faults of most runs of BASE that NEW has too, by what NEW says of them: "suspect", "found".
using InBoth = std::map<std::string_view, std::set<std::string>>;

std::vector<FailedRun> bad_ends_of(const Side& base, const Side& fresh, const Matched& matched, bool all,
                                   std::size_t& repeated, InBoth& in_both, std::vector<std::string>& remarks) {
  const bool has_failures = count_failed(fresh) > 0;
  std::vector<FailedRun> ends;
  const auto add_fault = [&](const std::string& source, const std::string& name, const std::string& evidence,
                             bool before) {
    if (before && !all) {
      in_both["found"].insert(name);
      return;
    }
    repeated += before;
    ends.push_back({source, ExitCode::slow, fmt::format("{}: {}", name, evidence)});
  };
  for (std::size_t i = 0; i < fresh.reports.size(); ++i) {
    const Report& report = fresh.reports[i];
    const std::string& source = source_of(fresh, i);
    if (ended_wrong(report)) ends.push_back({source, ExitCode::wrong_data, "its data were wrong"});
    const bool never_began = report.exit_code == ExitCode::environment;
    if (report.status != "complete" || never_began || (report.exit_code == ExitCode::unfinished && !has_failures))
      ends.push_back({source, ExitCode::unfinished,
                      !report.run.ended_by.empty()  ? report.run.ended_by
                      : never_began                 ? "it could not be measured there"
                      : report.status != "complete" ? "it was cut off"
                                                    : "a check of it failed"});
    for (const topo::Finding& finding : report.findings) {
      if (!topo::condemns(finding)) continue;
      // A warning of BASE is less than what condemns NEW. Reports of older versions do not say what an error is about.
      add_fault(source, finding.id + (finding.subject.host.empty() ? "" : " on " + finding.subject.host),
                finding.evidence, most_tell(base.reports, [&](const Report& each) {
                  return std::ranges::any_of(each.findings, [&](const topo::Finding& one) {
                    return one.severity == topo::Severity::error &&
                           same_finding(one, each.topology, finding, report.topology);
                  });
                }));
    }
    for (const OpenQuestion& question : report.open_questions) {
      const std::vector<PlacedPart> candidates = candidates_of(question, report.topology);
      add_fault(
          source, alternatives(question.candidates) + " at fault", question.evidence,
          most_tell(base.reports, [&](const Report& each) { return explains(each, candidates, question.fault); }));
    }
  }
  if (const std::optional<Unsteady> unsteady = most_unsteady(fresh, matched)) {
    const std::string name = "slow samples that a median hides";
    if (!all && unsteady->no_longer && !unsteady->in_base)
      remarks.push_back(fmt::format("{} found {}: {}, and takes no longer than in {}, which is no regression",
                                    fresh.name, name, unsteady->evidence(), base.name));
    else
      add_fault(source_of(fresh, unsteady->run), name, unsteady->evidence(), unsteady->before());
  }
  return ends;
}

// True if a report suspects the part of the same fault, or of a worse one than that it is slow.
bool has_suspect(const Report& report, const PlacedPart& part, const std::string& fault) {
  return std::ranges::any_of(report.suspects, [&](const Suspect& each) {
    return (each.fault == fault || fault == "slow") && same_part(part_on_hosts(each, report.topology), part);
  });
}

std::vector<Suspect> new_suspects_of(const Side& base, const Side& fresh, bool all, std::size_t& repeated,
                                     InBoth& in_both) {
  std::vector<Suspect> found;
  std::vector<PlacedPart> parts;
  for (const Report& report : fresh.reports)
    for (const Suspect& each : report.suspects) {
      const PlacedPart part = part_on_hosts(each, report.topology);
      if (contains(parts, part)) continue;
      const bool before =
          most_tell(base.reports, [&](const Report& one) { return has_suspect(one, part, each.fault); });
      if (before && !all) in_both["suspect"].insert(text_of(each));
      if (before && !all) continue;
      repeated += before;
      found.push_back(each);
      parts.push_back(part);
    }
  return found;
}

void add_selection_shifts(const std::vector<SizeRow>& map, std::vector<Difference>& out) {
  std::set<std::string> seen;  // without repetition for further quantities
  for (const SizeRow& row : map) {
    if (row.base_selection.empty() || row.new_selection.empty() || row.base_selection == row.new_selection) continue;
    const std::string name = describe(row.measured_case);
    if (seen.insert(name).second) out.push_back({"selection", name, row.base_selection, row.new_selection});
  }
}

// "NEW skipped all of its cases (budget)"; "" if it did not.
std::string why_nothing_measured(const Side& side) {
  const auto measured = [](const Observation& each) { return !is_skipped(each); };
  if (side.observations.empty() || std::ranges::any_of(side.observations, measured)) return "";
  return fmt::format("{} skipped all of its cases ({})", side.name, side.observations.front().skipped);
}

std::string provenance_of(const Side& base, const Side& fresh) {
  std::set<std::string> all;
  for (const Side* side : {&base, &fresh})
    for (const Report& report : side->reports) all.insert(report.provenance);
  return all.size() == 1 ? *all.begin() : "mixed";
}

void refuse_other_hardware(const Side& base, const Side& fresh) {
  if (const std::string hardware = other_hardware(base.reports, fresh.reports); !hardware.empty())
    throw UsageError(
        fmt::format("the hardware is not the same ({}); give --across-hardware to compare all the same", hardware));
}

void refuse_other_waiting(const Side& base, const Side& fresh) {
  for (const Report& was : base.reports)
    for (const Report& is : fresh.reports)
      if (const std::string why = other_waiting(was, is); !why.empty())
        throw UsageError(fmt::format("{} is not comparable: {}; compare runs of the same kind", base.name, why));
}

// Remarks that say of imports whether they are simulated, or means over ranks beside the slowest rank's times.
void add_remarks_on_imports(const Side& base, const Side& fresh, std::vector<std::string>& remarks) {
  const Side* some_means = nullptr;
  bool others = false;
  for (const Side* side : {&base, &fresh})
    for (std::size_t i = 0; i < side->reports.size(); ++i) {
      const Report& report = side->reports[i];
      const bool means = nccl_tests::is_import_with(nccl_tests::means_over_ranks, report);
      if (means) some_means = side;
      others = others || !means;
      if (nccl_tests::is_import_with(nccl_tests::of_simulator, report))
        remarks.push_back(fmt::format("{}: {}", source_of(*side, i), nccl_tests::of_simulator));
    }
  if (some_means && others)
    remarks.push_back(
        fmt::format("{} has imports, whose {}, as all others are: differences of some percent may come from that alone",
                    some_means->name, nccl_tests::means_over_ranks));
}

std::string why_ambiguous(std::size_t cases, const Side& fresh) {
  if (cases == 0) return "";
  return fmt::format(
      "{} of {} {} not compared: the sides have {} in other backends or on other numbers of ranks or nodes, and one of "
      "them in several, so that none belongs to one of the other side",
      counted(cases, "case"), fresh.name, cases == 1 ? "is" : "are", cases == 1 ? "it" : "them");
}

// Why slow samples and the spread are not judged by all launches: where a run's journal is lacking. Nothing is to be
// said where neither side has samples, as imports.
std::vector<std::string> remarks_on_samples(const Comparison& c) {
  const auto is_known = [](const BandRow& row) { return row.base_with_samples + row.new_with_samples > 0; };
  if (std::ranges::none_of(c.bands, is_known)) return {};
  std::vector<std::string> remarks;
  for (const auto& [name, launches, with_samples] :
       {std::tuple(&c.base_name, &BandRow::base_launches, &BandRow::base_with_samples),
        std::tuple(&c.new_name, &BandRow::new_launches, &BandRow::new_with_samples)}) {
    int most = 0, of = 0;
    for (const BandRow& row : c.bands)
      if (const int lacking = row.*launches - row.*with_samples; lacking > most) most = lacking, of = row.*launches;
    if (most > 0)
      remarks.push_back(
          fmt::format("{} of the {} launches of {} {} without six samples of each size (is measurements.jsonl beside "
                      "the report?): {}",
                      most, of, *name, most == 1 ? "is" : "are",
                      most < of ? "slow samples and spreads are judged without them"
                                : "slow samples and spreads are not judged there"));
  }
  return remarks;
}

void add_remarks(const Side& base, const Side& fresh, const Matched& matched, const std::vector<BandPairs>& rows,
                 Comparison& out) {
  if (std::string why = why_ambiguous(matched.ambiguous, fresh); !why.empty()) out.remarks.push_back(std::move(why));
  for (const Side* side : {&base, &fresh}) {
    out.remarks.insert(out.remarks.end(), side->remarks.begin(), side->remarks.end());
    for (std::size_t i = 0; i < side->reports.size(); ++i)
      if (side->reports[i].status != "complete")
        out.remarks.push_back(fmt::format("{} is of a run that did not finish", side->sources[i]));
  }
  add_remarks_on_imports(base, fresh, out.remarks);
  for (std::string& sentence : worse_figures(base.reports, fresh.reports)) out.remarks.push_back(std::move(sentence));
  std::size_t apart = 0;
  for (const BandPairs& row : rows) apart += row.apart ? row.pairs.size() : 0;
  if (apart > 0)
    out.remarks.push_back(fmt::format("{} measured in other launches than most of {} band: {} judged apart",
                                      apart == 1 ? "1 size was" : fmt::format("{} sizes were", apart),
                                      apart == 1 ? "its" : "their", apart == 1 ? "it is" : "they are"));
  if (const std::size_t failed = matched.failed_in_base.size(); failed > 0)
    out.remarks.push_back(fmt::format("{} failed {} that {} measured: {} not compared", base.name,
                                      counted(failed, "case"), fresh.name, failed == 1 ? "it is" : "they are"));
  const auto wrong = std::ranges::count_if(base.observations, &Observation::wrong_data);
  if (wrong > 0 || std::ranges::any_of(base.reports, ended_wrong))
    out.remarks.push_back(fmt::format("{} has wrong data{}: times of wrong data are no baseline", base.name,
                                      wrong > 0 ? fmt::format(" in {} {}", wrong, wrong == 1 ? "case" : "cases") : ""));
  double runs_differ = 0;
  for (const BandRow& row : out.bands) runs_differ = std::max(runs_differ, row.runs_differ);
  if (constexpr double worth_saying = 0.002; runs_differ > worth_saying)
    out.remarks.push_back(
        fmt::format("runs of a side differ by up to {:.1f} % more than their launches do: intervals allow for it, and "
                    "more runs, not more launches of each, make them narrower",
                    100 * runs_differ));
  for (std::string& remark : remarks_on_samples(out)) out.remarks.push_back(std::move(remark));
  if (out.screening)
    out.remarks.push_back(
        "Screening: with so few launches the variance between launches is assumed (bench/measure/thresholds.json), not "
        "measured. Measure 7 launches per side or more (run --launches 7) before you rely on the result");
}

}  // namespace

Comparison compare(const Side& base, const Side& fresh, const ComparisonOptions& options) {
  Comparison out;
  out.version = version();
  out.base_name = base.name;
  out.new_name = fresh.name;
  out.base_sources = base.sources;
  out.new_sources = fresh.sources;
  out.provenance = provenance_of(base, fresh);
  out.seed = options.seed;
  out.differences = differences_of(base.reports, fresh.reports);
  refuse_other_waiting(base, fresh);
  if (!options.across_hardware) refuse_other_hardware(base, fresh);
  const Matched matched = match(base, fresh, options.across_hardware);
  out.only_in_base = matched.only_in_base;
  out.only_in_new = matched.only_in_new;
  InBoth in_both;
  out.bad_ends = bad_ends_of(base, fresh, matched, options.history, out.repeated, in_both, out.remarks);
  // Without cases of one side, that side skipped all of them.
  if (!matched.in_common && !matched.only_in_base.empty() && !matched.only_in_new.empty() && out.bad_ends.empty()) {
    std::string why = why_ambiguous(matched.ambiguous, fresh);
    if (!options.across_hardware && match(base, fresh, true).in_common)
      why =
          "they have some in other backends, or on other numbers of ranks or nodes: give --across-hardware to compare "
          "those all the same";
    throw UsageError(fmt::format("the sides have no case in common: {} has {}, {} has {}, for example{}", base.name,
                                 matched.only_in_base.front(), fresh.name, matched.only_in_new.front(),
                                 why.empty() ? why : "; " + why));
  }
  out.troubles = troubles_of(fresh, matched);
  if (options.base_counts) out.wrong_in_base = without_baseline(base);
  if (options.one_run) out.failed_in_base = count_failed(base);
  out.new_suspects = new_suspects_of(base, fresh, options.history, out.repeated, in_both);
  for (const auto& [verb, faults] : in_both)
    out.remarks.push_back(fmt::format("{} and {} both {} {}: a fault that both have is no regression", base.name,
                                      fresh.name, verb, fmt::join(faults, ", ")));
  const std::vector<Pair> pairs = pairs_of(matched);
  const RowLabels labels(base, fresh);
  out.skipped_rows = rows_without_pairs(matched.skipped_in_new, pairs, labels);
  if (options.base_counts) out.failed_rows = rows_without_pairs(matched.failed_in_base, pairs, labels);
  for (const Side* side : {&base, &fresh})
    if (std::string why = why_nothing_measured(*side); !why.empty()) out.nothing_measured.push_back(std::move(why));
  const std::vector<BandPairs> rows = make_rows(pairs, labels);
  BandJudge judge(pairs, rows.size(), options.seed);
  for (const BandPairs& row : rows) out.bands.push_back(judge.judge(row));
  adjust(out.bands);
  for (BandRow& row : out.bands) {
    answer(row, rows.size());
    out.screening = out.screening || row.screening;
  }
  out.sizes = map_of(pairs, judge);
  add_selection_shifts(out.sizes, out.differences);
  add_remarks(base, fresh, matched, rows, out);
  std::ranges::stable_sort(out.bands, precedes);
  conclude(out);
  return out;
}

}  // namespace p5::reports
