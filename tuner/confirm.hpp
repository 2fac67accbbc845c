// The last word on a table: the files that would be handed over, alone in fresh processes, against the untouched
// default.
#pragma once

#include <string>
#include <vector>

#include "tuner/rows.hpp"

namespace p5::tuner {

// Default against files at one size: one list of samples for each process that measured it, in the order A B A B.
struct Confirmation {
  Function function = Function::all_reduce;
  std::uint64_t tuner_bytes = 0;
  std::vector<std::vector<double>> standard, tuned;  // seconds, of the device: operations queued beforehand
  std::string failure;                               // with the files it failed or gave wrong data: why. "" if not
  // The same with the time to launch them, as an application has it; empty where not measured.
  std::vector<std::vector<double>> launched_standard = {}, launched_tuned = {};
};

// A size to be measured, and what it costs.
struct Measuring {
  Function function = Function::all_reduce;
  std::uint64_t tuner_bytes = 0;
  bool in_row = false;
  double seconds = 0;      // of one sample
  int samples = 0;         // in each process; 0: left out
  double preparation = 0;  // seconds beforehand in each process
};
// How often each size is measured in a process so that all together take `seconds`: `most` times, or less often where
// that is too long, 4 times at least. If that is still too long, sizes outside of rows are left out, the longest first;
// then those in rows, but for these there are 3 seconds in any case.
void share_time(std::vector<Measuring>& sizes, double seconds, int most);

struct ConfirmedCell {
  Function function = Function::all_reduce;
  std::uint64_t tuner_bytes = 0;
  std::optional<Setting> setting;  // of the final table; null: the default
  std::optional<Gain> gain;        // null when nothing was measured
  std::optional<Gain> launched;    // the same with the time to launch; null where that was not measured
  std::string verdict;             // one sentence
};

struct Confirmed {
  Table table;  // what is left of it
  std::vector<ConfirmedCell> cells;
  std::vector<std::string> dropped;  // one sentence for each row or part of one
  bool undecided = false;            // more processes could keep some of that
  int processes = 0;                 // that measured each side
};

// Drops what did not hold up with the files alone in fresh processes. At each size inside a row the files must not lose
// more than tolerated, and in no repetition more than two processes of the default differ by (a tenth at most); else
// the row is split around it, and sizes between there and the next good one
// go too. What is left of a row must still save something at the sizes measured: 2 % in the median, in every repetition
// at half of the sizes, and more than 3.5 standard errors of what the default alone differs by between its processes
// (3.5 and not 2, because rows were chosen for looking good in one process, and there are several). So the default has
// to be measured in two processes at least. Gains are the device's, because processes differ by several per cent in how
// fast they launch small operations, which no setting changes. What the files cost at a launch is judged apart, process
// against process over many sizes together (Student's t, one false alarm in 200; but a tenth is never put down to
// chance): a row that takes longer with launches is dropped, and so are all rows when the sizes outside of them do. A
// row that gains nothing with launches must not look more than 2 % worse than the sizes beside it either, chance or
// not: there is no proof that it helps.
Confirmed confirm(const Table& table, const std::vector<Confirmation>& measured);

}  // namespace p5::tuner
