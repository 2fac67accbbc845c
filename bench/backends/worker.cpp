// Runs the library under test in worker processes, one per rank: orders are sent down, times returned. If a worker dies
// or hangs, all ranks abandon theirs and start new ones.
#include "bench/backends/worker.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "bench/base/connection.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/base/thread.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/expected.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {

namespace {

// Maximum size of an answer, which grows with the number of ranks.
constexpr std::size_t max_answer = 64 << 10;

}  // namespace

std::string query_ras(const std::string& address, Seconds limit) {
  const Clock::time_point deadline = deadline_in(limit);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each; each = each->ai_next) {
    const Connection service(*each->ai_addr, each->ai_addrlen, deadline);
    if (!service.connected()) continue;
    // Limits the service's own wait for processes that do not answer.
    const int timeout_s = std::max(1, static_cast<int>(limit.count / 2));
    if (!service.send(fmt::format("TIMEOUT {}\n", timeout_s)) ||
        !service.receive(Connection::Until::line, max_answer).complete)
      continue;
    if (!service.send("VERBOSE STATUS\n")) continue;
    std::string answer = service.receive(Connection::Until::closed, max_answer).text;
    std::ranges::replace_if(
        answer, [](char c) { return (c < ' ' && c != '\n') || c > '~'; }, '?');
    return answer;
  }
  return "";
}

namespace {

using nlohmann::json;

// A killed process that still exists after this time is held by the driver.
constexpr Seconds reap_limit{10};

// Timeout for a worker to finalize its library and exit.
constexpr Seconds dismiss_limit{5};

// Share of the device's free memory that buffers may take; the library allocates its own buffers besides.
constexpr double gpu_memory_share = 0.85;

// Number of ranks from which the join limit is proportional to it.
constexpr double ranks_of_limit = 1024;

// Bytes read of a worker's log, from its start or its end, and kept of the logs of all starts that failed.
constexpr std::size_t most_of_start = 256 << 10, most_of_failures = 1 << 20;

constexpr std::size_t most_warnings = 3;

// Lines kept of a failed worker's output and of NCCL RAS status, and their length in bytes.
constexpr std::size_t most_last_lines = 200, longest_line = 300;
constexpr Seconds ras_limit{6};

std::vector<std::string> last_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    if (!line.empty()) lines.push_back(line.substr(0, longest_line));
  if (lines.size() > most_last_lines) lines.erase(lines.begin(), lines.end() - most_last_lines);
  return lines;
}

}  // namespace

// A member of a reply. A missing one or one of another type is an error of the worker.
template <class Value>
Value told(const json& reply, const char* name) try {
  const json& there = json_fields::member(reply, name);
  if constexpr (std::same_as<Value, json>)
    return there;
  else
    return json_fields::read_as<Value>(there);
} catch (const json_fields::BadValue& problem) {
  throw CaseError(fmt::format("its worker's reply is not understood: {}: {}", name, problem.what()));
}

class WorkerSession final : public Session {
 public:
  // `form`: as in the "open" order.
  WorkerSession(WorkerBackend& backend, const Case& c, int round, const std::string& form, Seconds limit)
      : backend_(backend), limit_(limit) {
    const Round& groups = c.rounds->at(static_cast<std::size_t>(round));
    const std::optional<RankInGroup> place = rank_in_group(groups, backend.rank(), root_in(c, round));
    const Round& communicators = c.communicators ? *c.communicators : groups;
    std::size_t members = 0;
    for (const Group& group : communicators) members += group.size();
    json order{{"order", "open"}, {"case", protocol::to_json(c, round)}, {"round", round}, {"form", form}};
    order["group"] = place ? json(backend.numbers_of(place->group)) : json(nullptr);
    if (c.communicators)
      if (const std::optional<RankInGroup> its = rank_in_group(communicators, backend.rank(), 0))
        order["communicator"] = backend.numbers_of(its->group);
    order["alone"] = communicators.size() == 1;
    order["pauses"] = std::cmp_less(members, backend.ranks());
    order["memory"] = backend.agreed_memory().count;
    takes_part_.push_back(place.has_value());
    if (c.replay) order["replay"] = protocol::to_json(*c.replay);
    for (const Work& work : works_of(c)) {
      const std::optional<RankInGroup> its =
          work.planned ? rank_in_group(work.planned->rounds->front(), backend.rank(), 0) : std::nullopt;
      order["beside"].push_back(
          protocol::to_json(work, its ? std::optional(backend.numbers_of(its->group)) : std::nullopt));
      takes_part_.push_back(!work.planned || its);
    }
    const json reply = backend_.ask(order, form.empty() ? limit : backend.rendezvous_limit());
    slots_ = told<int>(reply, "slots");
    if (reply.contains("unavailable")) unavailable_ = told<std::string>(reply, "unavailable");
    const CommunicatorStep* const step = step_of(c);
    taken_before_ = step && step->while_joining;
    if (slots_ < 1) throw CaseError("its worker reports no buffer slot");
  }

