#include "bench/backends/nccl/session.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <utility>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/tuner_control.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"

namespace p5::nccl {

Registration::Registration(const std::string& kind, ncclComm_t communicator, std::byte* memory, std::uint64_t bytes)
    : communicator_(communicator), window_(kind == "symmetric") {
  if (kind == "none") return;
  const OptionalCalls& calls = optional_calls();
  if (window_ ? !calls.window_register || !calls.window_deregister : !calls.comm_register || !calls.comm_deregister)
    throw CaseError(fmt::format("{} registration of buffers needs NCCL {}; this is {}", kind, window_ ? "2.27" : "2.19",
                                library_version()));
  check(window_ ? calls.window_register(communicator, memory, bytes, &handle_, symmetric_window)
                : calls.comm_register(communicator, memory, bytes, &handle_),
        window_ ? "ncclCommWindowRegister" : "ncclCommRegister");
}

Registration::~Registration() {
  if (!handle_) return;
  if (window_)
    optional_calls().window_deregister(communicator_, handle_);
  else
    optional_calls().comm_deregister(communicator_, handle_);
}

Registration::Registration(Registration&& other) noexcept
    : communicator_(other.communicator_), handle_(std::exchange(other.handle_, nullptr)), window_(other.window_) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(handle_, other.handle_);
  std::swap(window_, other.window_);
  return *this;
}

namespace {

void require_possible(const Case& c) {
  if (c.in_place && !c.collective->in_place_offset)
    throw CaseError(fmt::format("{} has no in-place form", c.collective->name));
  if (c.calls.unalign > most_unalign)
    throw CaseError(
        fmt::format("buffers {} elements after an aligned address, at most {}", c.calls.unalign, most_unalign));
  if (c.calls.aggregate > most_aggregate || (c.calls.aggregate > 1 && !c.collective->fits_a_group(c.pattern)))
    throw CaseError(fmt::format("{} operations {} cannot be one group", c.calls.aggregate, operation_of(c)));
}

// Memory before the buffers.
std::uint64_t flags_bytes(const Case& c) { return c.collective->device_initiated ? peer_flags_bytes : 0; }

std::vector<Layout> checked_layouts(const Case& c, std::uint64_t usable_memory) {
  require_possible(c);
  return layouts_with_works(c, usable_memory - std::min(usable_memory, flags_bytes(c)));
}

std::uint64_t bytes_of(const std::vector<Layout>& layouts) {
  std::uint64_t bytes = 0;
  for (const Layout& layout : layouts) bytes += layout.bytes();
  return bytes;
}

// Concurrent works have a communicator each, even if their groups of ranks are equal; later cases use it again. In a
// replay, operations on equal groups share one communicator, as in the job.
std::vector<ncclComm_t> form_beside(const Case& c, Engine& engine) {
  std::vector<Engine::BesideGroup> groups;
  std::map<std::string, int> alike;
  for (const Work& work : works_of(c)) {
    if (!work.planned) continue;
    const std::optional<RankInGroup> place = rank_in_group(work.planned->rounds->front(), engine.rank(), 0);
    groups.push_back({.key = c.replay ? "step " + work.group : fmt::format("{} {}", work.group, alike[work.group]++),
                      .work = name_of(work),
                      .group = place ? std::optional(place->group) : std::nullopt});
  }
  return groups.empty() ? std::vector<ncclComm_t>{} : engine.form_beside(groups);
}

// Makes the tuner plugin force a setting on calls queued during its lifetime. The barrier of Engine::align() is queued
// before, so that it is the same for all settings.
class ForcedSetting {
 public:
  explicit ForcedSetting(const std::string& setting) : forces_(!setting.empty()) {
    if (!forces_) return;
    if (!tuner_control().loaded())
      throw CaseError(fmt::format(
          "{} cannot be forced: NCCL has not loaded the worker's tuner plugin (NCCL_TUNER_PLUGIN=STATIC_PLUGIN)",
          setting));
    tuner_control().force(setting);
  }
  ~ForcedSetting() {
    if (forces_) tuner_control().release();
  }
  ForcedSetting(const ForcedSetting&) = delete;
  ForcedSetting& operator=(const ForcedSetting&) = delete;

 private:
  bool forces_;
};

}  // namespace

