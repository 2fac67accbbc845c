#include "tests/fakes/thread_backend.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

#include "bench/base/error.hpp"
#include "bench/model/traffic.hpp"

namespace p5::fakes {

namespace {

using Kind = Trouble::Kind;

// Timeout of a wait for another rank; only a rank that stalls is waited for this long.
constexpr std::chrono::milliseconds patience{1000};

template <class T>
T combined(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);  // unsigned, since overflow wraps
    if (op == ReduceOp::prod) return static_cast<T>(x * y);
    if (op == ReduceOp::min) return std::min(a, b);
    if (op == ReduceOp::max) return std::max(a, b);
    return static_cast<T>(x + y);
  } else {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const Wide x = static_cast<Wide>(a), y = static_cast<Wide>(b);
    if (op == ReduceOp::prod) return T(x * y);
    if (op == ReduceOp::min) return T(std::min(x, y));
    if (op == ReduceOp::max) return T(std::max(x, y));
    return T(x + y);
  }
}

template <class T>
T divided(T sum, int ranks) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(sum / static_cast<T>(ranks));
  else if constexpr (std::is_same_v<T, double>)
    return sum / ranks;
  else
    return T(static_cast<float>(sum) / static_cast<float>(ranks));
}

template <class T>
T element(const std::byte* memory, std::uint64_t i) {
  T value;
  std::memcpy(&value, memory + i * sizeof(T), sizeof(T));
  return value;
}

class ThreadSession final : public Session {
 public:
  ThreadSession(Threads& threads, const Case& c, int round, int rank, bool troubled)
      : threads_(threads),
        case_(c),
        round_(round),
        place_(rank_in_group((*c.rounds)[static_cast<std::size_t>(round)], rank, root_in(c, round))),
        rank_(rank),
        troubled_(troubled),
        buffers_(c, threads.slots) {
    if (place_) buffers_.fill(*place_, round_);
    threads_.exchange.publish(rank_, &buffers_, place_);
  }

  int slots() const override { return buffers_.slots(); }
  std::string unavailable() const override { return threads_.unavailable; }

  void warm_up(int operations, const std::string& /*setting*/) override {
    misbehave(Phase::warm_up);
    run(0, operations);
  }

  Times sample(const SampleRequest& request) override {
    if (calls_++ > 0) misbehave(Phase::sample);  // the first call is a trial of the warm-up
    int most = threads_.most_operations;
    while (request.operations > most && !threads_.most_operations.compare_exchange_weak(most, request.operations)) {
    }
    int longest = threads_.most_samples;
    while (request.samples > longest && !threads_.most_samples.compare_exchange_weak(longest, request.samples)) {
    }
    std::vector<double> times;
    for (int s = 0; s < request.samples; ++s) {
      if (request.poison_last && s + 1 == request.samples && place_ && !case_.in_place) buffers_.poison_outputs();
      run(next_, request.operations);
      last_ = next_;
      last_count_ = request.operations;
      next_ = (next_ + request.operations) % buffers_.slots();
      times.push_back(place_ ? made_up_time() : std::numeric_limits<double>::quiet_NaN());
    }
    return {times};
  }

  Verification verify() override {
    misbehave(Phase::verify);
    if (case_.in_place) {
      if (place_) buffers_.fill(*place_, round_);
      run(0, 1);
      return place_ ? buffers_.check(*place_, 0, 1) : Verification{};
    }
    return place_ ? buffers_.check(*place_, last_, last_count_) : Verification{};
  }

  void close() override { misbehave(Phase::close); }

 private:
  bool lies(Kind kind) const { return troubled_ && threads_.trouble.kind == kind; }

  void misbehave(Phase phase) {
    if (!troubled_ || threads_.trouble.phase != phase) return;
    if (lies(Kind::stalls)) return threads_.exchange.stall(rank_);
    if (!lies(Kind::throws)) return;
    threads_.exchange.give_up(rank_, "told to throw");
    throw CaseError("told to throw");
  }

  double made_up_time() {
    const double factor = 1 + threads_.spread * static_cast<double>(pattern::hash(1, 0, ++samples_) >> 11) * 0x1p-53;
    return threads_.operation_s * factor * (lies(Kind::slow) ? 2 : 1);
  }