  ~WorkerSession() override {
    try {
      close();
    } catch (const CaseError&) {
      backend_.keep_for_next_step(std::current_exception());
    }
  }
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  void close() override {
    if (!std::exchange(closed_, true) && backend_.joined()) ask({{"order", "close"}});
  }

  int slots() const override { return slots_; }
  std::string unavailable() const override { return unavailable_; }

  void warm_up(int operations, const std::string& setting) override {
    ask({{"order", "warm_up"}, {"operations", operations}, {"setting", setting}});
  }

  Times sample(const SampleRequest& request) override {
    json order = protocol::to_json(request);
    order["order"] = "sample";
    const auto start = Clock::now();
    const auto samples = told<std::vector<std::optional<double>>>(ask(order), "seconds");
    if (std::cmp_not_equal(samples.size(), request.samples))
      throw CaseError(fmt::format("its worker returned {} times for {} samples", samples.size(), request.samples));
    std::vector<double> times;
    for (const std::optional<double>& each : samples) times.push_back(checked(each, takes_part_.front()));
    const Seconds waited = taken_before_ ? backend_.time_of_joining() : since(start);
    require_within(waited, request.operations * sum_of(times));
    longest_order_ = {std::max(longest_order_.count, waited.count)};
    return {times};
  }

  ConcurrentTimes sample_concurrently(const ConcurrentRequest& request) override {
    json order = protocol::to_json(request);
    order["order"] = "sample_concurrently";
    const auto start = Clock::now();
    const auto samples = told<std::vector<std::vector<std::optional<double>>>>(ask(order), "seconds");
    if (std::cmp_not_equal(samples.size(), request.samples))
      throw CaseError(fmt::format("its worker returned {} times for {} samples", samples.size(), request.samples));
    std::vector<std::vector<double>> times;
    double together = 0;
    for (const std::vector<std::optional<double>>& sample : samples) {
      if (sample.size() != takes_part_.size())
        throw CaseError(fmt::format("its worker returned {} times for {} works", sample.size(), takes_part_.size()));
      std::vector<double>& ends = times.emplace_back();
      for (std::size_t work = 0; work < sample.size(); ++work)
        ends.push_back(checked(sample[work], takes_part_[work] && request.operations.at(work) > 0));
      together += latest_of(ends);
    }
    require_within(since(start), together);
    return {times};
  }

  Verification verify() override {
    Verification found = protocol::verification_from_json(ask({{"order", "verify"}}));
    if (found.wrong_elements > 0 && !found.first)
      throw CaseError(fmt::format("its worker's reply is not understood: it names none of {} wrong elements",
                                  found.wrong_elements));
    if (found.first) found.first->rank = backend_.rank();  // a worker has elements of its own rank only
    return found;
  }

  std::optional<Selection> selection() override {
    return protocol::selection_from_json(told<json>(ask({{"order", "selection"}}), "selection"));
  }

