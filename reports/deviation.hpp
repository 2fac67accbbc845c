// How far single runs of one machine are from the median of all of them, row by row of a comparison.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

// The log of a run's time of each case and quantity, by the row of a comparison that it belongs to.
struct Times {
  std::map<std::string, std::map<std::string, double>> rows;
  std::map<std::string, double> matters;     // of each row, as a log
  std::map<std::string, double> negligible;  // the same
  std::map<std::string, std::string> shown;  // the row for people
};

Times times_of(const Run& run);
// "all_reduce, throughput, bandwidth"
std::string row_name(std::string_view collective, Quantity quantity, std::string_view band);

// The log of each run's distance in one row: the mean over its cases. Runs without the row are left out.
std::map<const Times*, double> deviations(const std::vector<const Times*>& runs, const std::string& row);

}  // namespace p5::reports
