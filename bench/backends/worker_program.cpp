#include "bench/backends/worker_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {

using nlohmann::json;

namespace {

bool is_socket(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

// Makes this process end with its parent, the supervisor. False if the parent was gone before prctl() took effect.
bool tie_to_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ucred maker{};
  socklen_t size = sizeof maker;
  if (getsockopt(protocol::socket_descriptor, SOL_SOCKET, SO_PEERCRED, &maker, &size) != 0) return true;
  return maker.pid <= 0 || maker.pid == getppid();
}

void close_all_above(int descriptor) {
  if (close_range(static_cast<unsigned>(descriptor) + 1, ~0u, 0) == 0) return;
  const long end = sysconf(_SC_OPEN_MAX);  // close_range() needs Linux 5.9
  for (int each = descriptor + 1; each < end; ++each) ::close(each);
}

// Sets close-on-exec, so that children, which plugins may start, inherit no descriptor.
protocol::SharedPage* take_descriptors() {
  close_all_above(protocol::page_descriptor);
  for (const int each : {protocol::socket_descriptor, protocol::page_descriptor}) fcntl(each, F_SETFD, FD_CLOEXEC);
  void* const page =
      mmap(nullptr, sizeof(protocol::SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, protocol::page_descriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<protocol::SharedPage*>(page);
}

// Serves orders until "quit" or until the supervisor closes the connection.
void obey(WorkerProgram& worker, protocol::SharedPage& page) {
  protocol::Inbox inbox;
  for (;;) {
    const protocol::Received received = inbox.receive(protocol::socket_descriptor, -1);
    if (!received.message) return;
    page.orders.fetch_add(1);
    const auto& [epoch, order] = *received.message;
    const std::string name = order.value("order", "");
    page.order.store(protocol::order_number(name));
    if (name == "quit") return;
    const json reply = worker.answer(order);
    page.order.store(0);
    protocol::send(protocol::socket_descriptor, {epoch, reply});
  }
}

}  // namespace

// NaN becomes null.
static json written_times(const std::vector<double>& times) {
  json all = json::array();
  for (const double each : times) all.push_back(std::isnan(each) ? json(nullptr) : json(each));
  return all;
}

json WorkerProgram::answer(const json& order) noexcept {
  try {
    return act(order);
  } catch (const AbortRequested&) {
    return {{"gave_up", true}, {"waits_for", waits_for()}, {"at_rest", is_idle_after_abort()}};
  } catch (const StalledError& problem) {
    return {{"error", problem.what()}, {"elsewhere", true}};
  } catch (const std::exception& problem) {
    return {{"error", problem.what()}, {"elsewhere", false}};
  }
}

template <class Action>
auto WorkerProgram::risk(Action&& action) {
  try {
    return action();
  } catch (...) {
    broken_ = true;
    throw;
  }
}

json WorkerProgram::act(const json& order) {
  struct OrderHandler {
    std::string_view name;
    Json (WorkerProgram::*act)(const Json&);
    bool together = true;  // requires that the ranks have joined
  };
  constexpr std::array table{OrderHandler{"identify", &WorkerProgram::identify_order, false},
                             OrderHandler{"unique_id", &WorkerProgram::id_order, false},
                             OrderHandler{"join", &WorkerProgram::join_order, false},
                             OrderHandler{"open", &WorkerProgram::open_order},
                             OrderHandler{"warm_up", &WorkerProgram::warm_up},
                             OrderHandler{"sample", &WorkerProgram::sample},
                             OrderHandler{"sample_concurrently", &WorkerProgram::sample_concurrently},
                             OrderHandler{"verify", &WorkerProgram::verify},
                             OrderHandler{"selection", &WorkerProgram::selection},
                             OrderHandler{"host_time", &WorkerProgram::host_time},
                             OrderHandler{"communicator_costs", &WorkerProgram::communicator_costs},
                             OrderHandler{"cost_table", &WorkerProgram::cost_table},
                             OrderHandler{"probe_nics", &WorkerProgram::probe_nics},
                             OrderHandler{"close", &WorkerProgram::close_order},
                             OrderHandler{"check_locally", &WorkerProgram::check_locally_order},
                             OrderHandler{"check_host_copies", &WorkerProgram::check_host_copies_order}};
  const auto name = order.at("order").get<std::string>();
  const auto* const row = std::ranges::find(table, name, &OrderHandler::name);
  if (row == table.end()) throw CaseError(fmt::format("the worker knows no order \"{}\"", name));
  if (broken_) throw CaseError("this worker has failed before; start a new one");
  if (row->together && state_ != State::joined) throw CaseError("an order that needs \"join\" came before it");
  Json reply = (this->*row->act)(order);
  reply["ok"] = true;
  return reply;
}

json WorkerProgram::identify_order(const json& order) {
  const protocol::Identity identity = identify({.local_rank = order.at("local_rank"),
                                                .local_ranks = order.value("local_ranks", 1),
                                                .interfaces = order.value("interfaces", std::vector<std::string>{}),
                                                .provider = order.value("provider", ""),
                                                .nics = order.value("nics", std::vector<std::string>{}),
                                                .memory = order.value("memory", "host")});
  state_ = std::max(state_, State::identified);
  return protocol::to_json(identity);
}

json WorkerProgram::id_order(const json&) { return {{"id", id()}}; }

json WorkerProgram::join_order(const json& order) {
  if (state_ == State::started) throw CaseError("\"join\" before \"identify\"");
  if (state_ == State::joined) throw CaseError("this worker has joined already");
  const auto ids = order.at("ids").get<std::vector<std::string>>();
  const int rank = order.at("rank"), ranks = order.at("ranks");
  const Environment environment = risk([&] { return join(ids, rank, ranks); });
  rank_ = rank;
  state_ = State::joined;
  return {{"environment", environment}};
}

json WorkerProgram::open_order(const json& order) {
  if (session_) throw CaseError("\"open\" before the last case was closed");
  Case c = protocol::case_from_json(order.at("case"));
  std::vector<Work> works;
  for (const json& work : order.value("beside", json::array())) works.push_back(protocol::work_from_json(work));
  if (c.collective->replays)
    c.replay = std::make_shared<const Replay>(protocol::replay_from_json(order.at("replay"), std::move(works)));
  else
    c.beside = std::move(works);
  std::optional<Group> group;
  if (!order.at("group").is_null()) group = order.at("group").get<Group>();
  if (c.shape.traffic && group && std::cmp_not_equal(group->size(), c.ranks))
    throw CaseError("a group and its traffic have different numbers of ranks");
  const std::string form_order = order.at("form");
  const auto members = order.contains("communicator") ? order.at("communicator").get<Group>() : group;
  if (form_order == "groups") risk([&] { form({members, order.at("alone"), order.at("pauses"), c.calls.cta_policy}); });
  if (form_order == "job") risk([&] { leave_groups(); });
  std::optional<RankInGroup> place = group ? rank_in_group({*group}, rank_, c.root.value_or(0)) : std::nullopt;
  session_ = open(std::move(c), order.at("round"), std::move(place),
                  order.value("memory", std::numeric_limits<std::uint64_t>::max()));
  unavailable_ = session_->unavailable();
  return {{"slots", session_->slots()}, {"unavailable", unavailable_}};
}

json WorkerProgram::warm_up(const json& order) {
  Session& at = session();
  const int operations = order.at("operations");
  const std::string setting = order.value("setting", "");
  risk([&] { at.warm_up(operations, setting); });
  return json::object();
}

json WorkerProgram::sample(const json& order) {
  Session& at = session();
  const SampleRequest request = protocol::request_from_json(order);
  const Times times = risk([&] { return at.sample(request); });
  return {{"seconds", written_times(times.front())}};
}

json WorkerProgram::sample_concurrently(const json& order) {
  Session& at = session();
  const ConcurrentRequest request = protocol::concurrent_request_from_json(order);
  const ConcurrentTimes times = risk([&] { return at.sample_concurrently(request); });
  json seconds = json::array();
  for (const std::vector<double>& sample : times.front()) seconds.push_back(written_times(sample));
  return {{"seconds", seconds}};
}

json WorkerProgram::verify(const json&) {
  Session& at = session();
  return protocol::to_json(risk([&] { return at.verify(); }));
}

json WorkerProgram::selection(const json&) { return {{"selection", protocol::to_json(session().selection())}}; }

json WorkerProgram::host_time(const json&) {
  const std::optional<double> seconds = session().host_time();
  return {{"seconds", seconds ? json(*seconds) : json(nullptr)}};
}

json WorkerProgram::communicator_costs(const json&) { return {{"costs", session().communicator_costs()}}; }

json WorkerProgram::cost_table(const json&) {
  Session& at = session();
  return {{"cost_table", protocol::to_json(risk([&] { return at.cost_table(); }))}};
}

json WorkerProgram::probe_nics(const json& order) {
  Session& at = session();
  const Seconds limit{order.at("limit_s")};
  return {{"nics", risk([&] { return at.probe_nics(limit); })}};
}

json WorkerProgram::close_order(const json&) {
  unavailable_.clear();
  session();
  risk([&] { close(); });
  session_.reset();
  return json::object();
}

json WorkerProgram::check_locally_order(const json& order) {
  const Seconds burn{order.value("burn_s", 0.0)};
  const LocalChecks checks = risk([&] { return check_locally(burn); });
  return {{"figures", checks.figures}, {"compute", json_fields::written(checks.compute)}};
}

json WorkerProgram::check_host_copies_order(const json&) {
  return {{"figures", risk([&] { return check_host_copies(); })}};
}

Session& WorkerProgram::session() {
  if (!session_) throw CaseError("an order that needs \"open\" came before it");
  if (!unavailable_.empty()) throw CaseError("the case cannot be measured: " + unavailable_);
  return *session_;
}

std::map<std::string, std::string> library_variables() {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "CUDA_", "UCX_"};
  std::map<std::string, std::string> variables;
  for (char** each = environ; *each; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('='));
    const bool allowed = name == "LD_LIBRARY_PATH" ||
                         std::ranges::any_of(prefixes, [&](const char* prefix) { return name.starts_with(prefix); });
    if (allowed && name.size() < text.size()) variables[std::string(name)] = text.substr(name.size() + 1);
  }
  return variables;
}