  std::vector<std::string> probe_nics(Seconds limit) override {
    // The worker's limit leaves out the time in which it is not scheduled, so this side waits longer.
    constexpr double busy_host = 3;
    const json reply = backend_.ask({{"order", "probe_nics"}, {"limit_s", limit.count}}, {busy_host * limit.count});
    auto nics = told<std::vector<std::string>>(reply, "nics");
    if (nics.empty()) throw CaseError("its worker reports no NIC");
    return nics;
  }

  std::optional<double> host_time() override {
    const auto seconds = told<std::optional<double>>(ask({{"order", "host_time"}}), "seconds");
    if (seconds && !(*seconds > 0)) throw CaseError(fmt::format("its worker returned {} s as a time", *seconds));
    require_within(longest_order_, seconds.value_or(0));
    return seconds;
  }

  CommunicatorCosts communicator_costs() override {
    return told<CommunicatorCosts>(ask({{"order", "communicator_costs"}}), "costs");
  }

  std::vector<Offer> cost_table() override {
    return protocol::cost_table_from_json(told<json>(ask({{"order", "cost_table"}}), "cost_table"));
  }

 private:
  json ask(const json& order) { return backend_.ask(order, limit_); }

  // A time that the worker reported; NaN where it reported null.
  static double checked(const std::optional<double>& time, bool expected) {
    if (time.has_value() != expected || (time && !(*time > 0)))
      throw CaseError(fmt::format("its worker returned {} as a time", time ? fmt::format("{} s", *time) : "null"));
    return time.value_or(std::numeric_limits<double>::quiet_NaN());
  }

  static double sum_of(const std::vector<double>& times) {
    double sum = 0;
    for (const double each : times) sum += std::isnan(each) ? 0 : each;
    return sum;
  }
  static double latest_of(const std::vector<double>& ends) {
    double latest = 0;
    for (const double each : ends) latest = std::isnan(each) ? latest : std::max(latest, each);
    return latest;
  }

  // The sum of times must not exceed the wall time of the order; a device clock may be slightly fast.
  static void require_within(Seconds waited, double sum) {
    constexpr double fast_clock = 1.01;
    if (sum > waited.count * fast_clock)
      throw CaseError(
          fmt::format("its worker's times add up to more than the {} that it took to answer", to_text(waited)));
  }

  WorkerBackend& backend_;
  Seconds limit_;
  int slots_ = 1;
  bool closed_ = false;
  std::string unavailable_;
  bool taken_before_ = false;     // the sample is of the time in which the rank joined
  Seconds longest_order_{0};      // wall time of the longest order for samples
  std::vector<bool> takes_part_;  // in the case's operation and in each work beside it
};

WorkerBackend::WorkerBackend(ControlPlane& control, WorkerOptions options)
    : WorkerBackend(control, std::move(options), std::make_shared<Shared>()) {
  shared_->last_abort_epoch = control_.next_abort_range();
}

WorkerBackend::WorkerBackend(ControlPlane& control, WorkerOptions options, std::shared_ptr<Shared> shared)
    : control_(control), options_(std::move(options)), shared_(std::move(shared)) {}

WorkerBackend::~WorkerBackend() {
  if (worker_) worker_->dismiss(dismiss_limit);
}

int WorkerBackend::rank() const { return control_.hosted().front(); }

Group WorkerBackend::numbers_of(const Group& ranks) const {
  Group numbers;
  for (const int each : ranks)
    numbers.push_back(static_cast<int>(std::ranges::find(together_, each) - together_.begin()));
  return numbers;
}

// Sends an order and returns its reply. A failure here interrupts the wait of all other ranks, and theirs interrupts
// this one.
json WorkerBackend::ask(const json& order, Seconds limit) {
  if (kept_) std::rethrow_exception(std::exchange(kept_, nullptr));
  if (!worker_) throw CaseError("it has no worker");
  send(order);
  return wait(limit);
}

void WorkerBackend::send(const json& order) {
  order_began_ = worker_->log().size();
  worker_->send(order);
}

