// A test backend whose ranks are threads: it moves data between their HostBuffers, its times are invented, and it can
// be told to misbehave. Ranks recover after one fails, as if a real worker had been replaced.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/measurement.hpp"

namespace p5::fakes {

struct Trouble {
  enum class Kind { none, one_element, one_bit, stale, nothing_written, guard, throws, stalls, slow };
  Kind kind = Kind::none;
  int rank = 0;
  Phase phase = Phase::open;       // throws, stalls
  std::optional<int> only_case{};  // number of the case in the order of opening, from 0; null: all
  bool cut_short = false;          // as StalledError::cut_short, of a rank that stalls in Phase::open
  std::vector<int> hung{};         // ranks whose device hangs in Phase::open, in a wait that is cut short
};

// A barrier for threads; if one aborts, all that wait or arrive later get its reason.
class Exchange {
 public:
  explicit Exchange(int ranks) : ranks_(ranks), buffers_(static_cast<std::size_t>(ranks)) {}

  // The first thread to begin a new case clears the failure of the last one.
  void begin(int case_number);
  // Throws CaseError naming the rank that aborted, or StalledError naming a rank that does not arrive.
  void meet(int rank);
  void give_up(int rank, const std::string& why);
  // Waits until the others time out on this rank, or would have, then fails as they do.
  [[noreturn]] void stall(int rank);

  void publish(int rank, const HostBuffers* buffers, const std::optional<RankInGroup>& place);
  const std::byte* input(int rank, int slot) const;

 private:
  struct Published {
    const HostBuffers* buffers = nullptr;
    std::optional<RankInGroup> place;
  };
  [[noreturn]] void refuse() const;

  const int ranks_;
  std::vector<Published> buffers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_ = std::vector<bool>(static_cast<std::size_t>(ranks_));
  int arrived_ = 0, case_ = -1;
  std::uint64_t generation_ = 0;
  std::optional<int> culprit_;
  bool stalled_ = false;
  std::string why_;
};

// State shared by all ranks' backends, which tests examine afterwards.
struct Threads {
  explicit Threads(int ranks) : exchange(ranks) {}
  Exchange exchange;
  Trouble trouble;
  std::string unavailable = {};  // of all cases, as Session::unavailable()
  int slots = 4;
  double operation_s = 100e-6;
  double opening_s = 0;  // real seconds that rank 0 takes to open a session
  double spread = 0;     // relative spread between samples; 0: the stopping rule is met at once
  std::atomic<int> most_operations{0}, most_samples{0};  // of a request
  std::atomic<int> opened{0};                            // sessions opened by rank 0
};

class ThreadBackend final : public Backend {
 public:
  ThreadBackend(Threads& threads, int rank) : threads_(threads), rank_(rank) {}
  std::unique_ptr<Session> open(const Case& c, int round) override;
  Bytes memory_per_rank(const Case& c) const override { return host_memory(c, threads_.slots); }
  CostModel cost() const override {
    return {.latency = {1e-6}, .bandwidth = {1.0}, .burst = {1e-3}, .repetition = {1e-3}, .communicator = {0}};
  }
  bool recovers() const override { return true; }

 private:
  Threads& threads_;
  int rank_, opened_ = 0;
};

}  // namespace p5::fakes
