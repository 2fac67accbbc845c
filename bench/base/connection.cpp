#include "bench/base/connection.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace p5 {

Connection::Connection(const sockaddr& address, socklen_t size, Clock::time_point deadline)
    : socket_(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {
  int problem = socket_ >= 0 && ::connect(socket_, &address, size) == 0 ? 0 : errno;
  socklen_t length = sizeof problem;
  if (problem == EINPROGRESS && ready(POLLOUT)) ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &problem, &length);
  connected_ = problem == 0;
}

Connection::~Connection() {
  if (socket_ >= 0) ::close(socket_);
}

bool Connection::send(const std::string& text) const {
  return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

Connection::Received Connection::receive(Until until, std::size_t most) const {
  Received received;
  std::array<char, 4096> piece{};
  while (received.text.size() < most && ready(POLLIN)) {
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got > 0) received.text.append(piece.data(), static_cast<std::size_t>(got));
    received.complete = until == Until::line ? received.text.ends_with('\n') : got == 0;
    if (got <= 0 || received.complete) break;
  }
  return received;
}

bool Connection::ready(short events) const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  pollfd waiting{.fd = socket_, .events = events, .revents = 0};
  return left > 0 && ::poll(&waiting, 1, static_cast<int>(left)) == 1;
}

}  // namespace p5
