// What `ab` asks: is arm b slower than arm a?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5 {

// Of a report with two arms and the lines of its journal, with their samples. Nothing where there is nothing to
// compare; `why_not` then says why.
std::optional<reports::Comparison> compare_arms(const reports::Report& report, std::vector<reports::Result> journal,
                                                std::string& why_not);

}  // namespace p5