json WorkerBackend::wait(Seconds limit) {
  const double left = options_.deadline ? std::max(-since(*options_.deadline).count, 0.0) : limit.count;
  bool cut_short = false;
  try {
    return worker_->wait(
        {std::min(limit.count, left)}, [&] { return control_.abort_notified(abort_epoch_); },
        [&] {
          cut_short = left < limit.count;
          if (joined() && is_group_leader_ && !options_.ras.empty() && !options_.deadline)
            library_status_ = query_ras(options_.ras, ras_limit);
        });
  } catch (const StalledError& problem) {
    notify_others();
    const std::string_view cut = cut_short ? "; the time limit of the whole command has passed" : "";
    StalledError told(fmt::format("{}{} ({}){}", problem.what(), cut, where(), warnings(problem.what())), std::nullopt,
                      problem.progress);
    told.cut_short = cut_short;
    told.hangs = problem.hangs;
    throw told;
  } catch (const LostError& problem) {
    notify_others();
    throw LostError(fmt::format("{} ({}){}", problem.what(), where(), warnings(problem.what())));
  } catch (const CaseError& problem) {
    notify_others();
    throw CaseError(fmt::format("{} ({}){}", problem.what(), where(), warnings(problem.what())));
  }
}

// Ranks that identify themselves do not wait for each other, and the others' answers tell whose fault it is.
void WorkerBackend::notify_others() {
  if (state_ != State::asked) control_.notify_abort(abort_epoch_);
}

// The library's latest warnings during the failed order, except those already in `told`.
std::string WorkerBackend::warnings(const std::string& told) const {
  const off_t end = worker_->log().size();
  const off_t from = std::max(order_began_, end - static_cast<off_t>(most_of_start));
  std::vector<std::string> said = last_warnings(worker_->log().text(from, most_of_start), most_warnings);
  std::erase_if(said, [&](const std::string& each) { return told.find(each) != std::string::npos; });
  return said.empty() ? "" : fmt::format("; it warned: \"{}\"", p5::join(said, "\", \""));
}

// Join limit; above ranks_of_limit ranks it is multiplied by ranks / ranks_of_limit.
Seconds WorkerBackend::join_limit() const {
  return {options_.join_limit.count * std::max(1.0, control_.ranks() / ranks_of_limit)};
}

Seconds WorkerBackend::limit_of(const RendezvousGroups& rendezvous_groups) const {
  return {std::min(join_limit().count, rendezvous_groups.limit.value_or(join_limit()).count)};
}

std::string WorkerBackend::where() const {
  return identity_.device_uuid.empty() ? options_.host : fmt::format("{}, {}", options_.host, identity_.device_uuid);
}

void WorkerBackend::assign_abort_epoch() {
  if (state_ != State::none) return;
  state_ = State::counted;
  abort_epoch_ = ++shared_->last_abort_epoch;
}

void WorkerBackend::prepare() {
  assign_abort_epoch();
  if (state_ != State::counted) return;
  state_ = State::asked;
  if (shared_->stuck) return;
  try {
    worker_ = std::make_unique<WorkerProcess>(options_.program, options_.environment, abort_epoch_);
    send({{"order", "identify"},
          {"local_rank", options_.local.local_rank},
          {"local_ranks", options_.local.local_ranks},
          {"interfaces", options_.local.interfaces},
          {"provider", options_.local.provider},
          {"nics", options_.local.nics},
          {"memory", options_.local.memory}});
  } catch (const CaseError& problem) {
    not_started_ = problem.what();
  }
}

// The first start of a driver may take long, so identify() waits until the deadline if there is one.
const protocol::Identity& WorkerBackend::identify() {
  return identify(options_.deadline ? Seconds{-since(*options_.deadline).count} : join_limit());
}

const protocol::Identity& WorkerBackend::identify(Seconds limit) {
  const auto began = Clock::now();
  prepare();
  if (state_ == State::identified) return identity_;
  if (shared_->stuck)
    throw CaseError("its worker did not end after SIGKILL: the driver holds it; reboot or replace " + options_.host);
  if (!worker_) throw CaseError(fmt::format("{} ({})", not_started_, options_.host));
  identity_ = protocol::identity_from_json(wait(limit));
  shared_->longest_start.count = std::max(shared_->longest_start.count, since(began).count);
  state_ = State::identified;
  return identity_;
}

