#include "tuner/confirm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/units.hpp"

namespace p5::tuner {

namespace {

constexpr double least_saving = 0.02;  // of a row in fresh processes: a gain of 3 % found among many shrinks a little

std::vector<double> together(const std::vector<std::vector<double>>& launches) {
  std::vector<double> all;
  for (const std::vector<double>& launch : launches) all.insert(all.end(), launch.begin(), launch.end());
  return all;
}

// The share saved in each repetition, A with the B that follows it.
std::vector<double> repetitions(const Confirmation& size) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < std::min(size.standard.size(), size.tuned.size()); ++i)
    if (!size.standard[i].empty() && !size.tuned[i].empty())
      shares.push_back(1 - median(size.tuned[i]) / median(size.standard[i]));
  return shares;
}

// Samples of one process do not know what the next process will be like, so the interval reaches over all repetitions.
std::optional<Gain> gain_of(const Confirmation& size) {
  const std::vector<double> standard = together(size.standard), tuned = together(size.tuned);
  if (standard.empty() || tuned.empty()) return std::nullopt;
  Gain gain = tuner::gain_of(standard, tuned);
  for (const double share : repetitions(size)) {
    if (!gain.interval) continue;
    gain.interval->low = std::min(gain.interval->low, share);
    gain.interval->high = std::max(gain.interval->high, share);
  }
  return gain;
}

bool measured(const Confirmation& size) { return !repetitions(size).empty(); }

// In total; and in one repetition by twice as much, since one process may be a little unlucky.
bool loses(const Confirmation& size, const RowRules& rules) {
  const std::vector<double> standard = together(size.standard), tuned = together(size.tuned);
  const double before = median(standard);
  const double tolerated = std::max(rules.tolerated_loss, rules.tolerated_s / before);
  if (median(tuned) > before * (1 + tolerated)) return true;
  return std::ranges::any_of(repetitions(size), [&](double share) { return -share > 2 * tolerated; });
}

std::vector<const Confirmation*> within(const std::vector<Confirmation>& all, const Row& row) {
  std::vector<const Confirmation*> found;
  for (const Confirmation& size : all)
    if (size.function == row.function && row.from <= size.tuner_bytes && size.tuner_bytes <= row.to)
      found.push_back(&size);
  std::ranges::sort(found, {}, &Confirmation::tuner_bytes);
  return found;
}

std::string name_of_row(const Row& row) {
  return fmt::format("{} {} to {} with {}", name_of(row.function), to_text(Bytes{row.from}), to_text(Bytes{row.to}),
                     to_text(row.setting));
}

std::string loss_at(const Confirmation& size) {
  if (!size.failure.empty()) return fmt::format("failed at {}: {}", to_text(Bytes{size.tuner_bytes}), size.failure);
  if (!measured(size)) return fmt::format("was not measured at {}", to_text(Bytes{size.tuner_bytes}));
  const Gain gain = *gain_of(size);
  return fmt::format("lost {:.1f} % at {}", -100 * gain.share, to_text(Bytes{size.tuner_bytes}));
}

// What is left of a row: runs of sizes at which it did not lose, each from its first to its last size.
std::vector<Row> good_parts(const Row& row, const std::vector<Confirmation>& all, const RowRules& rules,
                            std::vector<std::string>& dropped) {
  std::vector<Row> parts;
  bool open = false;
  for (const Confirmation* size : within(all, row)) {
    const bool good = size->failure.empty() && measured(*size) && !loses(*size, rules);
    if (!good) {
      dropped.push_back(fmt::format("{} {}", name_of_row(row), loss_at(*size)));
      open = false;
      continue;
    }
    if (!open) parts.push_back(row), parts.back().from = size->tuner_bytes;
    parts.back().to = size->tuner_bytes;
    open = true;
  }
  return parts;
}

bool saves(const Row& row, const std::vector<Confirmation>& all) {
  std::vector<double> shares;
  int always = 0;
  for (const Confirmation* size : within(all, row)) {
    shares.push_back(gain_of(*size)->share);
    always += std::ranges::all_of(repetitions(*size), [](double share) { return share > 0; }) ? 1 : 0;
  }
  return !shares.empty() && median(shares) >= least_saving && 2 * always >= static_cast<int>(shares.size());
}