NcclSession::NcclSession(Case c, int round, std::optional<RankInGroup> place, Engine& engine,
                         std::uint64_t usable_memory)
    : case_(std::move(c)),
      round_(round),
      place_(std::move(place)),
      engine_(engine),
      enqueue_(case_.replay ? nullptr : enqueue_for(case_)),
      layouts_(checked_layouts(case_, usable_memory)),
      communicators_(form_beside(case_, engine)),
      memory_(engine.arena().reserve(flags_bytes(case_) + bytes_of(layouts_))),
      buffers_(case_, layouts_.front(), memory_ + flags_bytes(case_), engine.queue()),
      start_(make_timing_event()),
      stop_(make_timing_event()),
      turn_{.slots = layouts_.front().slots} {
  if (!works_of(case_).empty() && unavailable().empty()) open_works();
  if (!place_ || case_.replay) return;
  if (case_.collective->pairwise) peer_ = engine_.rank_in_communicator(place_->group[place_->member.rank == 0 ? 1 : 0]);
  if (case_.collective->device_initiated) {
    no_peers_ = Peers::unavailable(engine_.communicator());
    if (!no_peers_.empty()) return;
    peers_ = std::make_unique<Peers>(engine_.communicator(), place_->member, memory_,
                                     flags_bytes(case_) + bytes_of(layouts_), engine_.queue());
  }
  registration_ = {case_.calls.registration, engine_.communicator(), buffers_.memory(), buffers_.bytes()};
  reduction_ = {case_, place_->member, engine_.communicator()};
  rows_ = {case_, place_->member, stream()};
  buffers_.fill(*place_, round_, fills_, slots());
}

void NcclSession::open_works() {
  std::size_t collective = 0;
  std::byte* memory = memory_ + layouts_.front().bytes();
  for (const Work& work : works_of(case_)) {
    if (!work.planned) {
      works_.push_back(make_work_beside(work, engine_, nullptr, {}, nullptr, nullptr));
      continue;
    }
    const Layout& layout = layouts_[collective + 1];
    works_.push_back(
        make_work_beside(work, engine_, communicators_[collective], layout, memory, case_.replay ? stream() : nullptr));
    memory += layout.bytes();
    ++collective;
  }
  if (case_.replay) {
    step_ = std::make_unique<StepOnDevice>(*case_.replay, engine_, works_);
    turn_.slots = step_->most_steps();
    return;
  }
  for (std::size_t part = 0; part < parts(); ++part) ends_.push_back(make_timing_event());
  marks_.resize(parts());
}

static std::string unavailable_of(const Case& c) {
  if (std::string why = no_cta_policy(c.calls.cta_policy); !why.empty()) return why;
  constexpr int first_version = 22400, first_capability = 90;
  if (!is_float8(c.type) || c.collective->device_initiated) return "";
  if (library_number() < first_version)
    return fmt::format("{} needs NCCL 2.24; this is {}", name_of(c.type), library_version());
  if (c.collective->reduces && compute_capability() < first_capability)
    return fmt::format("NCCL reduces {} on GPUs of compute capability 9.0 and later; this has {}.{}", name_of(c.type),
                       compute_capability() / 10, compute_capability() % 10);
  return "";
}

std::string NcclSession::unavailable() const {
  if (std::string why = unavailable_of(case_); !why.empty()) return why;
  if (!no_peers_.empty()) return no_peers_;
  for (const Work& work : works_of(case_))
    if (const std::string why = work.planned ? unavailable_of(*work.planned) : unavailable_beside(work); !why.empty())
      return fmt::format("{}: {}", name_of(work), why);
  return case_.replay ? StepOnDevice::unavailable(*case_.replay) : "";
}

void NcclSession::close() {
  graphs_.clear();
  registration_ = {};
  reduction_ = {};
  peers_.reset();
  step_.reset();
  works_.clear();
}

// Resources of an aborted communicator are not released, because that would use the communicator.
void NcclSession::abort() {
  for (auto& [key, graph] : graphs_) static_cast<void>(graph.release());
  graphs_.clear();
  registration_.forget();
  reduction_.forget();
  if (peers_) {
    peers_->abandon();
    constexpr Seconds to_end{0.2};  // for kernels that wait for peers: the memory goes with the communicator
    engine_.queue().idle_within(to_end);
  }
  for (const std::unique_ptr<WorkBeside>& work : works_) work->forget();
}

