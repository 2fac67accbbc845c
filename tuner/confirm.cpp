#include "tuner/confirm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"

namespace p5::tuner {

namespace {

// ---- rows

bool failed(const SearchResult& result, const Setting& setting) {
  return std::ranges::any_of(result.failures, [&](const Failure& failure) { return excludes(failure, setting); });
}

std::uint64_t power_of_two_below(std::uint64_t bytes) {
  std::uint64_t power = 1;
  while (power <= bytes / 2) power *= 2;
  return power;
}

}  // namespace

std::vector<Row> make_rows(const SearchResult& result) {
  std::map<Function, std::vector<const Record*>> collectives;
  for (const Record& record : result.records)
    if (const std::optional<Function> function = parse_function(record.point.collective))
      collectives[*function].push_back(&record);
  std::vector<Row> rows;
  for (auto& [function, records] : collectives) {
    std::ranges::sort(records, {}, [](const Record* record) { return record->point.bytes; });
    for (std::size_t from = 0, to = 0; from < records.size(); from = to) {
      const std::optional<Setting>& winner = records[from]->winner;
      while (to < records.size() && records[to]->winner == winner) ++to;
      if (!winner || failed(result, *winner)) continue;
      rows.push_back({.function = function,
                      .from = records[from]->point.bytes,
                      .to = records[to - 1]->point.bytes,
                      .setting = *winner,
                      .microseconds = 1e6 * median(samples_of(*records[(from + to - 1) / 2], {winner}))});
    }
  }
  return rows;
}

std::vector<HeldOutSize> held_out_sizes(const std::vector<Row>& rows, std::uint64_t element, std::uint64_t step,
                                        int most) {
  std::vector<HeldOutSize> sizes;
  const auto add = [&](const Row& row, std::uint64_t bytes) {
    bytes = (bytes + step - 1) / step * step;
    const HeldOutSize size{row.function, bytes};
    const bool inside = row.from < bytes && bytes < row.to;
    if (inside && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  for (const Row& row : rows) {
    std::vector<std::uint64_t> between;
    for (std::uint64_t power = power_of_two_below(row.from); power < row.to && power > 0; power *= 2)
      if (const std::uint64_t bytes = power + power / 2; row.from < bytes && bytes < row.to) between.push_back(bytes);
    // Evenly spaced sizes, with the first and the last.
    const std::size_t wanted = std::min(between.size(), static_cast<std::size_t>(std::max(most - 1, 1)));
    for (std::size_t i = 0; i < wanted; ++i)
      add(row, between[wanted == 1 ? between.size() / 2 : i * (between.size() - 1) / (wanted - 1)]);
    const auto middle =
        static_cast<std::uint64_t>(std::sqrt(static_cast<double>(row.from) * static_cast<double>(row.to)));
    add(row, (middle / step | 1) * std::max(step, element));
  }
  return sizes;
}

// ---- confirmation

namespace {

constexpr double least_saving = 0.02;        // lower than least_gain, because the gain of the best of many shrinks
constexpr double false_setting_rate = 0.01;  // probability of any row where no setting is faster
constexpr double false_harm_rate = 0.002;    // probability that slow launches of processes drop all rows
constexpr std::size_t most_controls = 4, most_neighbours = 10;
constexpr std::uint64_t bootstrap_seed = 1;

using Sizes = std::vector<const Confirmation*>;

std::size_t launches_of(const BothSides& both) { return std::min(both.standard.size(), both.tuned.size()); }

double log_middle(const Row& row) {
  return (std::log2(static_cast<double>(row.from)) + std::log2(static_cast<double>(row.to))) / 2;
}

double distance(const Confirmation& size, double log_bytes) {
  return std::abs(std::log2(static_cast<double>(size.bytes)) - log_bytes);
}

std::string name_of_row(const Row& row) {
  return fmt::format("{} {} to {} with {}", name_of(row.function), to_text(Bytes{row.from}), to_text(Bytes{row.to}),
                     to_text(row.setting));
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Launches divided by the geometric mean of the controls in the same process, so that slow launches of a process cancel
// out. Unchanged where there are no controls.
std::vector<Launch> relative_to(const Sizes& controls, std::vector<Launch> launches,
                                std::vector<Launch> BothSides::*side) {
  for (std::size_t i = 0; i < launches.size(); ++i) {
    double log = 0;
    for (const Confirmation* control : controls)
      log += std::log((control->throughput.*side)[i].median_s) / static_cast<double>(controls.size());
    launches[i].median_s *= std::exp(-log);
  }
  return launches;
}

std::vector<Sides> sides_of(const std::vector<BothSides>& sizes) {
  std::vector<Sides> sides;
  for (const BothSides& size : sizes) sides.push_back(size.sides());
  return sides;
}

// Spread between launches of one size as a standard deviation, from the differences of consecutive launches.
double spread_of(const std::vector<BothSides>& sizes) {
  std::vector<double> differences;
  for (const BothSides& size : sizes)
    for (const std::vector<Launch>* launches : {&size.standard, &size.tuned})
      for (std::size_t i = 0; i + 1 < launches->size(); ++i)
        differences.push_back(std::abs(std::log((*launches)[i + 1].median_s / (*launches)[i].median_s)));
  return differences.empty() ? 0 : standard_deviation_per_mad * median(differences) / std::sqrt(2);
}

// The spread of launches over the nearest sizes of the function, inside and outside of rows. `times` returns the times
// of a size, empty where it was not measured.
template <class Times>
double spread_near(const std::vector<Confirmation>& all, Function function, double log_bytes, const Times& times) {
  Sizes sizes;
  for (const Confirmation& size : all)
    if (size.function == function && times(size).measured()) sizes.push_back(&size);
  std::ranges::stable_sort(sizes, {}, [&](const Confirmation* size) { return distance(*size, log_bytes); });
  sizes.resize(std::min(sizes.size(), most_neighbours));
  std::vector<BothSides> found;
  for (const Confirmation* size : sizes) found.push_back(times(*size));
  return spread_of(found);
}

class Confirmer {
 public:
  Confirmer(const Table& table, const std::vector<Confirmation>& all, double alone_loss)
      : table_(table),
        all_(all),
        alone_loss_(alone_loss),
        rows_(std::max(1.0, static_cast<double>(table.rows.size()))),
        judge_(table.rows.size(), bootstrap_seed, false_setting_rate) {
    for (const Confirmation& size : all) launches_ = std::max(launches_, launches_of(size.device));
  }

  Confirmed run() {
    result_.table = table_;
    result_.table.rows.clear();
    if (const std::string why = harm_outside_rows(); !why.empty() && !table_.rows.empty()) {
      result_.dropped.push_back("all rows: " + why);
      return std::move(result_);
    }
    for (const Row& row : table_.rows) {
      if (const std::string why = failure_of(row.setting); !why.empty()) {
        result_.dropped.push_back(name_of_row(row) + " " + why);
        continue;
      }
      for (Row& part : split_at_losses(row)) {
        if (const std::string why = reason_to_drop(part); !why.empty())
          result_.dropped.push_back(name_of_row(part) + " " + why);
        else
          result_.table.rows.push_back(part);
      }
    }
    return std::move(result_);
  }

 private:
  bool in_a_row(const Confirmation& size) const { return find_row(table_, size.function, size.bytes) != nullptr; }

  // The reason for which no row may have the setting; "" where it, and what it excludes, failed nowhere.
  std::string failure_of(const Setting& setting) const {
    for (const Confirmation& size : all_) {
      const Row* const row = find_row(table_, size.function, size.bytes);
      if (size.failure.empty() || !row || !excludes(row->setting, size.outcome, setting)) continue;
      const std::string at = fmt::format("{} of {}", name_of(size.function), to_text(Bytes{size.bytes}));
      if (size.outcome != Trial::Outcome::wrong_data) return fmt::format("failed at {}: {}", at, size.failure);
      return fmt::format("is not safe: {} gave wrong data at {}: {}", to_text(row->setting), at, size.failure);
    }
    return "";
  }

  bool complete(const Confirmation& size) const {
    return size.failure.empty() && size.standard_failure.empty() && launches_ > 0 &&
           launches_of(size.device) == launches_;
  }
  bool complete_in_throughput(const Confirmation& size) const {
    return complete(size) && launches_of(size.throughput) == launches_;
  }
  bool complete_alone(const Confirmation& size) const { return complete(size) && launches_of(size.alone) == launches_; }

  Sizes within(const Row& row) const {
    Sizes found;
    for (const Confirmation& size : all_)
      if (size.function == row.function && row.from <= size.bytes && size.bytes <= row.to) found.push_back(&size);
    std::ranges::sort(found, {}, &Confirmation::bytes);
    return found;
  }

  // The effect over all sizes of a row, with `times` as in spread_near; null where none was measured.
  template <class Times>
  std::optional<Effect> effect(const Row& row, const Times& times) {
    std::vector<BothSides> measured;
    for (const Confirmation* size : within(row))
      if (BothSides both = times(*size); both.measured()) measured.push_back(std::move(both));
    if (measured.empty()) return std::nullopt;
    const double spread =
        spread_near(all_, row.function, log_middle(row), times) / std::sqrt(static_cast<double>(measured.size()));
    return judge_.judge(sides_of(measured), spread).overall;
  }

  // Describes certain harm to the sizes that no row covers; "" where there is none.
  std::string harm_outside_rows() {
    std::vector<BothSides> device, throughput;
    for (const Confirmation& size : all_) {
      if (in_a_row(size)) continue;
      if (!size.failure.empty())
        return fmt::format("{} of {}, which no row names, failed with the files: {}", name_of(size.function),
                           to_text(Bytes{size.bytes}), size.failure);
      if (complete(size)) device.push_back(size.device);
      if (complete_in_throughput(size)) throughput.push_back(size.throughput);
    }
    for (const std::vector<BothSides>* sizes : {&device, &throughput}) {
      if (sizes->empty()) continue;
      // A slow process is slow at all sizes, so the spread between processes does not shrink with their number.
      const double spread = std::max(spread_of(*sizes), thresholds().bands.front().launch_spread);
      const std::vector<Sides> sides = sides_of(*sizes);
      const Effect found = judge_.judge(sides, spread).overall;
      if (found.ratio <= 1 + 2 * tolerated_loss || found.p > false_harm_rate) continue;
      // Some processes launch a third faster than others, so only the order of launches is tested.
      if (sizes == &throughput && judge_.slower_p(sides) > false_harm_rate) {
        result_.undecided = true;
        continue;
      }
      return fmt::format("with the files loaded the sizes that they leave alone take {} longer",
                         percent(found.ratio - 1));
    }
    return "";
  }

  // The reason for which the row is split at this size; "": none.
  std::string loss_at(const Confirmation& size) {
    const std::string at = to_text(Bytes{size.bytes});
    if (!size.standard_failure.empty())
      return fmt::format("was not compared at {}, where the default failed: {}", at, size.standard_failure);
    if (!complete(size)) return fmt::format("was not measured at {}", at);
    const double longer = std::expm1(log_ratio(size.device.sides()));
    if (longer > tolerated(median_of(size.device.standard))) return fmt::format("lost {} at {}", percent(longer), at);
    if (!complete_alone(size)) return "";
    const double longer_alone = std::expm1(log_ratio(size.alone.sides()));
    if (longer_alone <= alone_loss_) return "";
    const Row only{.function = size.function, .from = size.bytes, .to = size.bytes, .setting = {}};
    if (const std::optional<Effect> found = effect_alone(only); found && found->interval.low <= 1 + alone_loss_)
      result_.undecided = true;
    return fmt::format("is {} slower alone at {}, and {} are allowed", percent(longer_alone), at, percent(alone_loss_));
  }

  // Splits a row into runs of sizes at which it did not lose, each from its first to its last size.
  std::vector<Row> split_at_losses(const Row& row) {
    std::vector<Row> parts;
    bool open = false;
    const Sizes sizes = within(row);
    if (sizes.empty()) result_.dropped.push_back(name_of_row(row) + " was not measured");
    std::vector<std::string> losses;
    for (const Confirmation* size : sizes) losses.push_back(loss_at(*size));
    const bool differs = differs_between(sizes, losses);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!losses[i].empty()) {
        result_.dropped.push_back(name_of_row(row) + " " + losses[i]);
        open = false;
        continue;
      }
      if (open && differs && !sizes[i - 1]->held_out && !sizes[i]->held_out) open = false;
      if (!open) parts.push_back(row), parts.back().from = sizes[i]->bytes;
      parts.back().to = sizes[i]->bytes;
      open = true;
    }
    return parts;
  }

  // True if a row lost at a size that the search did not measure, between two of the search at which it did not: what
  // was measured then tells nothing about other sizes between.
  static bool differs_between(const Sizes& sizes, const std::vector<std::string>& losses) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!sizes[i]->held_out || losses[i].empty()) continue;
      std::size_t before = i, after = i;
      while (before > 0 && sizes[before]->held_out) --before;
      while (after + 1 < sizes.size() && sizes[after]->held_out) ++after;
      if (losses[before].empty() && losses[after].empty()) return true;
    }
    return false;
  }

