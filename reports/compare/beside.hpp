// What a page shows beside a run's figures: the samples behind them, and the same cases of a baseline.
#pragma once

#include <span>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

// The journal's samples into the series of its cases, those of all launches in turn.
void add_samples(std::span<const Result> journal, Report& report);

// What each case of the default arm took in the baseline, as the median of its launches' medians (Result::baseline).
void add_baseline(const Side& baseline, Report& report);

}  // namespace p5::reports