// ---- operations

void NcclSession::operate(int slot) {
  if (case_.replay) return step_->queue();
  enqueue_({.of = case_,
            .place = *place_,
            .rows = rows_,
            .reduction = reduction_.get(),
            .input = buffers_.input(slot, *place_),
            .output = buffers_.output(slot, *place_),
            .communicator = engine_.communicator(),
            .peer = peer_,
            .stream = stream(),
            .peers = peers_.get()});
}

int NcclSession::operations_of(const SampleRequest& request) const {
  return request.quantity == Quantity::latency ? case_.calls.aggregate : request.operations;
}

void NcclSession::operate_on(int first, int count) {
  const int together = case_.calls.aggregate;
  for (int done = 0; done < count; done += together) {
    if (together > 1) check(ncclGroupStart(), "ncclGroupStart");
    for (int i = done; i < std::min(done + together, count); ++i) operate((first + i) % slots());
    if (together > 1) check(ncclGroupEnd(), "ncclGroupEnd");
  }
}

void NcclSession::operate_with_setting(int first) {
  const ForcedSetting forcing(setting_);
  operate_on(first, case_.calls.aggregate);
}

void NcclSession::launch(int first, int count) {
  if (case_.calls.cuda_graph)
    check(cudaGraphLaunch(graphs_.at({first, count, setting_}).get(), stream()), "cudaGraphLaunch");
  else
    operate_on(first, count);
}

// Untimed. The first launch of a graph takes longer, so it is launched once here; in-place inputs do not survive that.
void NcclSession::prepare_graph(int first, int count) {
  if (!case_.calls.cuda_graph || !place_) return;
  GraphLaunch& graph = graphs_[{first, count, setting_}];
  if (graph) return;
  const ForcedSetting forcing(setting_);
  with_selection([&] { graph = capture(stream(), [&] { operate_on(first, count); }); });
  launch(first, count);
  engine_.queue().mark(count);
  engine_.queue().finish();
}

// Performs `operate` and takes NCCL's choice for it from the log, unless that with this setting is known.
void NcclSession::with_selection(const std::function<void()>& operate) {
  const bool known = selection_ && selected_with_ == setting_;
  const bool logged = place_->member.rank == 0 && !case_.collective->pairwise && !case_.replay && !known;
  if (logged) engine_.log().start();
  operate();
  if (!logged) return;
  selection_ = engine_.log().stop();
  selected_with_ = setting_;
}

// The choice for calls in graphs may be another one, since NCCL registers their buffers: see prepare_graph().
void NcclSession::operate_first() {
  if (case_.collective->device_initiated && place_->member.rank == 0)
    selection_ = selection_of(case_), selected_with_ = setting_;
  const std::uint64_t calls = tuner_control().last_call().number;
  if (case_.calls.cuda_graph)
    operate_with_setting(0);
  else
    with_selection([&] { operate_with_setting(0); });
  require_forced_setting(calls);
}

// The result is equal on all ranks, as NCCL's offers are.
void NcclSession::require_forced_setting(std::uint64_t calls_before) const {
  if (setting_.empty()) return;
  const TunerCall call = tuner_control().last_call();
  if (call.number == calls_before)
    throw CaseError(fmt::format("{} cannot be forced: NCCL does not call the tuner plugin for this case", setting_));
  if (call.granted) return;
  // Version 2 of the tuner interface passes no offers; NCCL 2.31 passes none for kernels on symmetric memory.
  if (call.offers.empty())
    throw CaseError(fmt::format("{} cannot be forced: for this case NCCL shows the tuner nothing to choose", setting_));
  std::vector<std::string> offered;
  for (const Offer& offer : call.offers) offered.push_back(offer.setting);
  throw CaseError(fmt::format("{} cannot be forced: for this case NCCL offers only {}", setting_, join(offered)));
}