  // The reason for which the row is dropped. "": it is kept, and gets the time of the size nearest to its middle.
  std::string reason_to_drop(Row& row) {
    const Sizes sizes = within(row);
    // The ratio is default / files: above 1 the files are faster.
    const Effect found = *effect(row, [&](const Confirmation& size) {
      return complete(size) ? BothSides{size.device.tuned, size.device.standard} : BothSides{};
    });
    const auto saved = [](double ratio) { return 1 - 1 / ratio; };
    if (saved(found.ratio) < least_saving || found.p > false_setting_rate / rows_) {
      if (saved(found.interval.high) >= least_saving) result_.undecided = true;
      return fmt::format("saved {} in fresh processes ({:.1f} to {:.1f} %): too little, or chance",
                         percent(saved(found.ratio)), 100 * saved(found.interval.low),
                         100 * saved(found.interval.high));
    }
    if (const std::string why = loss_of_throughput(row); !why.empty()) return why;
    if (const std::string why = loss_alone(row); !why.empty()) return why;
    const Confirmation& nearest = **std::ranges::min_element(
        sizes, {}, [&](const Confirmation* size) { return distance(*size, log_middle(row)); });
    row.microseconds = 1e6 * median_of(nearest.device.tuned);
    return "";
  }

  std::string loss_of_throughput(const Row& row) {
    const Sizes controls = controls_of(row);
    const std::optional<Effect> found = effect(row, [&](const Confirmation& size) -> BothSides {
      if (!complete_in_throughput(size)) return {};
      return {relative_to(controls, size.throughput.standard, &BothSides::standard),
              relative_to(controls, size.throughput.tuned, &BothSides::tuned)};
    });
    if (!found || found->ratio <= 1 + 2 * tolerated_loss) return "";
    if (found->interval.low <= 1) result_.undecided = true;
    return fmt::format("takes {} longer with the time to launch it", percent(found->ratio - 1));
  }

