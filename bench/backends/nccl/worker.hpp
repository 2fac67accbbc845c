// The orders of a supervisor and what a worker does for each: a table. Orders are answered one after the other.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/backends/nccl/session.hpp"
#include "bench/backends/nccl/tuning_log.hpp"
#include "bench/protocol.hpp"

namespace p5::nccl {

class Worker {
 public:
  explicit Worker(protocol::SharedPage& page) : page_(page) {}

  // Never throws: what goes wrong is the answer.
  nlohmann::json answer(const nlohmann::json& order) noexcept;
  // Gives up the communicator, so that others waiting for this rank hear of it; ends the process when that takes long.
  void abort();

 private:
  using Json = nlohmann::json;

  Json act(const Json& order);
  Json last_words() noexcept;
  Json identify(const Json& order);
  Json unique_id(const Json& order);
  Json join(const Json& order);
  Json open(const Json& order);
  Json warm_up(const Json& order);
  Json sample(const Json& order);
  Json verify(const Json& order);
  Json selection(const Json& order);
  Json offers(const Json& order);
  Json close(const Json& order);
  Json check_locally(const Json& order);

  // Runs what may leave operations on the device, or other ranks waiting, when it fails.
  template <class Action>
  auto risk(Action&& action);

  Engine& engine();
  NcclSession& session();

  protocol::SharedPage& page_;
  TuningLog log_;
  std::optional<int> device_;
  std::optional<Engine> engine_;
  std::optional<NcclSession> session_;
  // After such a failure operations may hang on the device for ever: nothing more is asked of it.
  bool broken_ = false;
};

}  // namespace p5::nccl
