// Sampling of a case with works beside it. Each operation is timed alone, while each single other one runs, and while
// all others run (ConcurrentRequest::steady). All operations are also timed together, from a common start until the
// last one ends, each in the number that takes the same time alone. The combinations take turns, so that a drift
// affects all alike. The class does no communication: the leader gives it the times of all ranks, and it returns what
// runs next.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

// The number of operations of each kind that take about the same time alone: the time of `burst`, or of a few of the
// longest operation if that is more. `one_s`: seconds of one operation of each kind.
std::vector<int> operations_of_equal_time(const std::vector<double>& one_s, Seconds burst);

class ConcurrentSampling {
 public:
  // ranks: the times of each rank are kept, each operation's alone and beside all others, which run for longer than it
  // ("cover" it); not beside each other, and not all together. Of healthy GPUs these times differ half as much as the
  // times of an operation in one sample with all others, which depend on which of them began first (bench/RESULTS.md).
  enum class Detail { operations, ranks };
  // burst: wanted time of one kind's operations in a sample. share: wall time for all samples. limit: after which a
  // request counts as hanging.
  ConcurrentSampling(const Case& c, Seconds burst, StoppingRule rule, Seconds share, Seconds limit,
                     Detail detail = Detail::operations);

  // The request to run first.
  ConcurrentRequest first() const;
  // Takes the times of all participants for the last request, `spent` after the start, and returns the next request;
  // without operations after the last one, whose outputs were poisoned and are to be verified.
  ConcurrentRequest next(const std::vector<ConcurrentTimes>& parts, Seconds spent);

  // True if next() took times of the case's own operation beside all its works: the headline of the measurement.
  bool took_headline() const { return took_headline_; }
  int operations_of_headline() const { return combinations_.at(headline_).operations.front(); }
  const std::string& stopped_because() const { return stopped_; }
  Concurrency result() const;

  // Medians of the seconds of operation number `operation` on each rank, with Detail::ranks; NaN where the rank takes
  // no part. Samples in which another operation ended before it on that rank are left out, because the rank was less
  // busy from then on. NaN where most samples of the rank are such, unless that holds on all ranks.
  struct OfRank {
    double alone = 0, beside = 0;
  };
  std::vector<OfRank> of_ranks(std::size_t operation) const;

 private:
  enum class Wanted { one, each, end };  // seconds of an operation of one work, or of each while all run; until all end
  struct Combination {
    Wanted wanted = Wanted::one;
    std::size_t timed = 0;   // of Wanted::one: the operation whose time counts
    std::vector<bool> runs;  // which operations run
    std::vector<int> operations = {};
    // Seconds, [series][sample]: with Wanted::each one series for each operation, else one series.
    std::vector<std::vector<double>> samples = {};
    struct RankTime {
      double seconds = 0;      // per operation of `timed`
      bool others_ran = true;  // until the operations of `timed` ended on this rank
    };
    std::vector<std::vector<RankTime>> of_rank = {};  // with Detail::ranks
    bool needs_cover() const;
    bool is_covered(std::size_t rank) const;  // the others ran on, in half of its samples or more
    double median_of(std::size_t rank) const;
  };
  enum class Stage { trial, cover, sampling, last, done };

  void fit_operations();
  // Ends of each operation in a sample, over all ranks.
  static std::vector<std::vector<double>> ends_of(const std::vector<ConcurrentTimes>& parts, std::size_t works);
  void take(Combination& to, const std::vector<std::vector<double>>& ends) const;
  static void take_ranks(Combination& to, const std::vector<ConcurrentTimes>& parts);
  // Ends of each operation in the first sample, by rank.
  static std::vector<std::vector<double>> ends_to_cover(const std::vector<ConcurrentTimes>& parts);
  bool lengthen_others(Combination& of, const std::vector<std::vector<double>>& of_ranks) const;
  ConcurrentRequest request() const;
  ConcurrentRequest request_of(const Combination& which, int samples) const;
  bool begin_turn(Seconds spent);
  // Number of combinations that are sampled. With Detail::ranks the last one (all operations until all have ended) is
  // not, because it has no times of single ranks.
  std::size_t sampled() const { return combinations_.size() - (detail_ == Detail::ranks ? 1 : 0); }
  bool has_converged(const Combination& of) const;
  // The operation counts with Wanted::each only.
  Series series_of(const Combination& of, std::size_t operation = 0) const;
  const Combination& find(Wanted wanted, std::size_t timed, const std::vector<bool>& runs) const;

  std::vector<std::string> names_;
  Detail detail_;
  Seconds burst_;
  StoppingRule rule_;
  Seconds share_, limit_;
  Stage stage_ = Stage::trial;
  std::size_t at_ = 0;       // operation of a trial, else combination
  std::vector<double> one_;  // seconds of a single operation alone
  std::vector<int> fitted_;  // operations that take the same time alone
  std::vector<Combination> combinations_;
  std::size_t headline_ = 0;
  int due_ = 0;           // samples of each combination until the rule is asked
  int batch_ = 0;         // of which this turn takes so many
  double longest_s_ = 0;  // time of a sample
  double request_began_ = 0;
  double sampling_began_ = 0;
  bool took_headline_ = false;
  std::string stopped_;
};

}  // namespace p5