void NcclSession::warm_up(int operations, const std::string& setting) {
  setting_ = setting;
  if (case_.replay) step_->prepare(std::max(operations, 1), false);
  if (place_) {
    for (int i = 0; i < std::max(operations, 1); ++i) {
      i == 0 ? operate_first() : operate_with_setting(i * case_.calls.aggregate % slots());
      engine_.queue().mark(case_.calls.aggregate);
    }
  }
  engine_.queue().finish();
  if (!case_.beside.empty()) {
    const ConcurrentRequest once{.operations = std::vector<int>(parts(), 1)};
    for (std::size_t part = 1; part < parts(); ++part) {
      ConcurrentRequest alone{.operations = std::vector<int>(parts(), 0)};
      alone.operations[part] = 1;
      run_together(alone, false);
    }
    run_together(once, false);
    return;
  }
  if (case_.replay) step_->settle();
  if (!place_ || case_.replay) return;  // a device's queue may be too short for a whole step behind the gate
  // CUDA loads a kernel at its first launch and may synchronize the device then, which would never end behind the gate.
  prepare_graph(turn_.next, case_.calls.aggregate);
  sample_device_time(case_.calls.aggregate);
}

// ---- time

void NcclSession::start_clock() { check(cudaEventRecord(start_.get(), stream()), "cudaEventRecord"); }
void NcclSession::stop_clock() { check(cudaEventRecord(stop_.get(), stream()), "cudaEventRecord"); }

double NcclSession::seconds_between(const Event& start, const Event& end) {
  float elapsed_ms = 0;
  check(cudaEventElapsedTime(&elapsed_ms, start.get(), end.get()), "cudaEventElapsedTime");
  return elapsed_ms / 1e3;
}

// Seconds per operation, from the first call until the host sees the stream idle: an application's cost of the burst,
// and nccl-tests' definition. CUDA events would exclude launch and completion.
double NcclSession::burst(int operations) {
  engine_.align();
  engine_.queue().finish(Waiting::alert);
  const ForcedSetting forcing(setting_);
  const auto start = Clock::now();
  launch(turn_.next, operations);
  const double queued = since(start).count;
  engine_.queue().finish(Waiting::alert);
  const double elapsed = since(start).count;
  engine_.queue().mark(operations);
  if (std::exchange(host_operations_, operations) != operations) host_times_.clear();
  host_times_.push_back(queued / operations);
  return elapsed / operations;
}

// Queues everything before any of it runs, so that the time excludes launches and ranks start together.
double NcclSession::sample_device_time(int operations) {
  engine_.close_gate();
  try {
    engine_.align();
    start_clock();
    {
      const ForcedSetting forcing(setting_);
      launch(turn_.next, operations);
    }
    stop_clock();
    engine_.queue().mark(operations);
  } catch (...) {
    engine_.open_gate();
    throw;
  }
  engine_.open_gate();
  engine_.queue().finish();
  engine_.check_gate();
  return seconds_between(start_, stop_) / operations;
}

// A rank outside all groups has no time to report, and does not wait for its device, which an active rank may share.
double NcclSession::seconds_per_operation(const SampleRequest& request) {
  if (!place_) return std::numeric_limits<double>::quiet_NaN();
  const double seconds =
      request.quantity == Quantity::throughput ? burst(request.operations) : sample_device_time(operations_of(request));
  return case_.pattern == "ping_pong" ? seconds / 2 : seconds;  // a round trip is two messages
}

Times NcclSession::sample(const SampleRequest& request) {
  setting_ = request.setting;
  const int operations = operations_of(request);
  const int most = request.quantity == Quantity::device ? std::min(slots(), most_queued) : slots();
  if (operations < 1 || operations > most)
    throw CaseError(fmt::format("a sample of {} operations, at most {}", operations, most));
  std::vector<double> times;
  for (int s = 0; s < request.samples; ++s) {
    const bool last = s + 1 == request.samples;
    prepare_graph(turn_.next, operations);
    const bool poison = request.poison_last && last;
    if (case_.replay)
      step_->prepare(operations, poison);
    else if (poison && place_ && !case_.in_place)
      buffers_.poison(turn_.next, operations);
    times.push_back(seconds_per_operation(request));
    if (step_ && step_->products()) step_->products()->check_sample();
    turn_.take(operations);
  }
  return {times};
}

// ---- works beside the case

void Backlog::begin() {
  finished_ = 0;
  for (Mark& each : marks_) unused_.push_back(std::move(each.event));
  marks_.clear();
}