  std::optional<Effect> effect_alone(const Row& row) {
    return effect(row, [&](const Confirmation& size) { return complete_alone(size) ? size.alone : BothSides{}; });
  }

  std::string loss_alone(const Row& row) {
    const std::optional<Effect> found = effect_alone(row);
    if (!found || found->interval.high <= 1 + alone_loss_) return "";
    if (found->interval.low <= 1 + alone_loss_) result_.undecided = true;
    return fmt::format("is {:.1f} to {:.1f} % slower alone in fresh processes, and {} are allowed",
                       100 * (found->interval.low - 1), 100 * (found->interval.high - 1), percent(alone_loss_));
  }

  // The nearest sizes that no row covers.
  Sizes controls_of(const Row& row) const {
    Sizes controls;
    for (const Confirmation& size : all_)
      if (size.function == row.function && !in_a_row(size) && complete_in_throughput(size)) controls.push_back(&size);
    std::ranges::stable_sort(controls, {}, [&](const Confirmation* size) { return distance(*size, log_middle(row)); });
    controls.resize(std::min(controls.size(), most_controls));
    return controls;
  }

  const Table& table_;
  const std::vector<Confirmation>& all_;
  double alone_loss_;
  double rows_;
  EffectJudge judge_;
  std::size_t launches_ = 0;
  Confirmed result_;
};