// A rank that is in no group needs no worker.
std::string WorkerBackend::advertise(const RendezvousGroups& rendezvous_groups) {
  const std::optional<RankInGroup> place = rank_in_group(rendezvous_groups.groups, rank(), 0);
  place ? prepare() : assign_abort_epoch();
  // Each group has an abort epoch of its own, so that its failure does not interrupt the other groups.
  const auto own =
      place ? std::ranges::find(rendezvous_groups.groups, place->group) - rendezvous_groups.groups.begin() : 0;
  abort_epoch_ = shared_->last_abort_epoch + 1 + static_cast<std::uint32_t>(own);
  shared_->last_abort_epoch += static_cast<std::uint32_t>(rendezvous_groups.groups.size());
  if (!place) return "";
  const auto began = Clock::now();
  // For both orders together. The other ranks wait no longer than a join may take.
  const Seconds limit{
      std::min(join_limit().count, rendezvous_groups.start.value_or(limit_of(rendezvous_groups)).count)};
  json mine{{"free_memory", identify(limit).free_memory}};
  if (place->member.rank == 0 || options_.each_has_id)
    mine["id"] = told<std::string>(ask({{"order", "unique_id"}}, {limit.count - since(began).count}), "id");
  return mine.dump();
}

std::string WorkerBackend::negotiate(const RendezvousGroups& rendezvous_groups,
                                     const std::vector<std::string>& offers) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  json ids_of_groups = json::array();
  for (const Group& group : rendezvous_groups.groups) {
    json ids = json::array();
    for (const int member : group) {
      const json each = json::parse(offers.at(static_cast<std::size_t>(member)));
      least = std::min(least, each.at("free_memory").get<std::uint64_t>());
      if (each.contains("id")) ids.push_back(each.at("id"));
    }
    ids_of_groups.push_back(std::move(ids));
  }
  const Bytes found = usable(Bytes{least});
  shared_->usable = std::max(shared_->usable, found);
  const std::uint64_t share =
      std::min(found.count, shared_->usable.count / static_cast<std::uint64_t>(shared_->backends));
  return json{{"ids", ids_of_groups}, {"memory", share / static_cast<std::uint64_t>(ranks_on_device_)}}.dump();
}

void WorkerBackend::join(const RendezvousGroups& rendezvous_groups, const std::string& terms) {
  const std::optional<RankInGroup> place = rank_in_group(rendezvous_groups.groups, rank(), 0);
  if (!place) return;
  const json agreed = json::parse(terms);
  agreed_memory_ = {agreed.at("memory")};
  const auto own = std::ranges::find(rendezvous_groups.groups, place->group) - rendezvous_groups.groups.begin();
  const auto began = Clock::now();
  const json reply = ask({{"order", "join"},
                          {"ids", agreed.at("ids").at(static_cast<std::size_t>(own))},
                          {"rank", place->member.rank},
                          {"ranks", place->member.ranks}},
                         limit_of(rendezvous_groups));
  library_start_ = {.log = worker_->log().text(0, most_of_start),
                    .environment = told<Environment>(reply, "environment")};
  together_ = place->group;
  time_of_joining_ = since(began);
}

Backend::LibraryStart WorkerBackend::library_start() const {
  return {.log = log_of_failures_ + library_start_.log, .environment = library_start_.environment};
}

std::vector<LocalChecks> WorkerBackend::check_locally(Seconds burn) {
  constexpr Seconds least{30};  // loading cuBLASLt from a cold disk takes seconds
  const Seconds limit{std::max(options_.timeout.count, least.count) + burn.count};
  const json reply = ask({{"order", "check_locally"}, {"burn_s", burn.count}}, limit);
  LocalChecks checks{.figures = told<LocalFigures>(reply, "figures"), .compute = told<ComputeCheck>(reply, "compute")};
  if (const std::optional<int> partner = checks.compute.partner; partner && (*partner < 0 || *partner >= ranks()))
    throw CaseError(fmt::format("its worker's reply is not understood: there is no rank {}", *partner));
  return {std::move(checks)};
}

