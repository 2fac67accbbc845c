// The last word on a table: the files that would be handed over, alone in fresh processes, against the untouched
// default.
#pragma once

#include <string>
#include <vector>

#include "tuner/gain.hpp"
#include "tuner/rows.hpp"

namespace p5::tuner {

// Default against files at one size.
struct Confirmation {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  BothSides device;        // operations queued beforehand
  BothSides throughput{};  // the same with the time to launch them, as an application has it; empty where not measured
  std::string failure = {};  // with the files it failed or gave wrong data: why. "" if not
};

// A size to be measured, and what it costs.
struct Measuring {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  bool in_row = false;
  double seconds = 0;      // of one sample
  int samples = 0;         // in each process; 0: left out
  double preparation = 0;  // seconds beforehand in each process
};
// How often each size is measured in a process so that all together take `seconds`: `most` times, or less often where
// that is too long, 4 times at least. If that is still too long, sizes outside of rows are left out, the longest first;
// then those in rows, but for these there are 3 seconds in any case.
void share_time(std::vector<Measuring>& sizes, double seconds, int most);

struct ConfirmedSizePoint {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  std::optional<Setting> setting;  // of the final table; null: the default
  std::optional<Gain> gain;        // null when nothing was measured
  std::optional<Gain> throughput;  // the same with the time to launch; null where that was not measured
  std::string verdict;             // one sentence
};

struct Confirmed {
  Table table;                       // what is left of it
  std::vector<std::string> dropped;  // one sentence for each row or part of one
  bool undecided = false;            // more processes could keep some of that
};

// Drops what did not hold up with the files alone in fresh processes, as EffectJudge sees it
// (bench/measure/effect.hpp), which also answers `compare`. A row is split around sizes at which the files take longer
// than tolerated; sizes between there and the next good one go too. What is left of a row must save 2 % of the device's
// time, and something with 97.5 % certainty. What it costs at a launch is judged apart: how fast a host launches is the
// same for all sizes of a process and differs by several per cent from one process to the next, so a row is held
// against the sizes of the same processes that no row names. What takes longer so than tolerated is dropped, and so are
// all rows when the files certainly harm the sizes that they leave alone.
Confirmed confirm(const Table& table, const std::vector<Confirmation>& measured);

// What each size gained, and what became of the setting that it had in the table `tried`.
std::vector<ConfirmedSizePoint> points_of(const Table& tried, const Table& confirmed,
                                          const std::vector<Confirmation>& measured);

}  // namespace p5::tuner