  // All ranks synchronize, including those that pause: before all operations, and in each between reading and writing,
  // and after.
  void run(int first, int count) {
    threads_.exchange.meet(rank_);
    for (int i = 0; i < count; ++i) {
      const int slot = (first + i) % buffers_.slots();
      std::vector<std::byte> result;
      const int from = lies(Kind::stale) ? (slot + 1) % buffers_.slots() : slot;
      if (place_) result = compute(from);
      threads_.exchange.meet(rank_);
      if (place_ && !lies(Kind::nothing_written)) std::ranges::copy(result, buffers_.output(slot, *place_));
      if (place_) falsify(buffers_.output(slot, *place_));
      threads_.exchange.meet(rank_);
    }
  }

  void falsify(std::byte* output) const {
    const std::size_t size = size_of(case_.type), bytes = case_.shape.output_elements * size;
    if (case_.shape.traffic) return falsify_a_block(output);
    if (lies(Kind::one_element)) output[case_.shape.output_elements / 2 * size + size - 1] ^= std::byte{0x20};
    if (lies(Kind::one_bit)) output[bytes - size] ^= std::byte{0x08};  // exceeds the tolerance of an average
    if (lies(Kind::guard)) *guard_behind(output) ^= std::byte{1};
  }

  // Between the blocks of a matrix nothing is received.
  void falsify_a_block(std::byte* output) const {
    const std::size_t size = size_of(case_.type);
    const std::vector<Segment> blocks = case_.collective->result(case_.shape, place_->member, "");
    if (blocks.empty()) return;
    if (lies(Kind::one_element)) output[blocks.front().output_offset * size + size - 1] ^= std::byte{0x20};
    if (lies(Kind::one_bit))
      output[(blocks.back().output_offset + blocks.back().elements - 1) * size] ^= std::byte{0x08};
    if (lies(Kind::guard)) *guard_behind(output) ^= std::byte{1};
  }

  std::byte* guard_behind(std::byte* output) const {
    const std::size_t size = size_of(case_.type);
    if (!case_.in_place) return output + case_.shape.output_elements * size;
    const InPlaceOffset offset = case_.collective->in_place_offset(case_.shape, place_->member);
    return output + (in_place_elements(case_.shape) - offset.output) * size;
  }

  // Empty for a rank whose output the operation does not change.
  std::vector<std::byte> compute(int slot) const {
    const std::size_t size = size_of(case_.type), whole = case_.shape.input_elements * size;
    const Member self = place_->member;
    std::vector<const std::byte*> inputs;
    for (int rank : place_->group) inputs.push_back(threads_.exchange.input(rank, slot));
    const auto from = [&](int member) { return inputs[static_cast<std::size_t>(member)]; };
    const std::string_view name = case_.collective->name;
    std::vector<std::byte> result;
    if (name == "p2p") {
      if (case_.pattern != "one_way" || self.rank == 1) result.assign(from(1 - self.rank), from(1 - self.rank) + whole);
    } else if (name == "all_gather" || name == "hypercube") {
      for (const std::byte* input : inputs) result.insert(result.end(), input, input + whole);
    } else if (name == "broadcast") {
      result.assign(from(self.root), from(self.root) + whole);
    } else if (name == "send_recv") {
      const int left = self.rank == 0 ? self.ranks - 1 : self.rank - 1;
      result.assign(from(left), from(left) + whole);
    } else if (name == "gather") {
      if (self.rank == self.root)
        for (const std::byte* input : inputs) result.insert(result.end(), input, input + whole);
    } else if (name == "scatter") {
      const std::size_t share = case_.shape.output_elements * size;
      const std::byte* const mine = from(self.root) + static_cast<std::size_t>(self.rank) * share;
      result.assign(mine, mine + share);
    } else if (name == "all_to_all" || name == "lsa_all_to_all") {
      const std::size_t block = case_.shape.input_elements / inputs.size() * size;
      for (const std::byte* input : inputs) {
        const std::byte* const mine = input + static_cast<std::size_t>(self.rank) * block;
        result.insert(result.end(), mine, mine + block);
      }
    } else if (case_.collective->of_tokens) {
      const std::byte* const before = buffers_.output(slot, *place_);
      result.assign(before, before + case_.shape.output_elements * size);
      move_tokens(inputs, result.data());
    } else if (case_.shape.traffic) {
      const std::byte* const before = buffers_.output(slot, *place_);
      result.assign(before, before + case_.shape.output_elements * size);
      for (Member other{.rank = 0, .ranks = self.ranks}; other.rank < self.ranks; ++other.rank) {
        const Block block = case_.collective->block(case_.shape, other, self);
        std::memcpy(result.data() + block.output_offset * size, from(other.rank) + block.input_offset * size,
                    block.elements * size);
      }
    } else if (name == "all_to_allv") {
      for (int from_rank = 0; from_rank < self.ranks; ++from_rank) {
        std::size_t begin = 0;
        for (int to = 0; to < self.rank; ++to) begin += uneven_block(from_rank, to) * size;
        const std::byte* const mine = from(from_rank) + begin;
        result.insert(result.end(), mine, mine + uneven_block(from_rank, self.rank) * size);
      }
    } else if (name != "reduce" || self.rank == self.root) {
      result.resize(whole);
      with_type(case_.type, [&]<class T>() { reduce<T>(inputs, result); });
      if (name == "reduce_scatter") {
        const std::size_t share = case_.shape.output_elements * size;
        const std::byte* const mine = result.data() + static_cast<std::size_t>(self.rank) * share;
        result = {mine, mine + share};
      }
    }
    return result;
  }

