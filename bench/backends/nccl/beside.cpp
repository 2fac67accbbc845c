#include "bench/backends/nccl/beside.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/matrix_products.hpp"
#include "bench/backends/nccl/operations.hpp"
#include "bench/base/error.hpp"
#include "bench/model/expected.hpp"

namespace p5::nccl {

std::vector<Layout> layouts_with_works(const Case& c, std::uint64_t usable_memory) {
  std::vector<const Case*> cases{&c};
  std::uint64_t taken = 0;
  for (const Work& work : works_of(c)) {
    taken += device_memory(work).count;
    if (work.planned) cases.push_back(work.planned.get());
  }
  if (c.replay && c.replay->products) taken += device_memory(*c.replay->products).count;
  constexpr std::uint64_t beyond_any_device = 1ull << 50;  // the default, of which fractions are exact
  const std::uint64_t left = std::min(usable_memory, beyond_any_device) - std::min(usable_memory, taken);
  const auto of_one_slot = [](const Case& each) { return static_cast<double>(layout_of(each, 0).bytes()); };
  double all = 0;
  for (const Case* each : cases) all += of_one_slot(*each);
  std::vector<Layout> layouts;
  for (const Case* each : cases)
    layouts.push_back(
        layout_of(*each, static_cast<std::uint64_t>(static_cast<double>(left) * (of_one_slot(*each) / all))));
  return layouts;
}

void with_name(std::string_view work, const std::function<void()>& action) {
  try {
    action();
  } catch (const StalledError& problem) {
    throw StalledError(fmt::format("{}: {}", work, problem.what()), problem.rank, problem.progress);
  } catch (const CaseError& problem) {
    throw CaseError(fmt::format("{}: {}", work, problem.what()), problem.rank);
  }
}

void WorkBeside::prepare(int operations, bool poison) {
  with_name(name_, [&] { do_prepare(operations, poison); });
}

void WorkBeside::operate() {
  with_name(name_, [&] { do_operate(); });
}

void WorkBeside::check_sample() {
  with_name(name_, [&] { do_check_sample(); });
}

Verification WorkBeside::verify() {
  Verification found;
  with_name(name_, [&] { found = do_verify(); });
  if (found.first) found.first->work = name_;
  return found;
}

namespace {

class CollectiveBeside final : public WorkBeside {
 public:
  CollectiveBeside(const Work& work, Engine& engine, ncclComm_t communicator, const Layout& layout, std::byte* memory,
                   cudaStream_t stream)
      : WorkBeside(name_of(work), stream),
        case_(work.planned),
        place_(rank_in_group(case_->rounds->front(), engine.rank(), case_->root.value_or(0))),
        communicator_(communicator),
        enqueue_(enqueue_for(*case_)),
        buffers_(*case_, layout, memory, engine.queue()),
        turn_{.slots = layout.slots} {
    if (!place_) return;
    reduction_ = {*case_, place_->member, communicator_};
    rows_ = {*case_, place_->member, engine.stream()};
    buffers_.fill(*place_, round, fill_number, layout.slots);
  }

  bool takes_part() const override { return place_.has_value(); }
  void forget() override { reduction_.forget(); }

 private:
  static constexpr int round = 0;
  static constexpr std::uint64_t fill_number = 1;

  void do_prepare(int operations, bool poison) override {
    at_ = turn_.take(operations);
    if (poison) buffers_.poison(turn_.first, turn_.count);
  }

  void do_operate() override {
    const int slot = std::exchange(at_, (at_ + 1) % turn_.slots);
    enqueue_({.of = *case_,
              .place = *place_,
              .rows = rows_,
              .reduction = reduction_.get(),
              .input = buffers_.input(slot, *place_),
              .output = buffers_.output(slot, *place_),
              .communicator = communicator_,
              .peer = case_->collective->pairwise ? peer_in_pair(*place_) : 0,
              .stream = stream()});
  }

  Verification do_verify() override { return buffers_.check(*place_, round, fill_number, turn_.first, turn_.count); }

