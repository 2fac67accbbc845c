// Rows of a table from the winners of a search, and their confirmation: the files that jobs will load, alone in fresh
// processes, against the untouched default.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/gain.hpp"
#include "tuner/search.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// Rows for the winners that failed nowhere. A row begins and ends at measured sizes; sizes between two measured ones
// belong to it only where both have its setting.
std::vector<Row> make_rows(const SearchResult& result);

// A size that the search did not measure, within a row.
struct HeldOutSize {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  bool operator==(const HeldOutSize&) const = default;
};
// Sizes for each row: 3 * 2^k bytes, and an odd number of elements near its middle; at most `most`. `element`: bytes.
// `step`: bytes are multiples of it, e.g. ranks * element where a collective divides its message.
std::vector<HeldOutSize> held_out_sizes(const std::vector<Row>& rows, std::uint64_t element, std::uint64_t step,
                                        int most = 3);

// Measurements of one size with the default and with the files.
struct Confirmation {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  BothSides device;        // operations queued beforehand
  BothSides throughput{};  // with the time to launch them, as in an application; empty: not measured
  // Where `device` is until operations and the work beside them are done: of the operations alone; empty: not measured.
  BothSides alone{};
  std::string failure = {};                         // reason where it failed or gave wrong data with the files
  Trial::Outcome outcome = Trial::Outcome::failed;  // of that failure
  std::string standard_failure = {};                // reason where it failed or gave wrong data with the default
  bool held_out = false;                            // the search did not measure it
};

// A size to be confirmed, with the cost of its samples.
struct SamplePlan {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  bool in_row = false;
  double seconds = 0;      // for one sample
  int samples = 0;         // in each process; 0: skipped
  double preparation = 0;  // seconds beforehand in each process
};
// Sets the samples so that all sizes together take `seconds`: `most` for each size, fewer where that is too long, but
// at least 4. Where that is still too long, sizes outside of rows are skipped, the longest first; then sizes in rows,
// which get 3 seconds in any case.
void allocate_samples(std::vector<SamplePlan>& sizes, double seconds, int most);

struct ConfirmedSizePoint {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  std::optional<Setting> setting;  // in the confirmed table; null: the default
  std::optional<Gain> gain;        // null: not measured
  std::optional<Gain> throughput;  // with the time to launch; null: not measured
  std::string verdict;             // one sentence
  std::optional<Gain> alone = {};  // of Confirmation::alone; null: not measured
};

struct Confirmed {
  Table table;                       // the rows that are kept
  std::vector<std::string> dropped;  // one sentence for each dropped row or part of one
  bool undecided = false;            // more processes could keep some of them
};

// Drops the rows that do not hold up in fresh processes, by the same EffectJudge as `compare`
// (bench/measure/effect.hpp).
//
// - A row is dropped where its algorithm and protocol gave wrong data at any size of the table, or where its setting
//   failed at any size.
// - A row is split around sizes at which the files take longer than tolerated; the sizes from there to the next good
//   one are dropped too. If such a size is one that the search did not measure, between two that do not lose, the
//   row is also split wherever no such size was measured between two of the search.
// - The rest of a row must save 2 % of the device's time, and something with 97.5 % certainty.
// - The time to launch is judged separately, because processes differ in it by several per cent at all their sizes: a
//   row is compared with sizes of the same processes that no row covers, and dropped if it loses more than tolerated.
// - All rows are dropped when the files certainly harm the sizes that no row covers.
// - Where the operation was measured alone too, a row is also split at sizes at which it is slower alone by more than
//   `alone_loss`, and dropped unless its loss alone over all its sizes is below that with 97.5 % certainty.
Confirmed confirm(const Table& table, const std::vector<Confirmation>& measured, double alone_loss = 0);

// The gain of each size, and the outcome for the setting that it had in the table `tried`.
std::vector<ConfirmedSizePoint> confirmed_size_points(const Table& tried, const Table& confirmed,
                                                      const std::vector<Confirmation>& measured);

}  // namespace p5::tuner
