#include "bench/backends/nccl/worker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "bench/backends/nccl/device.hpp"
#include "bench/backends/nccl/local_checks.hpp"
#include "bench/base/error.hpp"

namespace p5::nccl {

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

}  // namespace

protocol::Identity Worker::identify(const protocol::LocalRank& local) {
  if (!device_) device_ = choose_device(local.local_rank);
  return identify_device(*device_);
}

std::string Worker::id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return to_hex(id);
}

Environment Worker::join(const std::vector<std::string>& ids, int rank, int ranks) {
  const ncclUniqueId first = id_from_hex(ids.at(0));
  engine_.emplace(*device_, page_, log_, first, rank, ranks);
  log_.log_warnings_only();
  Environment environment = library_variables();
  log_.restore(environment);
  return environment;
}

// Ranks that pause have nothing to do on their devices: not even to wait for the others there.
void Worker::form(const Formation& formation) {
  using Aligned = Engine::Aligned;
  const Aligned beginners = !formation.pauses ? Aligned::job : formation.alone ? Aligned::group : Aligned::members;
  engine_->form(formation.group, beginners);
}

std::unique_ptr<Session> Worker::open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) {
  auto session = std::make_unique<NcclSession>(std::move(c), round, std::move(place), *engine_, memory);
  session_ = session.get();
  return session;
}

void Worker::close() { std::exchange(session_, nullptr)->close(); }

LocalChecks Worker::check_locally(Seconds burn) { return nccl::check_locally(engine_->queue(), burn); }

// NCCL's own kernels end once it is aborted; one that does not end is not NCCL's, and what its peers wait for.
bool Worker::is_idle_after_abort() noexcept {
  constexpr Seconds patience{1};
  // Given up while it joined: on the way here NCCL was aborted and memory freed, for which the device had to come to
  // rest.
  if (!engine_) return true;
  if (session_) session_->abort();
  engine_->abort();
  return engine_->queue().rests_within(patience);
}

void Worker::abort() {
  std::signal(SIGALRM, [](int) { _exit(0); });
  alarm(2);
  if (session_) session_->abort();
  if (engine_) engine_->abort();
}

}  // namespace p5::nccl