std::optional<Gain> gain_at(const std::vector<Confirmation>& all, const Confirmation& size,
                            BothSides Confirmation::*which) {
  if (!(size.*which).measured()) return std::nullopt;
  const auto times = [&](const Confirmation& each) { return each.*which; };
  return gain_of(size.*which, spread_near(all, size.function, std::log2(static_cast<double>(size.bytes)), times));
}

}  // namespace

void allocate_samples(std::vector<SamplePlan>& sizes, double seconds, int most) {
  constexpr int least = 4;
  constexpr double for_rows = 3;
  const auto total = [&] {
    double sum = 0;
    for (const SamplePlan& size : sizes)
      if (size.samples > 0) sum += size.preparation + size.samples * size.seconds;
    return sum;
  };
  std::vector<SamplePlan*> longest_first;
  for (SamplePlan& size : sizes) {
    size.samples = most;
    longest_first.push_back(&size);
  }
  std::ranges::stable_sort(longest_first, std::greater<>(), [](const SamplePlan* size) { return size->seconds; });
  for (SamplePlan* size : longest_first) {
    const double over = total() - seconds;
    if (over <= 0) return;
    const double fewer = std::ceil(over / std::max(size->seconds, 1e-9));
    size->samples = fewer >= most - least ? std::min(least, most) : most - static_cast<int>(fewer);
  }
  for (SamplePlan* size : longest_first)
    if (total() > seconds && !size->in_row) size->samples = 0;
  for (SamplePlan* size : longest_first)
    if (total() > std::max(seconds, for_rows)) size->samples = 0;
}

