#include "bench/backends/ras.hpp"

#include <netdb.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "bench/base/connection.hpp"

namespace p5 {

namespace {

// Maximum size of an answer, which grows with the number of ranks.
constexpr std::size_t max_answer = 64 << 10;

}  // namespace

std::string query_ras(const std::string& address, Seconds limit) {
  const Clock::time_point deadline = deadline_in(limit);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0)
    return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each; each = each->ai_next) {
    const Connection service(*each->ai_addr, each->ai_addrlen, deadline);
    if (!service.connected()) continue;
    // Limits the service's own wait for processes that do not answer.
    const int timeout_s = std::max(1, static_cast<int>(limit.count / 2));
    if (!service.send(fmt::format("TIMEOUT {}\n", timeout_s)) ||
        !service.receive(Connection::Until::line, max_answer).complete)
      continue;
    if (!service.send("VERBOSE STATUS\n")) continue;
    std::string answer = service.receive(Connection::Until::closed, max_answer).text;
    std::ranges::replace_if(
        answer, [](char c) { return (c < ' ' && c != '\n') || c > '~'; }, '?');
    return answer;
  }
  return "";
}

}  // namespace p5
