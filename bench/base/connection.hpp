// A connection to a service of this host or beside it, over TCP, that costs no more time than it is given.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>

#include "bench/base/clock.hpp"

namespace p5 {

class Connection {
 public:
  // All that follows ends at the deadline too.
  Connection(const sockaddr& address, socklen_t size, Clock::time_point deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  // Whether all of it could be sent at once: for requests of a line or a few.
  bool send(const std::string& text) const;

  enum class Until { line, closed };
  struct Received {
    std::string text;    // what came, of more than `most` bytes not much more
    bool whole = false;  // with the end that was waited for
  };
  Received receive(Until until, std::size_t most) const;

 private:
  bool ready(short events) const;

  int socket_;
  Clock::time_point deadline_;
  bool connected_ = false;
};

// So much time from now.
Clock::time_point deadline_in(Seconds time);

}  // namespace p5
