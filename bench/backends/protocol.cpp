#include "bench/backends/protocol.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/units.hpp"
#include "bench/model/result_fields.hpp"
#include "bench/model/traffic.hpp"

namespace p5::protocol {

using nlohmann::json;

namespace {

constexpr std::uint32_t magic = 0x70356231;  // "p5b1"
constexpr std::uint32_t longest = 1u << 26;  // bytes; replies with samples and identifiers are far shorter
using Header = std::array<std::uint32_t, 4>;

// Milliseconds until the deadline, for poll(); -1 without a deadline.
int left_ms(std::optional<Clock::time_point> deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

Header header_in(const std::string& bytes) {
  Header header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[0] != magic || header[1] != version || header[3] > longest)
    throw CaseError(
        fmt::format("the other process uses another protocol (version {}, this is {})", header[1], version));
  return header;
}

Message message_in(const Header& header, std::string_view text) try {
  return {header[2], parse_json(text)};
} catch (const UsageError& problem) {
  throw CaseError(fmt::format("the other process sent what is not understood: {}", problem.what()));
}

void write_all(int descriptor, const void* memory, std::size_t bytes) {
  const auto* at = static_cast<const char*>(memory);
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t sent = ::send(descriptor, at + done, bytes - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw CaseError(fmt::format("the other process has ended ({})", std::strerror(errno)));
    done += static_cast<std::size_t>(sent);
  }
}

}  // namespace

void send(int descriptor, const Message& message) {
  const std::string text = message.body.dump(-1, ' ', false, json::error_handler_t::replace);
  const Header header{magic, version, message.epoch, static_cast<std::uint32_t>(text.size())};
  std::string whole(sizeof header, '\0');
  std::memcpy(whole.data(), header.data(), sizeof header);
  whole += text;
  write_all(descriptor, whole.data(), whole.size());
}

// Polls before it checks the clock, so that a process that was stopped itself finds input that arrived meanwhile.
bool Inbox::wait(int descriptor, std::optional<Clock::time_point> deadline) const {
  for (;;) {
    std::optional<Clock::time_point> until = deadline;
    if (!bytes_.empty()) until = std::min(deadline.value_or(Clock::time_point::max()), began_ + rest_limit);
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, left_ms(until));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the following read reports the error
    if (ready < 0) continue;
    if (!bytes_.empty() && Clock::now() >= began_ + rest_limit)
      throw LostError(fmt::format("the other process stopped within a message: {} bytes of it came, and no rest in {}",
                                  bytes_.size(), to_text(Seconds{std::chrono::duration<double>(rest_limit).count()})));
    if (deadline) return false;
  }
}