// The time of the size nearest the middle, measured with the files.
double microseconds_of(const Row& row, const std::vector<Confirmation>& all) {
  const double middle = (std::log2(static_cast<double>(row.from)) + std::log2(static_cast<double>(row.to))) / 2;
  const Confirmation* nearest = nullptr;
  double distance = 0;
  for (const Confirmation* size : within(all, row)) {
    const double theirs = std::abs(std::log2(static_cast<double>(size->tuner_bytes)) - middle);
    if (nearest && theirs >= distance) continue;
    nearest = size;
    distance = theirs;
  }
  return 1e6 * median(together(nearest->tuned));
}

ConfirmedCell cell_of(const Confirmation& size, const Table& tried, const Table& table, const RowRules& rules) {
  ConfirmedCell cell{size.function, size.tuner_bytes, {}, gain_of(size), {}};
  const Row* row = find_row(table, size.function, size.tuner_bytes);
  if (row) cell.setting = row->setting;
  if (!size.failure.empty()) {
    cell.verdict = fmt::format("failed with the files: {}", size.failure);
  } else if (!measured(size)) {
    cell.verdict = "not measured";
  } else if (const Row* lost = find_row(tried, size.function, size.tuner_bytes); !row && lost) {
    cell.verdict = fmt::format("the default: {} did not hold up", to_text(lost->setting));
  } else if (!row) {
    cell.verdict = loses(size, rules) ? "the default, slower with the files loaded" : "the default";
  } else if (cell.gain->interval && cell.gain->interval->low > 0) {
    cell.verdict = "faster";
  } else {
    cell.verdict = "not slower";
  }
  return cell;
}

// Where the table says nothing the files must change nothing, at least not by more than launches differ among
// themselves: judged over all such sizes, because one alone may be unlucky.
std::optional<std::string> harm_outside(const Table& table, const std::vector<Confirmation>& all,
                                        const RowRules& rules) {
  std::vector<double> shares;
  for (const Confirmation& size : all)
    if (!find_row(table, size.function, size.tuner_bytes) && size.failure.empty() && measured(size)) {
      const double floor = rules.tolerated_s / median(together(size.standard));
      const double share = gain_of(size)->share;
      shares.push_back(share < 0 && -share <= floor ? 0 : share);
    }
  if (shares.empty() || median(shares) >= -2 * rules.tolerated_loss) return std::nullopt;
  return fmt::format(
      "all rows: with the files loaded the sizes that they leave alone take {:.1f} % longer (median of {})",
      -100 * median(shares), shares.size());
}

}  // namespace

Confirmed confirm(const Table& table, const std::vector<Confirmation>& all, const RowRules& rules) {
  Confirmed result;
  result.table = table;
  result.table.rows.clear();
  const auto failed = std::ranges::find_if(all, [&](const Confirmation& size) {
    return !size.failure.empty() && !find_row(table, size.function, size.tuner_bytes);
  });
  std::optional<std::string> refused = harm_outside(table, all, rules);
  if (failed != all.end())
    refused = fmt::format("all rows: {} of {}, which no row names, failed with the files: {}",
                          name_of(failed->function), to_text(Bytes{failed->tuner_bytes}), failed->failure);
  if (refused && !table.rows.empty()) {
    result.dropped.push_back(*refused);
  } else {
    for (const Row& row : table.rows) {
      const std::vector<Row> parts = good_parts(row, all, rules, result.dropped);
      if (within(all, row).empty()) result.dropped.push_back(name_of_row(row) + " was not measured");
      for (Row part : parts) {
        if (saves(part, all)) {
          part.microseconds = microseconds_of(part, all);
          result.table.rows.push_back(part);
        } else {
          result.dropped.push_back(name_of_row(part) + " saved nothing in fresh processes");
        }
      }
    }
  }
  for (const Confirmation& size : all) result.cells.push_back(cell_of(size, table, result.table, rules));
  return result;
}

}  // namespace p5::tuner
