#include "bench/backends/nccl/communicator_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/base/error.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/model/communicator_steps.hpp"

namespace p5::nccl {

namespace {

constexpr std::uint64_t registered_bytes = 16u << 20;

const char* missing_call(std::string_view step) {
  const OptionalCalls& calls = optional_calls();
  if (step == "register" && (!calls.comm_register || !calls.comm_deregister)) return "ncclCommRegister";
  if (step == "shrink" && !calls.comm_shrink) return "ncclCommShrink";
  if (step == "grow" && (!calls.comm_grow || !calls.comm_get_unique_id)) return "ncclCommGrow";
  if (step == "revoke" && !calls.comm_revoke) return "ncclCommRevoke";
  return nullptr;
}

// NCCL works on a revoked communicator in the background.
void wait_until_quiescent(ncclComm_t communicator) {
  constexpr Seconds patience{30};
  const auto start = Clock::now();
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;) {
    check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) return check(state, "ncclCommRevoke");
    if (since(start).count > patience.count) throw CaseError("ncclCommRevoke: not quiescent after 30 s");
    std::this_thread::yield();
  }
}

}  // namespace

CommunicatorSession::CommunicatorSession(const Case& c, std::optional<RankInGroup> place, Engine& engine)
    : step_(*step_of(c)),
      place_(std::move(place)),
      engine_(engine),
      bytes_(std::max<std::uint64_t>(c.bytes.count, 8)) {}

std::string CommunicatorSession::unavailable() const {
  if (const char* const call = missing_call(step_.name)) return fmt::format("{} has no {}", library_version(), call);
  if (step_.name == "shrink" && place_ && place_->member.ranks < 2) return "shrinking needs two ranks or more";
  if (step_.name == "grow" && place_ && place_->member.ranks < 2) return "growing needs two ranks or more";
  return "";
}

Communicator CommunicatorSession::split() const {
  ncclComm_t made = nullptr;
  check(ncclCommSplit(engine_.communicator(), 0, place_->member.rank, &made, nullptr), "ncclCommSplit");
  return Communicator(made);
}

void CommunicatorSession::operate(ncclComm_t communicator) {
  std::byte* const input = engine_.arena().reserve(2 * bytes_);
  check(ncclAllReduce(input, input + bytes_, bytes_ / sizeof(float), ncclFloat32, ncclSum, communicator,
                      engine_.stream()),
        "ncclAllReduce");
  engine_.queue().mark(1);
  engine_.queue().finish(Waiting::alert);
}

void CommunicatorSession::meet() {
  engine_.align();
  engine_.queue().finish(Waiting::alert);
}

double CommunicatorSession::time_of(const std::function<void()>& step) {
  const CommunicatorCosts before = engine_.footprint();
  meet();
  const auto start = Clock::now();
  step();
  const double elapsed = since(start).count;
  costs_ = grown(before, engine_.footprint());
  return elapsed;
}

ncclUniqueId CommunicatorSession::of_first_rank(ncclUniqueId id) {
  std::byte* const memory = engine_.arena().reserve(sizeof id);
  check(cudaMemcpyAsync(memory, &id, sizeof id, cudaMemcpyHostToDevice, engine_.stream()), "cudaMemcpyAsync");
  check(ncclBroadcast(memory, memory, sizeof id, ncclInt8, 0, engine_.communicator(), engine_.stream()),
        "ncclBroadcast");
  check(cudaMemcpyAsync(&id, memory, sizeof id, cudaMemcpyDeviceToHost, engine_.stream()), "cudaMemcpyAsync");
  engine_.queue().finish(Waiting::alert);
  return id;
}