Received Inbox::receive(int descriptor, int timeout_ms) {
  std::optional<Clock::time_point> deadline;
  if (timeout_ms >= 0) deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::array<char, 4096> piece{};
  for (;;) {
    std::size_t wanted = sizeof(Header);
    if (bytes_.size() >= sizeof(Header)) {
      const Header header = header_in(bytes_);
      wanted += header[3];
      if (bytes_.size() == wanted) {
        const std::string whole = std::exchange(bytes_, {});
        return {.message = message_in(header, std::string_view(whole).substr(sizeof(Header))), .closed = false};
      }
    }
    if (!wait(descriptor, deadline)) return {};
    const ssize_t got = ::recv(descriptor, piece.data(), std::min(piece.size(), wanted - bytes_.size()), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return {.message = std::nullopt, .closed = true};
    if (bytes_.empty()) began_ = Clock::now();
    bytes_.append(piece.data(), static_cast<std::size_t>(got));
  }
}

// A member of a message. An invalid one is an error of the other process, not of the user's input.
template <class Value>
static Value said(const json& j) try {
  return json_fields::read_as<Value>(j);
} catch (const json_fields::BadValue& problem) {
  throw CaseError(fmt::format("the other process sent what is not understood: {}", problem.what()));
}

json to_json(const Case& c, int round) {
  json j{{"collective", c.collective->name},
         {"pattern", c.pattern},
         {"nic", c.nic ? json(*c.nic) : json(nullptr)},
         {"other_nic", c.other_nic ? json(*c.other_nic) : json(nullptr)},
         {"gpu", c.gpu ? json(*c.gpu) : json(nullptr)},
         {"bytes", c.bytes.count},
         {"type", name_of(c.type)},
         {"op", c.op ? json(name_of(*c.op)) : json(nullptr)},
         {"root", c.collective->rooted ? json(root_in(c, round)) : json(nullptr)},
         {"in_place", c.in_place},
         {"ranks", c.ranks},
         {"input_elements", c.shape.input_elements},
         {"output_elements", c.shape.output_elements},
         {"tokens", c.collective->of_tokens ? json(c.shape.traffic->name) : json(nullptr)},
         {"traffic", c.shape.traffic && !c.collective->of_tokens ? json{{"ranks", c.shape.traffic->matrix.ranks},
                                                                        {"parts", c.shape.traffic->matrix.parts},
                                                                        {"elements", c.shape.traffic_elements},
                                                                        {"alignment", c.shape.traffic_alignment}}
                                                                 : json(nullptr)}};
  j.update(json_fields::written(c.calls));
  return j;
}

static void read_traffic(const json& j, Case& c) try {
  TrafficMatrix matrix{j.at("ranks"), j.at("parts")};
  const bool square = matrix.ranks == c.ranks && matrix.ranks >= 2 && matrix.ranks <= most_ranks_of_traffic &&
                      std::cmp_equal(matrix.parts.size(), matrix.ranks * matrix.ranks);
  c.shape.traffic_elements = j.at("elements");
  c.shape.traffic_alignment = j.at("alignment");
  if (!square || c.shape.traffic_alignment == 0) throw UsageError("its matrix and its ranks differ");
  c.shape.traffic = std::make_shared<const MatrixTraffic>(make_traffic("", std::move(matrix)));
} catch (const UsageError& problem) {
  throw CaseError(fmt::format("the other process sent traffic that is not understood: {}", problem.what()));
}

// Every process draws the ways of all tokens again from the generator's text.
static void read_tokens(const json& j, Case& c) try {
  if (c.ranks < 2 || c.ranks > most_ranks_of_traffic) throw UsageError("its ranks are not those of a matrix");
  auto traffic =
      std::make_shared<const MatrixTraffic>(route_tokens(j.is_string() ? j.get<std::string>() : "", c.ranks));
  c.shape = c.collective->by_traffic(std::move(traffic), c.bytes, size_of(c.type));
} catch (const UsageError& problem) {
  throw CaseError(fmt::format("the other process sent tokens that are not understood: {}", problem.what()));
}

Case case_from_json(const json& j) {
  Case c;
  c.collective = &find_collective(j.at("collective").get<std::string>());
  c.pattern = j.at("pattern");
  if (const json nic = j.value("nic", json()); !nic.is_null()) c.nic = nic.get<int>();
  if (const json other = j.value("other_nic", json()); !other.is_null()) c.other_nic = other.get<int>();
  if (const json gpu = j.value("gpu", json()); !gpu.is_null()) c.gpu = gpu.get<int>();
  c.bytes = c.shape.bytes = {j.at("bytes")};
  c.type = parse_data_type(j.at("type").get<std::string>());
  if (!j.at("op").is_null()) c.op = parse_reduce_op(j.at("op").get<std::string>());
  if (!j.at("root").is_null()) c.root = j.at("root").get<int>();
  c.in_place = j.at("in_place");
  c.calls = said<CallOptions>(j);
  c.ranks = j.at("ranks");
  c.shape.input_elements = j.at("input_elements");
  c.shape.output_elements = j.at("output_elements");
  if (const json traffic = j.value("traffic", json()); !traffic.is_null()) read_traffic(traffic, c);
  if (c.collective->of_tokens) read_tokens(j.value("tokens", json("")), c);
  return c;
}

static constexpr std::array<std::string_view, 3> quantities{"latency", "throughput", "device"};  // as in Quantity

static Quantity quantity_of(const std::string& name) {
  const auto found = std::ranges::find(quantities, name);
  if (found == quantities.end()) throw CaseError(fmt::format("no quantity is called '{}'", name));
  return static_cast<Quantity>(found - quantities.begin());
}

json to_json(const SampleRequest& request) {
  return {{"quantity", quantities.at(static_cast<std::size_t>(request.quantity))},
          {"operations", request.operations},
          {"samples", request.samples},
          {"poison_last", request.poison_last},
          {"setting", request.setting}};
}

SampleRequest request_from_json(const json& j) {
  return {.quantity = quantity_of(j.at("quantity").get<std::string>()),
          .operations = j.at("operations"),
          .samples = j.at("samples"),
          .poison_last = j.at("poison_last"),
          .setting = j.value("setting", "")};
}

json to_json(const Work& work, const std::optional<Group>& group) {
  if (!work.planned) return {{"work", name_of(work)}};
  return {{"groups", work.group},
          {"bytes", work.bytes.count},
          {"case", to_json(*work.planned, 0)},
          {"group", group ? json(*group) : json(nullptr)}};
}

Work work_from_json(const json& j) {
  if (!j.contains("case")) {
    Work work = parse_work(j.at("work").get<std::string>());
    if (work.collective) throw CaseError("the other process sent a collective without its case");
    return work;
  }
  Case c = case_from_json(j.at("case"));
  Work work{.kind = Work::Kind::collective,
            .collective = c.collective,
            .group = j.at("groups").get<std::string>(),
            .bytes = {j.at("bytes").get<std::uint64_t>()}};
  Round round;
  if (!j.at("group").is_null()) round.push_back(j.at("group").get<Group>());
  c.rounds = std::make_shared<const std::vector<Round>>(1, std::move(round));
  work.planned = std::make_shared<const Case>(std::move(c));
  return work;
}

json to_json(const Replay& replay) {
  json operations = json::array();
  for (const ReplayedOperation& each : replay.operations)
    operations.push_back({each.work, each.gap.count, each.computed.count, each.overlaps});
  json j{{"name", replay.name}, {"operations", std::move(operations)}};
  if (replay.step) j["step"] = replay.step->count;
  if (replay.products) j["products"] = name_of(*replay.products);
  return j;
}

Replay replay_from_json(const json& j, std::vector<Work> works) {
  Replay replay{.name = j.at("name").get<std::string>(), .works = std::move(works)};
  for (const json& each : j.at("operations")) {
    const ReplayedOperation operation{
        each.at(0).get<int>(), {each.at(1).get<double>()}, {each.at(2).get<double>()}, each.at(3).get<bool>()};
    if (operation.work < 0 || std::cmp_greater_equal(operation.work, replay.works.size()) ||
        !(operation.gap.count >= 0) || !(operation.computed.count >= 0))
      throw CaseError("the other process sent an operation of a replay that is none");
    replay.operations.push_back(operation);
  }
  if (j.contains("step")) replay.step = Seconds{j.at("step").get<double>()};
  if (j.contains("products")) replay.products = parse_gaps(j.at("products").get<std::string>());
  for (const Work& work : replay.works)
    if (!work.planned) throw CaseError("the other process sent a replay of what is no collective");
  return replay;
}

json to_json(const ConcurrentRequest& request) { return json_fields::written(request); }

ConcurrentRequest concurrent_request_from_json(const json& j) { return said<ConcurrentRequest>(j); }

json to_json(const Verification& verification) { return json_fields::written(verification); }

Verification verification_from_json(const json& j) { return said<Verification>(j); }

json to_json(const std::optional<Selection>& selection) { return json_fields::written(selection); }

std::optional<Selection> selection_from_json(const json& j) { return said<std::optional<Selection>>(j); }

json to_json(const std::vector<Offer>& offers) {
  json all = json::array();
  for (const Offer& offer : offers)
    all.push_back({{"setting", offer.setting}, {"microseconds", offer.microseconds}, {"chosen", offer.chosen}});
  return all;
}

std::vector<Offer> cost_table_from_json(const json& j) { return said<std::vector<Offer>>(j); }

void fields(auto& archive, Is<Identity> auto& identity) {
  archive.must("device_uuid", identity.device_uuid);
  archive.must("device_name", identity.device_name);
  archive.must("pci_address", identity.pci_address);
  archive.some("devices", identity.devices);
  archive.must("free_memory", identity.free_memory);
  archive.must("total_memory", identity.total_memory);
  archive.must("visible_devices", identity.visible_devices);
  archive.must("library", identity.library);
  archive.must("library_path", identity.library_path);
  archive.must("driver", identity.driver);
  archive.must("runtime", identity.runtime);
  archive.must("address", identity.address);
  archive.some("memory", identity.memory);
  archive.some("why_no_gpu", identity.why_no_gpu);
  archive.some("gpus", identity.gpus);
  archive.some("gpu_beside", identity.gpu_beside);
}

json to_json(const Identity& identity) { return json_fields::written(identity); }

Identity identity_from_json(const json& j) { return said<Identity>(j); }

}  // namespace p5::protocol
