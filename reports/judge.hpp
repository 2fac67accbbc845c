// From a measurement and the machine's limits to a verdict. Bars stand in bars.json; a missing bar or limit is
// `unknown`.
#pragma once

#include "reports/report.hpp"

namespace p5::reports {

// comparable: false when something makes the figures unfit for judging (ranks share cores or a GPU); `why_not` says
// what.
struct Comparability {
  bool comparable = true;
  std::string why_not;
};

Verdict judge(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology,
              const Comparability& fitness);

// Where some sizes or patterns were measured with fewer pairs than others of the same kind, being fast says nothing of
// the pairs that were left out: `ok` becomes `unknown` there.
void leave_to_all_pairs(std::vector<Result>& results);

// The run's grade: wrong, failed, faulty (an error was found in hardware or fabric), slow (also where a part is
// suspected, or a question is open), ok, in this order; unknown when nothing was judged.
Grade overall(const Report& report);

// What the process returns for a report whose plan was run to its end. `wants_verdict`: of a run that has to say
// whether the machine is sound, which on GPUs ends with inconclusive where nothing could be judged.
ExitCode exit_code(const Report& report, bool wants_verdict = false);

}  // namespace p5::reports