void Backlog::mark(cudaStream_t stream, int launched) {
  if (unused_.empty()) unused_.push_back(make_marker_event());
  marks_.push_back({std::move(unused_.back()), launched});
  unused_.pop_back();
  check(cudaEventRecord(marks_.back().event.get(), stream), "cudaEventRecord");
}

int Backlog::finished() {
  for (; !marks_.empty() && has_ended(cudaEventQuery(marks_.front().event.get()), "cudaEventQuery");
       marks_.pop_front()) {
    finished_ = marks_.front().launched;
    unused_.push_back(std::move(marks_.front().event));
  }
  return finished_;
}

bool NcclSession::runs(std::size_t part, const ConcurrentRequest& request) const {
  return request.operations[part] > 0 && (part == 0 ? place_.has_value() : works_[part - 1]->takes_part());
}

ConcurrentTimes NcclSession::sample_concurrently(const ConcurrentRequest& request) {
  setting_ = request.setting;
  if (request.operations.size() != parts() || case_.beside.empty())
    throw CaseError(fmt::format("a sample of {} works, where there are {}", request.operations.size(), parts()));
  ConcurrentTimes times(1);
  for (int s = 0; s < request.samples; ++s)
    times.front().push_back(run_together(request, request.poison_last && s + 1 == request.samples));
  return times;
}

// All parts wait for the start on the device, behind the gate; then each has its end on the device's clock.
std::vector<double> NcclSession::run_together(const ConcurrentRequest& request, bool poison) {
  ran_together_.assign(parts(), false);
  constexpr int most_marks = 50;
  int operations = 0, slot = 0;
  for (std::size_t part = 0; part < parts(); ++part) {
    marks_[part].used = 0;
    if (!runs(part, request)) continue;
    marks_[part].every = (request.operations[part] + most_marks - 1) / most_marks;
    ran_together_[part] = true;
    operations += request.operations[part];
    if (part > 0) {
      works_[part - 1]->prepare(request.operations[part], poison);
    } else {
      slot = turn_.take(request.operations[part]);
      if (poison && !case_.in_place) buffers_.poison(turn_.first, turn_.count);
    }
  }
  engine_.close_gate();
  try {
    engine_.align_all();
    start_clock();
    for (std::size_t part = 1; part < parts(); ++part)
      if (ran_together_[part]) check(cudaStreamWaitEvent(stream_of(part), start_.get(), 0), "cudaStreamWaitEvent");
    operate_together(request, slot);
    for (std::size_t part = 1; part < parts(); ++part)
      if (ran_together_[part]) check(cudaStreamWaitEvent(stream(), ends_[part].get(), 0), "cudaStreamWaitEvent");
    engine_.queue().mark(std::max(operations, 1));
  } catch (...) {
    engine_.open_gate();
    throw;
  }
  engine_.open_gate();
  engine_.queue().finish(Waiting::alert);
  engine_.check_gate();
  for (std::size_t part = 1; part < parts(); ++part)
    if (ran_together_[part]) works_[part - 1]->check_sample();
  return request.steady ? steady_seconds(progress_of_parts(request)) : ends_of_parts();
}

std::vector<double> NcclSession::ends_of_parts() const {
  std::vector<double> ends(parts(), std::numeric_limits<double>::quiet_NaN());
  for (std::size_t part = 0; part < parts(); ++part)
    if (ran_together_[part]) ends[part] = seconds_between(start_, ends_[part]);
  return ends;
}

std::vector<WorkProgress> NcclSession::progress_of_parts(const ConcurrentRequest& request) const {
  std::vector<WorkProgress> all(parts());
  for (std::size_t part = 0; part < parts(); ++part) {
    const Marks& marks = marks_[part];
    for (int i = 0; i < marks.used; ++i) {
      all[part].seconds.push_back(seconds_between(start_, marks.events[static_cast<std::size_t>(i)]));
      all[part].operations.push_back((i + 1) * marks.every);
    }
    if (!ran_together_[part]) continue;
    all[part].seconds.push_back(seconds_between(start_, ends_[part]));
    all[part].operations.push_back(request.operations[part]);
  }
  return all;
}