Confirmed confirm(const Table& table, const std::vector<Confirmation>& measured, double alone_loss) {
  return Confirmer(table, measured, alone_loss).run();
}

std::vector<ConfirmedSizePoint> confirmed_size_points(const Table& tried, const Table& confirmed,
                                                      const std::vector<Confirmation>& measured) {
  std::vector<ConfirmedSizePoint> size_points;
  for (const Confirmation& size : measured) {
    ConfirmedSizePoint& point = size_points.emplace_back(
        size.function, size.bytes, std::nullopt, gain_at(measured, size, &Confirmation::device),
        gain_at(measured, size, &Confirmation::throughput), "", gain_at(measured, size, &Confirmation::alone));
    const Row* const row = find_row(confirmed, size.function, size.bytes);
    const Row* const lost = find_row(tried, size.function, size.bytes);
    if (row) point.setting = row->setting;
    if (!size.failure.empty())
      point.verdict = fmt::format("failed with the files: {}", size.failure);
    else if (!size.standard_failure.empty())
      point.verdict = fmt::format("failed with the default: {}", size.standard_failure);
    else if (!point.gain)
      point.verdict = "not measured";
    else if (!row && lost)
      point.verdict = fmt::format("the default: {} did not hold up", to_text(lost->setting));
    else if (!row)
      point.verdict = "the default: the files leave it alone";  // harm is judged over all such sizes together
    else
      point.verdict = point.gain->interval.low > 0 ? "faster" : "not slower";
  }
  return size_points;
}

}  // namespace p5::tuner
