// A TCP connection to a local or nearby service, with a deadline for everything it does.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>

#include "bench/base/units.hpp"

namespace p5 {

class Connection {
 public:
  // The deadline applies to all later calls too.
  Connection(const sockaddr& address, socklen_t size, Clock::time_point deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  // True if all of it fit the socket buffer at once: meant for requests of a few lines.
  bool send(const std::string& text) const;

  enum class Until { line, closed };
  struct Received {
    std::string text;
    bool complete = false;
  };
  Received receive(Until until, std::size_t most) const;

 private:
  bool ready(short events) const;

  int socket_;
  Clock::time_point deadline_;
  bool connected_ = false;
};

}  // namespace p5