  std::shared_ptr<const Case> case_;
  std::optional<RankInGroup> place_;
  ncclComm_t communicator_;
  Enqueue enqueue_;
  Buffers buffers_;
  Reduction reduction_;
  LocalRowsOnDevice rows_;
  SlotsInTurn turn_;
  int at_ = 0;  // slot of the next operation
};

// The same product each time, whose bits have to be those of the first one. The last product of each sample is
// compared: the last of all may have run after the messages had ended, and a GPU that computes wrong now and then needs
// many.
class ProductsBeside final : public WorkBeside {
 public:
  ProductsBeside(const Work& work, Engine& engine)
      : WorkBeside(name_of(work), nullptr),
        rank_(engine.rank()),
        products_(engine.queue(), work.type == "fp8" ? ProductType::fp8 : ProductType::bf16, work.n, work.k) {}

 private:
  void do_prepare(int, bool poison) override {
    if (poison) products_.poison();
  }
  void do_operate() override { products_.multiply_on(stream()); }
  void do_check_sample() override {
    if (!wrong_) wrong_ = products_.compare();
  }

  Verification do_verify() override {
    Verification found;
    do_check_sample();
    const std::optional<WrongResult> wrong = std::exchange(wrong_, std::nullopt);
    if (!wrong) return found;
    found.wrong_elements = wrong->words;  // at least, since a word has several
    found.first = WrongElement{.rank = rank_,
                               .offset = wrong->byte / bytes_of_result,
                               .wanted = fmt::format("the bits {:#018x} from there on", wrong->wanted),
                               .got = fmt::format("{:#018x}", wrong->got)};
    return found;
  }

  static constexpr std::uint64_t bytes_of_result = 2;  // of an element
  int rank_;
  MatrixProducts products_;
  std::optional<WrongResult> wrong_;
};

// Copies to the host of a pattern that differs at each address.
class CopiesBeside final : public WorkBeside {
 public:
  CopiesBeside(const Work& work, Engine& engine)
      : WorkBeside(name_of(work), nullptr),
        rank_(engine.rank()),
        source_(make_device_memory(d2h_bytes.count)),
        target_(make_pinned_memory(d2h_bytes.count)) {
    fill_memory_pattern(engine.stream(), source_.get(), words, seed);
    engine.queue().finish();
  }

 private:
  static constexpr std::uint64_t words = d2h_bytes.count / 8, seed = 1;

  void do_prepare(int, bool poison) override {
    if (poison) std::memset(target_.get(), poison_value, d2h_bytes.count);
  }

  void do_operate() override {
    check(cudaMemcpyAsync(target_.get(), source_.get(), d2h_bytes.count, cudaMemcpyDeviceToHost, stream()),
          "cudaMemcpyAsync");
  }

  Verification do_verify() override {
    Verification found;
    const auto* const got = static_cast<const std::uint64_t*>(target_.get());
    for (std::uint64_t i = 0; i < words; ++i) {
      const std::uint64_t wanted = memory_pattern(seed, i);
      if (got[i] == wanted) continue;
      ++found.wrong_elements;
      if (!found.first)
        found.first = WrongElement{.rank = rank_,
                                   .offset = i,
                                   .wanted = fmt::format("{:#018x}", wanted),
                                   .got = fmt::format("{:#018x}", got[i])};
    }
    return found;
  }

  int rank_;
  DeviceMemory source_;
  PinnedMemory target_;
};

}  // namespace

std::unique_ptr<WorkBeside> make_work_beside(const Work& work, Engine& engine, ncclComm_t communicator,
                                             const Layout& layout, std::byte* memory, cudaStream_t stream) {
  std::unique_ptr<WorkBeside> made;
  with_name(name_of(work), [&] {
    switch (work.kind) {
      case Work::Kind::collective:
        made = std::make_unique<CollectiveBeside>(work, engine, communicator, layout, memory, stream);
        break;
      case Work::Kind::gemm:
        made = std::make_unique<ProductsBeside>(work, engine);
        break;
      case Work::Kind::d2h:
        made = std::make_unique<CopiesBeside>(work, engine);
        break;
    }
  });
  return made;
}

std::string unavailable_beside(const Work& work) {
  if (work.kind != Work::Kind::gemm) return "";
  return MatrixProducts::unavailable(work.type == "fp8" ? ProductType::fp8 : ProductType::bf16);
}

}  // namespace p5::nccl
