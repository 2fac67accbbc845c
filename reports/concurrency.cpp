// Cases with work beside them on a terminal: how much each operation slows the others, and how much of it is at the
// same time.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

std::string slower(const Series& alone, const Series& beside) {
  return fmt::format("{:+.1f} %", 100 * (slowdown(alone, beside) - 1));
}

std::string time_of(const Series& series) { return fmt::format("{:.4g}", series.summary.median * 1e6); }

// Rows of a case: one for each of its operations, and what they take together.
std::string rows_of(const Measurement& m) {
  const Concurrency& all = *m.concurrency;
  std::string text;
  for (const ConcurrentOperation& each : all.operations) {
    const bool own = &each == &all.operations.front();
    const std::string name = own ? describe_alone(m.measured_case) : "  " + each.name;
    text += format_printable("{:<44} {:>10} {:>10} {:>9}", name, time_of(each.alone), time_of(each.beside),
                             slower(each.alone, each.beside));
    for (const ConcurrentOperation::BesideOne& one : each.beside_each)
      text += format_printable("; {} beside {}", slower(each.alone, one.times), one.name);
    if (!each.covered) text += "; at least: it waits until the others have ended";
    text += "\n";
  }
  return text + format_printable(
                    "  together {:.4g} us, one after the other {:.4g}, the longest alone {:.4g}: overlap {:.0f} %\n",
                    all.together.summary.median * 1e6, microseconds(sum_of(all)), microseconds(longest_of(all)),
                    100 * overlap(all));
}

}  // namespace

std::string concurrency_table(const Report& report) {
  std::string text;
  for (const Result* result : in_reading_order(report))
    if (result->measurement.concurrency) text += rows_of(result->measurement);
  if (text.empty()) return "";
  return format_printable("\n{:<44} {:>10} {:>10} {:>9}\n", "at the same time", "alone us", "beside us", "slower") +
         text;
}

}  // namespace p5::reports
