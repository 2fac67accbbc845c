// Two sides to a Comparison: pair the cases, judge each band on its launches, map the sizes, and say it in a sentence.
#include "reports/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/version.hpp"
#include "reports/compare/band_judge.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/compare/pairing.hpp"

namespace p5::reports {

namespace {

constexpr int most_useful_launches = 200;  // beyond, nobody measures so often

// ---- answers

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * std::abs(share)); }

std::string text_of(const Effect& effect) {
  return fmt::format("{:.1f} % {} ({:+.1f} to {:+.1f} %)", 100 * std::abs(effect.ratio - 1),
                     effect.ratio >= 1 ? "slower" : "faster", 100 * (effect.interval.low - 1),
                     100 * (effect.interval.high - 1));
}

// Launches on each side after which the interval, shrunk as intervals do, lies on one side of what it has to. Null:
// more than anyone takes.
std::optional<int> launches_needed(const BandRow& row, std::size_t rows) {
  const double ratio = std::log(row.time.ratio);
  const double room = std::max(std::log1p(row.threshold.matters) - ratio, ratio - std::log1p(row.threshold.negligible));
  const double width = std::log(row.time.interval.high / row.time.interval.low) / 2;
  const double now = 2.0 / (1.0 / row.base_launches + 1.0 / row.new_launches);
  const double wanted = now * std::pow(width / room, 2);
  if (!(wanted <= most_useful_launches)) return std::nullopt;
  // Where the interval is narrow enough already, the test is not content: half as many again.
  auto launches = static_cast<std::size_t>(std::ceil(std::max(wanted, wanted <= now ? 1.5 * now : now)));
  while (least_p(launches, launches) * static_cast<double>(rows) > chance_of_alarm) ++launches;
  return static_cast<int>(launches);
}

void answer(BandRow& row, std::size_t rows) {
  const Threshold& t = row.threshold;
  const double low = row.time.interval.low - 1, high = row.time.interval.high - 1;
  const std::string seen = text_of(row.time);
  if (high < t.matters) {
    row.answer = Answer::no_regression;
    row.because = fmt::format("{}: less than the {} that matter", seen, percent(t.matters));
  } else if (low > t.negligible && row.time.p_adjusted <= chance_of_alarm) {
    row.answer = Answer::regression;
    row.because = fmt::format("{}: certainly more than {}, p {:.2g} among {} bands", seen, percent(t.negligible),
                              row.time.p_adjusted, rows);
  } else {
    row.answer = Answer::inconclusive;
    row.launches_needed = launches_needed(row, rows);
    row.because = fmt::format(
        "{}, {} matter: {}", seen, percent(t.matters),
        row.launches_needed ? fmt::format("about {} launches a side would tell", *row.launches_needed)
                            : fmt::format("more than {} launches a side would be needed; find out what disturbs it",
                                          most_useful_launches));
  }
  const SpreadRule& spread = thresholds().spread;
  row.spread_rose = row.spread && row.spread->p_adjusted <= chance_of_alarm && row.spread->ratio >= spread.matters &&
                    row.spread->interval.low > spread.negligible && *row.new_spread >= spread.least;
  if (row.spread_rose) {
    row.answer = Answer::regression;
    row.because +=
        fmt::format("; samples within a launch spread {:.1f} times as wide as before ({:.1f} % instead of {:.1f} %)",
                    row.spread->ratio, 100 * *row.new_spread, 100 * *row.base_spread);
  }
}

void adjust(std::vector<BandRow>& rows) {
  std::vector<double> times, spreads;
  for (const BandRow& row : rows) {
    times.push_back(row.time.p);
    if (row.spread) spreads.push_back(row.spread->p);
  }
  const std::vector<double> of_times = holm_adjusted(times), of_spreads = holm_adjusted(spreads);
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].time.p_adjusted = of_times[i];
    if (rows[i].spread) rows[i].spread->p_adjusted = of_spreads[next++];
  }
}

std::string text_of(const std::vector<Selection>& selections) {
  std::vector<std::string> texts;
  for (const Selection& s : selections) {
    // Of an algorithm alone, as some logs tell it.
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
    row.band = band_of(row.measured_case.bytes).name;
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
    const BandRule& band = band_of(row.measured_case.bytes);
    const double least = 1 + matters_at(band, row.base_s) * band.negligible;
    row.marked =
        adjusted[i] <= chance_of_alarm && (row.time.interval.low > least || row.time.interval.high < 1 / least);
  }
  std::ranges::stable_sort(map, {}, [](const SizeRow& row) {
    return std::tuple(label_of(row.measured_case), row.quantity, row.measured_case.bytes);
  });
  return map;
}

// ---- the whole

std::vector<Trouble> troubles_of(const Matched& matched) {
  std::vector<Trouble> troubles;
  for (const auto& [base, fresh] : matched.both)
    if (!fresh->trouble.empty() && base->trouble.empty())
      troubles.push_back({fresh->measured_case, fresh->wrong_data, fresh->trouble});
  return troubles;
}

void add_selection_shifts(const std::vector<SizeRow>& map, std::vector<Difference>& out) {
  std::set<std::string> seen;  // once, not for each quantity
  for (const SizeRow& row : map) {
    if (row.base_selection.empty() || row.new_selection.empty() || row.base_selection == row.new_selection) continue;
    const std::string name = describe(row.measured_case);
    if (seen.insert(name).second) out.push_back({"selection", name, row.base_selection, row.new_selection});
  }
}

std::string provenance_of(const Side& base, const Side& fresh) {
  std::set<std::string> all;
  for (const Side* side : {&base, &fresh})
    for (const Report& report : side->reports) all.insert(report.provenance);
  return all.size() == 1 ? *all.begin() : "mixed";
}

