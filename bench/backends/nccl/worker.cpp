#include "bench/backends/nccl/worker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "bench/backends/nccl/device.hpp"
#include "bench/backends/nccl/local_checks.hpp"
#include "bench/error.hpp"

namespace p5::nccl {

using nlohmann::json;

namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char each : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(each));
  return text;
}

ncclUniqueId id_from_hex(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal)
    throw CaseError(fmt::format("a unique id of {} hexadecimal digits, not {}", text.size(), 2 * sizeof id.internal));
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

// What the library and its plugins see and may have added to; nothing else leaves the process.
json environment(const TuningLog& log) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "CUDA_", "UCX_"};
  json variables = json::object();
  for (char** each = environ; *each; ++each) {
    const std::string_view text = *each;
    const std::string_view name = text.substr(0, text.find('='));
    const bool allowed = name == "LD_LIBRARY_PATH" ||
                         std::ranges::any_of(prefixes, [&](const char* prefix) { return name.starts_with(prefix); });
    if (allowed && name.size() < text.size() && !log.set_by_us(name))
      variables[std::string(name)] = text.substr(name.size() + 1);
  }
  return variables;
}

// The rounds as this rank sees them: its own group, or nobody.
std::shared_ptr<const std::vector<Round>> rounds_from(const json& groups) {
  auto rounds = std::make_shared<std::vector<Round>>();
  for (const json& group : groups) rounds->push_back(group.is_null() ? Round{} : Round{group.get<Group>()});
  return rounds;
}

}  // namespace

json Worker::answer(const json& order) noexcept {
  try {
    return act(order);
  } catch (const GivenUp&) {
    return last_words();
  } catch (const StalledError& problem) {
    return {{"error", problem.what()}, {"elsewhere", true}};
  } catch (const std::exception& problem) {
    return {{"error", problem.what()}, {"elsewhere", false}};
  }
}

// NCCL's own kernels end once it is aborted; one that does not end is not NCCL's, and what its peers wait for.
json Worker::last_words() noexcept {
  constexpr Seconds patience{1};
  // Given up while it joined: on the way here NCCL was aborted and memory freed, for which the device had to come to
  // rest.
  if (!engine_) return {{"gave_up", true}, {"at_rest", true}};
  if (session_) session_->abort();
  engine_->abort();
  return {{"gave_up", true}, {"at_rest", engine_->queue().rests_within(patience)}};
}

template <class Action>
auto Worker::risk(Action&& action) {
  try {
    return action();
  } catch (...) {
    broken_ = true;
    throw;
  }
}

void Worker::abort() {
  std::signal(SIGALRM, [](int) { _exit(0); });
  alarm(2);
  if (session_) session_->abort();
  if (engine_) engine_->abort();
}

json Worker::act(const json& order) {
  struct Row {
    std::string_view name;
    Json (Worker::*act)(const Json&);
  };
  constexpr std::array table{Row{"identify", &Worker::identify},
                             Row{"unique_id", &Worker::unique_id},
                             Row{"join", &Worker::join},
                             Row{"open", &Worker::open},
                             Row{"warm_up", &Worker::warm_up},
                             Row{"sample", &Worker::sample},
                             Row{"verify", &Worker::verify},
                             Row{"selection", &Worker::selection},
                             Row{"offers", &Worker::offers},
                             Row{"close", &Worker::close},
                             Row{"check_locally", &Worker::check_locally}};
  const auto name = order.at("order").get<std::string>();
  const auto* const row = std::ranges::find(table, name, &Row::name);
  if (row == table.end()) throw CaseError(fmt::format("the worker knows no order \"{}\"", name));
  if (broken_) throw CaseError("this worker has failed before; start a new one");
  Json reply = (this->*row->act)(order);
  reply["ok"] = true;
  return reply;
}

json Worker::identify(const json& order) {
  if (!device_) device_ = choose_device(order.at("local_rank"));
  return protocol::to_json(identify_device(*device_));
}

json Worker::unique_id(const json&) {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {{"id", to_hex(id)}};
}

json Worker::join(const json& order) {
  if (!device_) throw CaseError("\"join\" before \"identify\"");
  if (engine_) throw CaseError("this worker has joined already");
  const ncclUniqueId id = id_from_hex(order.at("id"));
  const int rank = order.at("rank"), ranks = order.at("ranks");
  log_.start();
  risk([&] { engine_.emplace(*device_, page_, log_, id, rank, ranks); });
  return {{"environment", environment(log_)}, {"log", log_.stop_and_take()}};
}

json Worker::open(const json& order) {
  if (session_) throw CaseError("\"open\" before the last case was closed");
  Case c = protocol::case_from_json(order.at("case"));
  c.rounds = rounds_from(order.at("groups"));
  const std::uint64_t memory = order.value("memory", std::numeric_limits<std::uint64_t>::max());
  session_.emplace(std::move(c), engine(), memory);
  return {{"slots", session_->slots()}};
}

json Worker::warm_up(const json& order) {
  NcclSession& at = session();
  const int round = order.at("round"), operations = order.at("operations");
  const std::string setting = order.value("setting", "");
  risk([&] { at.warm_up(round, operations, setting); });
  return json::object();
}

json Worker::sample(const json& order) {
  NcclSession& at = session();
  const SampleRequest request = protocol::request_from_json(order);
  const Times times = risk([&] { return at.sample(request); });
  json seconds = json::array();
  for (const double each : times.front()) seconds.push_back(std::isnan(each) ? json(nullptr) : json(each));
  return {{"seconds", seconds}};
}

json Worker::verify(const json& order) {
  NcclSession& at = session();
  const int round = order.at("round");
  return protocol::to_json(risk([&] { return at.verify(round); }));
}

json Worker::selection(const json&) { return {{"selection", protocol::to_json(session().selection())}}; }

json Worker::offers(const json&) {
  NcclSession& at = session();
  return {{"offers", protocol::to_json(risk([&] { return at.offers(); }))}};
}

json Worker::close(const json&) {
  NcclSession& at = session();
  risk([&] { at.close(); });
  session_.reset();
  return json::object();
}

json Worker::check_locally(const json&) {
  Queue& queue = engine().queue();
  return {{"figures", risk([&] { return nccl::check_locally(queue); })}};
}

Engine& Worker::engine() {
  if (!engine_) throw CaseError("an order that needs \"join\" came before it");
  return *engine_;
}

NcclSession& Worker::session() {
  if (!session_) throw CaseError("an order that needs \"open\" came before it");
  return *session_;
}

}  // namespace p5::nccl
