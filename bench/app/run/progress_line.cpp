#include "bench/app/run/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "bench/base/console.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

int columns_of_stderr() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Failures and wrong data before what is slow, that before what is near its limit; 0: not judged.
double how_bad(const reports::Result& result) {
  switch (result.verdict.grade) {
    case reports::Grade::wrong:
      return 4;
    case reports::Grade::failed:
      return 3;
    case reports::Grade::slow:
      return 3 - std::min(result.verdict.fraction.value_or(0), 1.0);
    case reports::Grade::ok:
      return 2 - std::min(result.verdict.fraction.value_or(0), 1.0);
    default:
      return 0;
  }
}

}  // namespace

ProgressLine::ProgressLine(bool wanted)
    : visible_(wanted && leads_to_terminal(STDERR_FILENO)), columns_(visible_ ? columns_of_stderr() : 0) {}

void ProgressLine::show(const Case& c, const RunProgress& standing) {
  if (visible_ && since(shown_).count > 0.2)
    print(fmt::format("{:>3} %  {} of {}, about {} left, {}{}", 100 * standing.index / standing.count,
                      standing.index + 1, standing.count, to_text(standing.left), describe(c), worst_));
}

void ProgressLine::finished(const reports::Result& result) {
  const double bad = how_bad(result);
  if (!visible_ || bad <= how_bad_) return;
  how_bad_ = bad;
  const reports::Verdict& v = result.verdict;
  const bool rate = v.fraction && (v.grade == reports::Grade::ok || v.grade == reports::Grade::slow);
  worst_ = fmt::format("; worst so far: {} {}", describe(result.measurement.measured_case),
                       rate ? fmt::format("{:.0f} % of its limit, {}", 100 * *v.fraction, name_of(v.grade))
                            : std::string(name_of(v.grade)));
}

void ProgressLine::clear() {
  if (visible_) print("");
}

// A line that does not fit would go on in the next one, which nothing clears.
void ProgressLine::print(const std::string& line) {
  const std::size_t fits = columns_ > 1 ? static_cast<std::size_t>(columns_ - 1) : line.size();
  print_stderr(fmt::format("\r\033[K{}", line.substr(0, fits)));
  shown_ = Clock::now();
}

}  // namespace p5
