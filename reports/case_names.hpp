// Cases in texts that name several of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "bench/model/case.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"

namespace p5::reports {

// describe(), and the ranks and nodes of a case where cases of the same description differ in them, as those of an
// import of several jobs do: "all_reduce 1 MiB float32 sum, 8 ranks on 2 nodes".
class CaseNames {
 public:
  explicit CaseNames(const Report& report);
  explicit CaseNames(const Comparison& comparison);
  std::string of(const Case& c) const;

 private:
  void add(const Case& c);

  std::map<std::string, std::set<std::pair<int, int>>> sizes_;  // ranks and nodes, by description
};

}  // namespace p5::reports