std::vector<LocalFigures> WorkerBackend::check_host_copies() {
  return {told<LocalFigures>(ask({{"order", "check_host_copies"}}, options_.timeout), "figures")};
}

void WorkerBackend::postpone_limit(Seconds time) {
  if (options_.deadline) options_.deadline = later(*options_.deadline, time);
}

std::optional<double> WorkerBackend::share_of_waiting() const {
  return std::max(longest_waiting_, worker_ ? p5::share_of_waiting(worker_->pid()) : std::nullopt);
}

FailureContext WorkerBackend::failure_context() const {
  if (!worker_) return {};
  const off_t end = worker_->log().size();
  return {.log = last_lines(
              worker_->log().text(std::max<off_t>(0, end - static_cast<off_t>(most_of_start)), most_of_start)),
          .library_status = last_lines(library_status_)};
}

void WorkerBackend::stop() {
  if (worker_) worker_->kill();
}

void WorkerBackend::abandon() {
  if (joined()) longest_waiting_ = share_of_waiting();
  if (worker_ && !worker_->kill_and_reap(reap_limit)) shared_->stuck = true;
  if (worker_ && !joined() && log_of_failures_.size() < most_of_failures)
    log_of_failures_ += worker_->log().text(0, most_of_start);
  together_.clear();
  formed_ = {};
  library_status_.clear();
  kept_ = nullptr;
  state_ = State::none;
  worker_.reset();
}

// The communicators that exist afterwards must be the same on all ranks; if forming them fails on one, all abandon
// their workers.
std::unique_ptr<Session> WorkerBackend::open(const Case& c, int round) {
  const Seconds limit = limit_of_request(c, cost(), options_.timeout);
  const std::optional<RankInGroup> place = rank_in_group(c.rounds->at(static_cast<std::size_t>(round)), rank(), 0);
  is_group_leader_ = place && place->member.rank == 0;
  Formed wanted{communicators_of(c, round, ranks()), c.calls.cta_policy};
  // The job's own communicator has the default policy.
  if (wanted.groups.empty() && wanted.cta_policy != CallOptions{}.cta_policy)
    wanted.groups = c.communicators ? *c.communicators : c.rounds->at(static_cast<std::size_t>(round));
  const std::string form = wanted == formed_ ? "" : wanted.groups.empty() ? "job" : "groups";
  formed_ = std::move(wanted);
  return std::make_unique<WorkerSession>(*this, c, round, form, limit);
}

Seconds WorkerBackend::rendezvous_limit() const { return {std::max(options_.timeout.count, join_limit().count)}; }

std::unique_ptr<Backend> WorkerBackend::arm(const Environment& changes) const {
  WorkerOptions options = options_;
  for (const auto& [name, value] : changes) options.environment[name] = value;
  std::unique_ptr<WorkerBackend> other(new WorkerBackend(control_, std::move(options), shared_));
  other->ranks_on_device_ = ranks_on_device_;
  return other;
}

Environment WorkerBackend::context() const {
  Environment found{{options_.device, identity_.device_uuid},
                    {options_.library, identity_.library},
                    {options_.library + ".path", identity_.library_path},
                    {"cuda.driver", identity_.driver},
                    {"cuda.runtime", identity_.runtime}};
  std::erase_if(found, [](const auto& each) { return each.second.empty(); });
  if (worker_) found["libraries"] = p5::join(worker_->loaded_libraries(), ":");
  for (const auto& [name, value] : recorded(library_start_.environment)) found["env." + name] = value;
  return found;
}

Bytes WorkerBackend::memory_per_rank(const Case& c) const {
  const std::uint64_t elements =
      c.in_place ? in_place_elements(c.shape) : c.shape.input_elements + c.shape.output_elements;
  return {elements * size_of(c.type) * static_cast<std::uint64_t>(c.calls.aggregate)};
}

Bytes WorkerBackend::usable(Bytes free_memory) {
  return {static_cast<std::uint64_t>(static_cast<double>(free_memory.count) * gpu_memory_share)};
}

}  // namespace p5
