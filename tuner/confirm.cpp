#include "tuner/confirm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "bench/base/units.hpp"

namespace p5::tuner {

namespace {

constexpr double most_by_chance = 0.1;  // few processes that differ much could excuse any loss
constexpr double least_saving = 0.02;   // of a row in fresh processes: a gain of 3 % found among many shrinks a little
constexpr std::size_t beside_a_row = 4;

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

std::optional<Gain> gain_of(const std::vector<std::vector<double>>& before,
                            const std::vector<std::vector<double>>& after) {
  const std::vector<double> standard = together(before), tuned = together(after);
  if (standard.empty() || tuned.empty()) return std::nullopt;
  return tuner::gain_of(standard, tuned);
}

// Samples of one process do not know what the next process will be like, so the interval reaches over all repetitions.
std::optional<Gain> gain_of(const Confirmation& size) {
  std::optional<Gain> found = gain_of(size.standard, size.tuned);
  if (!found) return found;
  Gain& gain = *found;
  for (const double share : repetitions(size)) {
    if (!gain.interval) continue;
    gain.interval->low = std::min(gain.interval->low, share);
    gain.interval->high = std::max(gain.interval->high, share);
  }
  return found;
}

bool measured(const Confirmation& size) { return !repetitions(size).empty(); }

double log_distance(double a, double b) { return std::abs(std::log2(a) - std::log2(b)); }

// How much a median of the default differs from one fresh process to the next, relative, as a standard deviation: over
// the sizes of the function nearest to `bytes`, inside rows or not. What all sizes of a process have in common counts
// too, so differences are taken from 0. Null where there was one process only.
std::optional<double> launch_noise(const std::vector<Confirmation>& all, Function function, double bytes) {
  constexpr std::size_t neighbours = 10;
  std::vector<const Confirmation*> sizes;
  for (const Confirmation& size : all)
    if (size.function == function && size.tuner_bytes > 0) sizes.push_back(&size);
  std::ranges::stable_sort(
      sizes, {}, [&](const Confirmation* size) { return log_distance(static_cast<double>(size->tuner_bytes), bytes); });
  sizes.resize(std::min(sizes.size(), neighbours));
  std::vector<double> differences;
  for (const Confirmation* size : sizes)
    for (std::size_t i = 0; i + 1 < size->standard.size(); ++i) {
      const auto &one = size->standard[i], &next = size->standard[i + 1];
      if (!one.empty() && !next.empty()) differences.push_back(std::abs(std::log(median(next) / median(one))));
    }
  if (differences.empty()) return std::nullopt;
  return deviation_of_median_distance * median(differences) / std::sqrt(2);
}

// What the mean of `sizes` sizes may differ by for no reason but launches: 3.5 standard errors of a difference
// between processes, repeated as often as it was.
double by_chance(double noise, std::size_t repeated, std::size_t sizes) {
  return 3.5 * noise * std::sqrt(2.0 / static_cast<double>(std::max<std::size_t>(1, repeated))) /
         std::sqrt(static_cast<double>(std::max<std::size_t>(1, sizes)));
}

// In total; and in one repetition by twice as much, or by what a pair of processes differs by for no reason, since one
// process may be unlucky.
bool loses(const Confirmation& size, double noise) {
  const std::vector<double> standard = together(size.standard), tuned = together(size.tuned);
  const double before = median(standard);
  const double allowed = tolerated(before);
  if (median(tuned) > before * (1 + allowed)) return true;
  const double unlucky = std::max(2 * allowed, std::min(most_by_chance, by_chance(noise, 1, 1)));
  return std::ranges::any_of(repetitions(size), [&](double share) { return -share > unlucky; });
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
  const std::vector<double> shares = repetitions(size);
  const double worst = *std::ranges::min_element(shares), all = gain_of(size)->share;
  if (all >= 0)
    return fmt::format("lost {:.1f} % at {} in one process, though {:.1f} % faster in all", -100 * worst,
                       to_text(Bytes{size.tuner_bytes}), 100 * all);
  return fmt::format("lost {:.1f} % at {}", -100 * all, to_text(Bytes{size.tuner_bytes}));
}

// What is left of a row: runs of sizes at which it did not lose, each from its first to its last size.
std::vector<Row> good_parts(const Row& row, const std::vector<Confirmation>& all, Confirmed& result) {
  std::vector<Row> parts;
  bool open = false;
  for (const Confirmation* size : within(all, row)) {
    const bool complete = size->failure.empty() && measured(*size);
    const double noise = launch_noise(all, size->function, static_cast<double>(size->tuner_bytes)).value_or(0);
    if (!complete || loses(*size, noise)) {
      result.dropped.push_back(fmt::format("{} {}", name_of_row(row), loss_at(*size)));
      // What one process lost stays lost, however many follow.
      const double lost = complete ? -gain_of(*size)->share : 0;
      if (lost > 0 && lost < by_chance(noise, repetitions(*size).size(), 1)) result.undecided = true;
      open = false;
      continue;
    }
    if (!open) parts.push_back(row), parts.back().from = size->tuner_bytes;
    parts.back().to = size->tuner_bytes;
    open = true;
  }
  return parts;
}

double middle_of(const Row& row) { return std::sqrt(static_cast<double>(row.from) * static_cast<double>(row.to)); }

// Of few repetitions all, of many four fifths.
bool saves_again_and_again(const Confirmation& size) {
  const std::vector<double> shares = repetitions(size);
  const auto not_saved = std::ranges::count_if(shares, [](double share) { return share <= 0; });
  return not_saved <= static_cast<std::ptrdiff_t>(shares.size() / 5);
}

// Why the row is not kept, "" if it is.
std::string objection(const Row& row, const std::vector<Confirmation>& all, Confirmed& result) {
  std::vector<double> shares;
  std::size_t steady = 0, repeated = 0;
  for (const Confirmation* size : within(all, row)) {
    shares.push_back(gain_of(*size)->share);
    repeated = repetitions(*size).size();
    steady += saves_again_and_again(*size) ? 1 : 0;
  }
  const std::optional<double> noise = launch_noise(all, row.function, middle_of(row));
  if (!noise) return "was compared with a single process of the default";
  const double saved = median(shares), needed = by_chance(*noise, repeated, shares.size());
  if (saved < least_saving || 2 * steady < shares.size())
    return fmt::format("saved nothing in fresh processes ({:.1f} %)", 100 * saved);
  if (saved >= needed) return "";
  result.undecided = true;
  return fmt::format("saved {:.1f} % in fresh processes, which differ by up to {:.1f} % among themselves", 100 * saved,
                     100 * needed);
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

ConfirmedCell cell_of(const Confirmation& size, const Table& tried, const Table& table) {
  ConfirmedCell cell{
      size.function, size.tuner_bytes, {}, gain_of(size), gain_of(size.launched_standard, size.launched_tuned), {}};
  const Row* row = find_row(table, size.function, size.tuner_bytes);
  if (row) cell.setting = row->setting;
  if (!size.failure.empty()) {
    cell.verdict = fmt::format("failed with the files: {}", size.failure);
  } else if (!measured(size)) {
    cell.verdict = "not measured";
  } else if (const Row* lost = find_row(tried, size.function, size.tuner_bytes); !row && lost) {
    cell.verdict = fmt::format("the default: {} did not hold up", to_text(lost->setting));
  } else if (!row) {
    cell.verdict = "the default: the files leave it alone";  // harm is judged over all such sizes together
  } else if (cell.gain->interval && cell.gain->interval->low > 0) {
    cell.verdict = "faster";
  } else {
    cell.verdict = "not slower";
  }
  return cell;
}

// The same sizes with the time that launching takes, where that was measured.
std::vector<Confirmation> launched(std::vector<Confirmation> all) {
  for (Confirmation& size : all) {
    if (size.launched_standard.empty() || size.launched_tuned.empty()) continue;
    size.standard = size.launched_standard;
    size.tuned = size.launched_tuned;
  }
  return all;
}

// A loss within a host's noise is none.
double share_saved(const Confirmation& size) {
  const double share = gain_of(size)->share;
  return share < 0 && -share <= tolerated_loss_s / median(together(size.standard)) ? 0 : share;
}

using Processes = std::vector<std::vector<double>> Confirmation::*;

// The mean over the sizes of the log of a size's median, for each process.
std::vector<double> levels_of(const std::vector<const Confirmation*>& sizes, Processes processes, std::size_t count) {
  std::vector<double> levels(count, 0);
  for (const Confirmation* size : sizes)
    for (std::size_t i = 0; i < count; ++i)
      levels[i] += std::log(median((size->*processes)[i])) / static_cast<double>(sizes.size());
  return levels;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares_about_mean(const std::vector<double>& values) {
  const double mean = mean_of(values);
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
}

// Student's t that is exceeded once in 200 times, for 2 (n - 1) degrees of freedom; from any table of it.
double student(std::size_t n) {
  constexpr std::array quantiles{9.925, 4.604, 3.707, 3.355, 3.169, 3.055, 2.977};
  return quantiles[std::min(n - 2, quantiles.size() - 1)];
}

struct Harm {
  double longer = 0;
  bool by_chance = false;  // processes differ enough among themselves to explain it; more of them would tell
};

// By how much longer the sizes take with the files, beyond what processes differ by among themselves (a tenth at most).
// How fast a host launches is the same for all sizes of a process and differs by several per cent from one to the next,
// so processes are compared, each as the mean over the sizes. Null where they do not, or where one process cannot tell.
template <class Counts>
std::optional<Harm> harm(const std::vector<Confirmation>& all, const Counts& counts) {
  std::vector<const Confirmation*> sizes;
  std::size_t processes = 0;
  const auto complete = [](const Confirmation& size) { return repetitions(size).size(); };
  for (const Confirmation& size : all)
    if (counts(size) && size.failure.empty()) processes = std::max(processes, complete(size));
  std::vector<double> shares;
  for (const Confirmation& size : all) {
    if (!counts(size) || !size.failure.empty() || complete(size) < processes) continue;
    shares.push_back(share_saved(size));
    sizes.push_back(&size);
  }
  if (sizes.empty() || processes < 2) return std::nullopt;
  const std::vector<double> before = levels_of(sizes, &Confirmation::standard, processes);
  const std::vector<double> after = levels_of(sizes, &Confirmation::tuned, processes);
  const double n = static_cast<double>(processes);
  const double variance = (squares_about_mean(before) + squares_about_mean(after)) / (2 * (n - 1));
  const double chance = student(processes) * std::sqrt(2 * variance / n);
  const double longer = -median(shares), difference = mean_of(after) - mean_of(before);
  if (longer <= 2 * tolerated_loss || difference <= std::min(most_by_chance, chance)) return std::nullopt;
  return Harm{longer, difference <= chance};
}

// By how much longer a row's sizes take with their launches, against the sizes nearest to it that no row names: what
// the processes with the files differ by from those without in both is not the row's doing. 0 where the row gains.
double longer_than_beside(const std::vector<Confirmation>& with_launches, const Table& table, const Row& row) {
  std::vector<double> inside, outside;
  std::vector<const Confirmation*> beside;
  for (const Confirmation* size : within(with_launches, row))
    if (size->failure.empty() && measured(*size)) inside.push_back(share_saved(*size));
  for (const Confirmation& size : with_launches)
    if (size.function == row.function && size.failure.empty() && measured(size) &&
        !find_row(table, size.function, size.tuner_bytes))
      beside.push_back(&size);
  std::ranges::stable_sort(beside, {}, [&](const Confirmation* size) {
    return log_distance(static_cast<double>(size->tuner_bytes), middle_of(row));
  });
  beside.resize(std::min(beside.size(), beside_a_row));
  for (const Confirmation* size : beside) outside.push_back(gain_of(*size)->share);
  if (inside.empty() || outside.empty() || median(inside) >= 0) return 0;
  return median(outside) - median(inside);
}

}  // namespace

void share_time(std::vector<Measuring>& sizes, double seconds, int most) {
  constexpr int least = 4;
  constexpr double for_rows = 3;
  const auto total = [&] {
    double sum = 0;
    for (const Measuring& size : sizes)
      if (size.samples > 0) sum += size.preparation + size.samples * size.seconds;
    return sum;
  };
  std::vector<Measuring*> longest_first;
  for (Measuring& size : sizes) {
    size.samples = most;
    longest_first.push_back(&size);
  }
  std::ranges::stable_sort(longest_first, std::greater<>(), [](const Measuring* size) { return size->seconds; });
  for (Measuring* size : longest_first) {
    const double over = total() - seconds;
    if (over <= 0) return;
    const double fewer = std::ceil(over / std::max(size->seconds, 1e-9));
    size->samples = fewer >= most - least ? std::min(least, most) : most - static_cast<int>(fewer);
  }
  for (Measuring* size : longest_first)
    if (total() > seconds && !size->in_row) size->samples = 0;
  for (Measuring* size : longest_first)
    if (total() > std::max(seconds, for_rows)) size->samples = 0;
}

Confirmed confirm(const Table& table, const std::vector<Confirmation>& all) {
  Confirmed result;
  result.table = table;
  result.table.rows.clear();
  const auto failed = std::ranges::find_if(all, [&](const Confirmation& size) {
    return !size.failure.empty() && !find_row(table, size.function, size.tuner_bytes);
  });
  const std::vector<Confirmation> with_launches = launched(all);
  std::optional<std::string> refused;
  if (const auto harmed = harm(
          with_launches, [&](const Confirmation& size) { return !find_row(table, size.function, size.tuner_bytes); })) {
    refused = fmt::format("all rows: with the files loaded the sizes that they leave alone take {:.1f} % longer",
                          100 * harmed->longer);
    result.undecided = harmed->by_chance;
  }
  if (failed != all.end())
    refused = fmt::format("all rows: {} of {}, which no row names, failed with the files: {}",
                          name_of(failed->function), to_text(Bytes{failed->tuner_bytes}), failed->failure);
  if (refused && !table.rows.empty()) {
    result.dropped.push_back(*refused);
  } else {
    for (const Row& row : table.rows) {
      const std::vector<Row> parts = good_parts(row, all, result);
      if (within(all, row).empty()) result.dropped.push_back(name_of_row(row) + " was not measured");
      for (Row part : parts) {
        if (const std::string why = objection(part, all, result); !why.empty()) {
          result.dropped.push_back(name_of_row(part) + " " + why);
          continue;
        }
        if (const auto harmed = harm(with_launches, [&](const Confirmation& size) {
              return size.function == part.function && part.from <= size.tuner_bytes && size.tuner_bytes <= part.to;
            })) {
          result.undecided = result.undecided || harmed->by_chance;
          result.dropped.push_back(fmt::format("{} takes {:.1f} % longer with the time to launch it", name_of_row(part),
                                               100 * harmed->longer));
          continue;
        }
        if (const double longer = longer_than_beside(with_launches, table, part); longer > 2 * tolerated_loss) {
          result.undecided = true;
          result.dropped.push_back(
              fmt::format("{} takes {:.1f} % longer with the time to launch it, held against the sizes beside it",
                          name_of_row(part), 100 * longer));
          continue;
        }
        part.microseconds = microseconds_of(part, all);
        result.table.rows.push_back(part);
      }
    }
  }
  for (const Confirmation& size : all) {
    result.cells.push_back(cell_of(size, table, result.table));
    result.processes = std::max(result.processes, static_cast<int>(size.tuned.size()));
  }
  return result;
}

}  // namespace p5::tuner