void refuse_other_hardware(const std::vector<Difference>& differences) {
  std::vector<std::string> hardware;
  for (const Difference& each : differences)
    if (each.kind == "hardware") hardware.push_back(fmt::format("{}: {} and {}", each.name, each.base, each.fresh));
  if (!hardware.empty())
    throw UsageError(fmt::format("the hardware is not the same ({}); give --across-hardware to compare all the same",
                                 join(hardware, "; ")));
}

// Before 2026-11-23 pairs used the job's communicator, where NCCL gives all pairs the fewest channels that any of them
// has; reports do not tell their kind.
std::string why_pairs_do_not_match(const Side& base, const Side& fresh) {
  const auto has = [](const Side& side, bool with_kind) {
    return std::ranges::any_of(side.observations, [&](const Observation& each) {
      const Case& c = each.measured_case;
      return c.collective->pairwise && c.pair.empty() != with_kind;
    });
  };
  if (!(has(base, false) && has(fresh, true)) && !(has(base, true) && has(fresh, false))) return "";
  return "p2p is left out: reports before 2026-11-23 measured pairs in the job's communicator, newer ones in "
         "communicators "
         "of their own, so the figures are not comparable";
}

void add_remarks(const Side& base, const Side& fresh, const std::vector<Row>& rows, Comparison& out) {
  if (std::string why = why_pairs_do_not_match(base, fresh); !why.empty()) out.remarks.push_back(std::move(why));
  for (const Side* side : {&base, &fresh})
    for (std::size_t i = 0; i < side->reports.size(); ++i)
      if (side->reports[i].status != "complete")
        out.remarks.push_back(fmt::format("{} is of a run that did not finish", side->sources[i]));
  std::size_t left_out = 0;
  for (const Row& row : rows) left_out += row.pairs.size() - row.judged.size();
  if (left_out > 0)
    out.remarks.push_back(fmt::format(
        "{} sizes were measured in other launches than the rest of their band: they are in the map, not in the answer",
        left_out));
  if (out.screening)
    out.remarks.push_back(
        "Screening: with so few launches how much launches differ is assumed (bench/measure/thresholds.json), not "
        "seen. "
        "Launch "
        "each side 7 times or more (run --launches 7) before money hangs on it");
}

void conclude(Comparison& out) {
  int regressions = 0, open = 0, most_needed = 0;
  bool never = false;
  for (const BandRow& row : out.bands) {
    regressions += row.answer == Answer::regression;
    open += row.answer == Answer::inconclusive;
    if (row.answer == Answer::inconclusive) {
      never = never || !row.launches_needed;
      most_needed = std::max(most_needed, row.launches_needed.value_or(0));
    }
  }
  const auto slower =
      std::ranges::count_if(out.sizes, [](const SizeRow& row) { return row.marked && row.time.ratio > 1; });
  const std::size_t bands = out.bands.size();
  if (regressions > 0) {
    out.answer = Answer::regression;
    out.headline = fmt::format("REGRESSION in {} of {} bands", regressions, bands);
  } else if (open > 0 || bands == 0) {
    out.answer = Answer::inconclusive;
    out.headline = bands == 0
                       ? "INCONCLUSIVE: nothing was measured on both sides"
                       : fmt::format("INCONCLUSIVE in {} of {} bands; {}", open, bands,
                                     never ? "more launches alone would not settle all of them"
                                           : fmt::format("about {} launches a side would settle it", most_needed));
  } else {
    out.answer = Answer::no_regression;
    out.headline = fmt::format("NO REGRESSION in {} {}", bands, bands == 1 ? "band" : "bands");
  }
  if (slower > 0 && regressions == 0)
    out.headline += fmt::format("; {} single {} slower", slower, slower == 1 ? "size is" : "sizes are");
  if (out.screening) out.headline += " (screening: too few launches for a proof)";
  out.exit_code = out.answer == Answer::regression     ? ExitCode::slow
                  : out.answer == Answer::inconclusive ? ExitCode::inconclusive
                                                       : ExitCode::ok;
  for (const Trouble& trouble : out.troubles)
    out.exit_code = worse(out.exit_code, trouble.wrong_data ? ExitCode::wrong_data : ExitCode::unfinished);
  if (!out.troubles.empty())
    out.headline = fmt::format("{} {} wrong or failed that {} fine before; {}", out.troubles.size(),
                               out.troubles.size() == 1 ? "case is" : "cases are",
                               out.troubles.size() == 1 ? "was" : "were", out.headline);
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
  out.differences = differences_of(base, fresh);
  if (!options.across_hardware) refuse_other_hardware(out.differences);
  const Matched matched = match(base, fresh, options.across_hardware);
  out.only_in_base = matched.only_in_base;
  out.only_in_new = matched.only_in_new;
  if (matched.both.empty()) {
    const std::string why = why_pairs_do_not_match(base, fresh);
    throw UsageError(fmt::format("the sides have no case in common: {} has {}, {} has {}, for example{}", base.name,
                                 matched.only_in_base.front(), fresh.name, matched.only_in_new.front(),
                                 why.empty() ? why : "; " + why));
  }
  out.troubles = troubles_of(matched);
  const std::vector<Pair> pairs = pairs_of(matched);
  const std::vector<Row> rows = rows_of(pairs);
  BandJudge judge(pairs, rows.size(), options.seed);
  for (const Row& row : rows) out.bands.push_back(judge.judge(row));
  adjust(out.bands);
  for (BandRow& row : out.bands) {
    answer(row, rows.size());
    out.screening = out.screening || row.screening;
  }
  out.sizes = map_of(pairs, judge);
  add_selection_shifts(out.sizes, out.differences);
  add_remarks(base, fresh, rows, out);
  conclude(out);
  return out;
}

}  // namespace p5::reports