  // By the definition: a rank keeps the tokens that come in the order of their senders, and of each sender in its
  // order.
  void move_tokens(const std::vector<const std::byte*>& inputs, std::byte* output) const {
    const TokenRouting& routing = *case_.shape.traffic->routing;
    const int self = place_->member.rank;
    const std::size_t token_bytes = case_.shape.hidden * size_of(case_.type);
    const auto row = [&](std::size_t number) { return number * token_bytes; };
    std::byte* packed = output + case_.shape.workspace * size_of(case_.type);
    std::size_t kept = 0;
    const bool comes_back = case_.collective->sums;
    std::vector<std::size_t> at_rank(inputs.size());  // tokens that each rank has got so far
    for (int from = 0; from < routing.ranks; ++from)
      for (int token = 0; token < routing.tokens; ++token)
        for (const int to : routing.of(from, token)) {
          const std::size_t number = at_rank[static_cast<std::size_t>(to)]++;
          if (comes_back && from == self)
            add_token(output + row(static_cast<std::size_t>(token)), inputs[static_cast<std::size_t>(to)] + row(number),
                      to == routing.of(from, token).front());
          if (!comes_back && to == self)
            std::memcpy(output + row(kept++),
                        inputs[static_cast<std::size_t>(from)] + row(static_cast<std::size_t>(token)), token_bytes);
        }
    // The workspace: what a rank sends in dispatch, and what comes in combine, by the other rank.
    for (int other = 0; other < routing.ranks; ++other) {
      std::size_t number = 0;
      for (int from = 0; from < routing.ranks; ++from)
        for (int token = 0; token < routing.tokens; ++token) {
          if (!std::ranges::binary_search(routing.of(from, token), other)) continue;
          const std::size_t here = number++;
          if (from != self) continue;
          const std::byte* const source =
              comes_back ? inputs[static_cast<std::size_t>(other)] + row(here)
                         : inputs[static_cast<std::size_t>(self)] + row(static_cast<std::size_t>(token));
          std::memcpy(packed, source, token_bytes);
          packed += token_bytes;
        }
    }
  }

  void add_token(std::byte* sum, const std::byte* contribution, bool is_first) const {
    with_type(case_.type, [&]<class T>() {
      for (std::uint64_t i = 0; i < case_.shape.hidden; ++i) {
        const T value = is_first ? element<T>(contribution, i)
                                 : combined(ReduceOp::sum, element<T>(sum, i), element<T>(contribution, i));
        std::memcpy(sum + i * sizeof(T), &value, sizeof(T));
      }
    });
  }

  // Elements from one member to another: of all, a share in proportion to the other's distance in ranks, rounded down.
  std::size_t uneven_block(int from, int to) const {
    const auto n = static_cast<std::size_t>(place_->member.ranks);
    if (n == 1) return case_.shape.input_elements;
    const std::size_t distance = (static_cast<std::size_t>(to - from) + n) % n;
    const auto up_to = [&](std::size_t d) {
      return case_.shape.input_elements * (d * (d + 1) / 2) / (n * (n - 1) / 2);
    };
    return distance == 0 ? 0 : up_to(distance) - up_to(distance - 1);
  }

