#include "bench/backends/ras.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "bench/base/clock.hpp"

namespace p5 {

namespace {

// Of the answer for thousands of ranks.
constexpr std::size_t most_told = 64 << 10;

class Connection {
 public:
  Connection(const addrinfo& address, Clock::time_point deadline)
      : socket_(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {
    const int result = ::connect(socket_, address.ai_addr, address.ai_addrlen);
    int problem = result == 0 ? 0 : errno;
    socklen_t size = sizeof problem;
    if (problem == EINPROGRESS && ready(POLLOUT)) ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &problem, &size);
    connected_ = socket_ >= 0 && problem == 0;
  }
  ~Connection() {
    if (socket_ >= 0) ::close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool connected() const { return connected_; }
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // What comes until there is a whole line, or, with `all`, until the other side closes.
  std::string receive(bool all) const {
    std::string text;
    std::array<char, 4096> piece{};
    while (text.size() < most_told && ready(POLLIN)) {
      const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
      if (got <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(got));
      if (!all && text.back() == '\n') break;
    }
    return text;
  }

 private:
  bool ready(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd waiting{.fd = socket_, .events = events, .revents = 0};
    return left > 0 && ::poll(&waiting, 1, static_cast<int>(left)) == 1;
  }

  int socket_;
  Clock::time_point deadline_;
  bool connected_ = false;
};

}  // namespace

std::string ask_ras(const std::string& address, Seconds limit) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each; each = each->ai_next) {
    const Connection service(*each, deadline);
    if (!service.connected()) continue;
    // It shall tell what it knows before the limit, and not wait longer for processes that do not answer.
    const int patience = std::max(1, static_cast<int>(limit.count / 2));
    if (!service.send(fmt::format("TIMEOUT {}\n", patience)) || service.receive(false).empty()) continue;
    if (!service.send("VERBOSE STATUS\n")) continue;
    std::string told = service.receive(true);
    std::ranges::replace_if(
        told, [](char c) { return (c < ' ' && c != '\n') || c > '~'; }, '?');
    return told;
  }
  return "";
}

}  // namespace p5
