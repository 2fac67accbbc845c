// Letters from one participant of a job to another: all that the ControlPlane by hosts needs of what carries them, so
// that tests can count them below it.
#pragma once

#include <optional>
#include <string>

#include "bench/base/units.hpp"

namespace p5 {

struct ControlMessage {
  int from = 0;
  std::string text;
};

class ControlTransport {
 public:
  virtual ~ControlTransport() = default;

  virtual int participants() const = 0;
  virtual int participant() const = 0;

  // Returns at once, whatever the other one does. Letters from one to another come in the order in which they left.
  virtual void send(int to, std::string text) = 0;
  // Whether what was sent has left, so that it arrives without further calls.
  virtual bool all_left() = 0;
  // The next message that has come, if any.
  virtual std::optional<ControlMessage> receive() = 0;
  // Between two looks for messages, by one who has waited since then.
  virtual void pause(Clock::time_point waiting_since) = 0;
};

}  // namespace p5