// Numbers in the kernel's list format, "0-3,8"; empty if malformed.
static std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream parts(range);
    if (!(parts >> first)) return {};
    last = first;
    if (parts >> dash && (dash != '-' || !(parts >> last))) return {};
    if (first < 0 || last < first || last >= CPU_SETSIZE) return {};
    for (int each = first; each <= last; ++each) numbers.push_back(each);
  }
  return numbers;
}

void bind_near(const std::vector<std::string>& pci_addresses) {
  // The kernel limits affinity to the cpuset, so requesting all CPUs shows the allowed ones.
  cpu_set_t all, allowed, near;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&near);
  for (const std::string& address : pci_addresses) {
    std::ifstream file("/sys/bus/pci/devices/" + address + "/local_cpulist");
    std::string text;
    std::getline(file, text);
    for (const int cpu : parse_cpu_list(text))
      if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &near);
  }
  if (CPU_COUNT(&near) > 0) sched_setaffinity(0, sizeof near, &near);
}

int run_worker(const char* name,
               const std::function<std::unique_ptr<WorkerProgram>(protocol::SharedPage& page)>& make_program) {
  if (!is_socket(protocol::socket_descriptor)) {
    std::fputs("p5bench starts this program by itself; start p5bench instead\n", stderr);
    return 2;
  }
  raise_stack_limits();
  // Ctrl-C and the scheduler's signals reach all processes; the supervisor alone decides how to react.
  for (const auto& [signal, known] : termination_signals) std::signal(signal, SIG_IGN);
  if (!tie_to_parent()) return 0;
  // Line buffering, since standard output is a file and whole lines must be in it even if the process is killed.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  protocol::SharedPage* const page = take_descriptors();
  if (!page) {
    std::fprintf(stderr, "%s: ", name);
    std::perror("the shared page");
    return 1;
  }
  try {
    // Never destroyed, since destruction could wait for a device that hangs.
    WorkerProgram& worker = *make_program(*page).release();
    obey(worker, *page);
    worker.abort();
    _exit(0);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", name, problem.what());
    _exit(1);
  }
}

}  // namespace p5
