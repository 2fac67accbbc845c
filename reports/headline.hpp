// A run in one line.
#pragma once

#include <string>

#include "reports/report.hpp"

namespace p5::reports {

// "Verdict: SLOW: nic n1r5 (22 of 246 measurements judged), SIMULATED". Printable.
std::string headline(const Report& report);

}  // namespace p5::reports