  template <class T>
  void reduce(const std::vector<const std::byte*>& inputs, std::vector<std::byte>& result) const {
    for (std::uint64_t i = 0; i < case_.shape.input_elements; ++i) {
      const auto addend = [&](std::size_t k) {
        const T value = element<T>(inputs[k], i);
        return *case_.op == ReduceOp::mulsum && mulsum_factor(static_cast<int>(k)) == 2
                   ? combined(ReduceOp::sum, value, value)
                   : value;
      };
      T value = addend(0);
      for (std::size_t k = 1; k < inputs.size(); ++k) value = combined(*case_.op, value, addend(k));
      if (*case_.op == ReduceOp::avg) value = divided(value, static_cast<int>(inputs.size()));
      std::memcpy(result.data() + i * sizeof(T), &value, sizeof(T));
    }
  }

  Threads& threads_;
  Case case_;
  int round_ = 0;
  std::optional<RankInGroup> place_;
  int rank_;
  bool troubled_;
  HostBuffers buffers_;
  int next_ = 0, last_ = 0, last_count_ = 0, calls_ = 0;
  std::uint64_t samples_ = 0;
};

}  // namespace

void Exchange::begin(int case_number) {
  const std::lock_guard lock(mutex_);
  if (case_number == case_) return;
  case_ = case_number;
  arrived_ = 0;
  here_.assign(here_.size(), false);
  culprit_.reset();
  stalled_ = false;
}

void Exchange::refuse() const {
  if (stalled_) throw StalledError(why_, *culprit_);
  throw CaseError(why_, *culprit_);
}

void Exchange::meet(int rank) {
  std::unique_lock lock(mutex_);
  if (culprit_) refuse();
  const std::uint64_t mine = generation_;
  here_[static_cast<std::size_t>(rank)] = true;
  if (++arrived_ == ranks_) {
    arrived_ = 0;
    here_.assign(here_.size(), false);
    ++generation_;
    lock.unlock();  // for which those that wake would wait again
    changed_.notify_all();
    return;
  }
  if (!changed_.wait_for(lock, patience, [&] { return generation_ != mine || culprit_; })) {
    culprit_ = static_cast<int>(std::ranges::find(here_, false) - here_.begin());
    why_ = "does not come";
    stalled_ = true;
    changed_.notify_all();
  }
  if (generation_ == mine) refuse();
}

void Exchange::give_up(int rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (culprit_) return;
  culprit_ = rank;
  why_ = why;
  changed_.notify_all();
}

void Exchange::stall(int rank) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, 2 * patience, [&] { return culprit_.has_value(); })) {
    // No rank waited for this one; its own supervisor would have noticed the stall.
    culprit_ = rank;
    why_ = "does not come";
    stalled_ = true;
  }
  refuse();
}

void Exchange::publish(int rank, const HostBuffers* buffers, const std::optional<RankInGroup>& place) {
  const std::lock_guard lock(mutex_);
  buffers_[static_cast<std::size_t>(rank)] = {buffers, place};
}

const std::byte* Exchange::input(int rank, int slot) const {
  const std::lock_guard lock(mutex_);
  const Published& published = buffers_[static_cast<std::size_t>(rank)];
  return published.buffers->input(slot, *published.place);
}

std::unique_ptr<Session> ThreadBackend::open(const Case& c, int round) {
  const int number = opened_++;
  if (rank_ == 0) {
    ++threads_.opened;
    std::this_thread::sleep_for(std::chrono::duration<double>(threads_.opening_s));
  }
  threads_.exchange.begin(number);
  const Trouble& trouble = threads_.trouble;
  const bool troubled = trouble.rank == rank_ && trouble.only_case.value_or(number) == number;
  if (troubled && trouble.phase == Phase::open && trouble.kind == Kind::throws) throw CaseError("told to throw");
  if (troubled && trouble.phase == Phase::open && trouble.kind == Kind::stalls) {
    StalledError problem("does not come", rank_);
    problem.cut_short = trouble.cut_short;
    throw problem;
  }
  if (std::ranges::find(trouble.hung, rank_) != trouble.hung.end()) {
    StalledError problem("its device does not become idle", rank_);
    problem.cut_short = problem.hangs = true;
    throw problem;
  }
  return std::make_unique<ThreadSession>(threads_, c, round, rank_, troubled);
}

}  // namespace p5::fakes