void NcclSession::mark(std::size_t part) {
  Marks& marks = marks_[part];
  if (marks.events.size() == static_cast<std::size_t>(marks.used)) marks.events.push_back(make_timing_event());
  check(cudaEventRecord(marks.events[static_cast<std::size_t>(marks.used++)].get(), stream_of(part)),
        "cudaEventRecord");
}

void NcclSession::operate_together(const ConcurrentRequest& request, int slot) {
  LaunchOrder order = launch_order(request);
  backlogs_.resize(parts());
  for (Backlog& each : backlogs_) each.begin();
  const auto launch_one_of = [&](std::size_t part) {
    order.launched(part);
    if (!ran_together_[part]) return;
    if (part == 0) {
      const ForcedSetting forcing(setting_);
      operate(std::exchange(slot, (slot + 1) % turn_.slots));
    } else {
      works_[part - 1]->operate();
    }
    const int launched = order.launched_of(part);
    if (launched % Backlog::every == 0) backlogs_[part].mark(stream_of(part), launched);
    if (launched == request.operations[part])
      check(cudaEventRecord(ends_[part].get(), stream_of(part)), "cudaEventRecord");
    else if (request.steady && launched % marks_[part].every == 0)
      mark(part);
  };
  for (int launched = 0; !order.all_launched(); ++launched) {
    std::optional<std::size_t> part = order.next();
    if (launched == LaunchOrder::most_unfinished || !part) engine_.open_gate();
    const auto look_again = [&] {
      for (std::size_t each = 0; each < parts(); ++each)
        order.finished(each, ran_together_[each] ? backlogs_[each].finished() : order.launched_of(each));
      return (part = order.next()).has_value();
    };
    if (!part) engine_.queue().wait_until(look_again, Waiting::alert);
    launch_one_of(*part);
  }
}

LaunchOrder NcclSession::launch_order(const ConcurrentRequest& request) const {
  std::vector<LaunchOrder::Part> all(parts());
  for (std::size_t part = 0; part < parts(); ++part)
    all[part] = {request.operations[part], part == 0 || case_.beside[part - 1].collective != nullptr};
  return LaunchOrder(all);
}

std::string NcclSession::unfinished() const {
  std::vector<std::string> names;
  for (std::size_t part = 0; part < ran_together_.size(); ++part)
    if (ran_together_[part] && cudaEventQuery(ends_[part].get()) == cudaErrorNotReady)
      names.push_back(part == 0 ? std::string(case_.collective->name) : works_[part - 1]->name());
  return names.empty() ? "" : "unfinished: " + join(names);
}

std::optional<double> NcclSession::host_time() {
  return host_times_.empty() ? std::nullopt : std::optional(median(host_times_));
}

std::vector<Offer> NcclSession::cost_table() {
  if (!place_) return {};
  const std::uint64_t calls = tuner_control().last_call().number;
  operate_on(0, case_.calls.aggregate);
  engine_.queue().mark(case_.calls.aggregate);
  const TunerCall call = tuner_control().last_call();
  engine_.queue().finish();
  if (place_->member.rank != 0 || call.number == calls) return {};
  return call.offers;
}

Verification NcclSession::verify() {
  Verification all = verify_own();
  const auto add = [&](WorkBeside& work) {
    if (!work.takes_part()) return;
    const Verification its = work.verify();
    all.wrong_elements += its.wrong_elements;
    if (!all.first) all.first = its.first;
  };
  for (const std::unique_ptr<WorkBeside>& work : works_) add(*work);
  if (step_ && step_->products()) add(*step_->products());
  return all;
}

Verification NcclSession::verify_own() {
  if (case_.replay) return {};
  const bool again = case_.in_place || turn_.count == 0;
  if (again) fill_checked_ = ++fills_;
  if (!place_) return {};
  if (again) {
    const int operations = case_.calls.aggregate;
    prepare_graph(0, operations);
    buffers_.fill(*place_, round_, fills_, operations);
    const ForcedSetting forcing(setting_);
    launch(0, operations);
    engine_.queue().mark(operations);
    turn_.first = 0;
    turn_.count = operations;
  }
  return buffers_.check(*place_, round_, fill_checked_, turn_.first, turn_.count);
}

}  // namespace p5::nccl