double CommunicatorSession::time_of_joining_again() {
  ncclUniqueId id{};
  if (place_->member.rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  id = of_first_rank(id);
  std::vector<Communicator> joined;
  const double elapsed = time_of([&] {
    ncclComm_t made = nullptr;
    check(ncclCommInitRank(&made, place_->member.ranks, id, place_->member.rank), "ncclCommInitRank");
    joined.emplace_back(made);
  });
  leave(std::move(joined));
  return elapsed;
}

// A communicator of all but the last rank takes that one in.
double CommunicatorSession::time_of_growing() {
  const auto [rank, ranks, root] = place_->member;
  const OptionalCalls& calls = optional_calls();
  const bool is_new = rank == ranks - 1;
  std::vector<Communicator> made;
  ncclComm_t smaller = nullptr, whole = nullptr;
  check(ncclCommSplit(engine_.communicator(), is_new ? NCCL_SPLIT_NOCOLOR : 0, rank, &smaller, nullptr),
        "ncclCommSplit");
  if (smaller) made.emplace_back(smaller);
  ncclUniqueId id{};
  if (rank == 0) check(calls.comm_get_unique_id(smaller, &id), "ncclCommGetUniqueId");
  id = of_first_rank(id);
  const double elapsed = time_of([&] {
    check(calls.comm_grow(smaller, ranks, rank == 0 || is_new ? &id : nullptr, is_new ? rank : -1, &whole, nullptr),
          "ncclCommGrow");
    made.emplace_back(whole);
  });
  leave(std::move(made));
  return elapsed;
}

// A capture takes some 0.1 ms of one host thread, on which anything else on the host shows: the median of many, once
// the first one has made what all use.
double CommunicatorSession::time_of_capture(ncclComm_t communicator) {
  constexpr int captures = 64;
  std::byte* const input = engine_.arena().reserve(2 * bytes_);
  const auto capture_once = [&] {
    const auto start = Clock::now();
    const GraphLaunch graph = capture(engine_.stream(), [&] {
      check(ncclAllReduce(input, input + bytes_, bytes_ / sizeof(float), ncclFloat32, ncclSum, communicator,
                          engine_.stream()),
            "ncclAllReduce");
    });
    return since(start).count;
  };
  capture_once();
  std::vector<double> times;
  time_of([&] {
    for (int i = 0; i < captures; ++i) times.push_back(capture_once());
  });
  return median(std::move(times));
}

double CommunicatorSession::timed() {
  const std::string_view name = step_.name;
  if (name == "init_again") return time_of_joining_again();
  if (name == "grow") return time_of_growing();
  Communicator own;
  const auto leave_own = [&] {
    std::vector<Communicator> last;
    last.push_back(std::move(own));
    leave(std::move(last));
  };
  if (name == "split") {
    const double elapsed = time_of([&] { own = split(); });
    leave_own();
    return elapsed;
  }
  engine_.arena().reserve(2 * bytes_);  // before anything is timed
  own = split();
  if (name == "split_first") {
    const bool logged = place_->member.rank == 0 && !selection_;
    if (logged) engine_.log().start();  // costs the first sample microseconds
    const double elapsed = time_of([&] { operate(own.get()); });
    if (logged) selection_ = engine_.log().stop();
    leave_own();
    return elapsed;
  }
  operate(own.get());
  double elapsed = 0;
  if (name == "capture") {
    elapsed = time_of_capture(own.get());
  } else if (name == "register") {
    void* handle = nullptr;
    const OptionalCalls& calls = optional_calls();
    std::byte* const memory = engine_.arena().reserve(registered_bytes);
    elapsed =
        time_of([&] { check(calls.comm_register(own.get(), memory, registered_bytes, &handle), "ncclCommRegister"); });
    check(calls.comm_deregister(own.get(), handle), "ncclCommDeregister");
  } else if (name == "shrink") {
    Communicator smaller;
    int last = place_->member.ranks - 1;
    elapsed = time_of([&] {
      if (place_->member.rank == last) return;
      ncclComm_t made = nullptr;
      check(optional_calls().comm_shrink(own.get(), &last, 1, &made, nullptr, 0), "ncclCommShrink");
      smaller.reset(made);
    });
    if (smaller) {
      std::vector<Communicator> ending;
      ending.push_back(std::move(smaller));
      leave(std::move(ending));
    }
  } else if (name == "revoke") {
    elapsed = time_of([&] {
      check(optional_calls().comm_revoke(own.get(), 0), "ncclCommRevoke");
      wait_until_quiescent(own.get());
    });
  } else if (name == "destroy") {
    return time_of(leave_own);
  } else if (name == "abort") {
    return time_of([&] { check(ncclCommAbort(own.release()), "ncclCommAbort"); });
  }
  leave_own();
  return elapsed;
}

Times CommunicatorSession::sample(const SampleRequest& request) {
  std::vector<double> times;
  for (int s = 0; s < request.samples; ++s) {
    if (!place_) {
      times.push_back(std::numeric_limits<double>::quiet_NaN());
    } else if (step_.while_joining) {
      const Engine::Step& joined = step_.name == "init" ? engine_.joining() : engine_.first_operation();
      times.push_back(joined.seconds);
      costs_ = joined.costs;
    } else {
      times.push_back(std::max(timed(), 1e-9));  // the rank that is left out has nothing to do
    }
  }
  return {times};
}

}  // namespace p5::nccl
