// EC2's instance metadata service, version 2: a token first, then plain GET requests (AWS, EC2 User Guide, "Access
// instance metadata"). Plain sockets: it is one small HTTP exchange with a machine that is always there.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

using Clock = std::chrono::steady_clock;

struct Service {
  sockaddr_in address{};
  std::string host;
};

// The variable is the one that AWS' own tools take: "http://ADDRESS[:PORT][/]".
std::optional<Service> find_service() {
  const char* const given = std::getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  std::string_view text = given && *given ? given : "http://169.254.169.254";
  if (!text.starts_with("http://")) return std::nullopt;
  text.remove_prefix(7);
  text = text.substr(0, text.find('/'));
  Service service{.address = {}, .host = std::string(text)};
  std::uint16_t port = 80;
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), port).ec != std::errc()) return std::nullopt;
    text = text.substr(0, colon);
  }
  service.address.sin_family = AF_INET;
  service.address.sin_port = htons(port);
  if (inet_pton(AF_INET, std::string(text).c_str(), &service.address.sin_addr) != 1) return std::nullopt;
  return service;
}

class Connection {
 public:
  Connection() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Connection() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // All that the service says until it closes, "" when anything goes wrong or the deadline comes first.
  std::string exchange(const sockaddr_in& address, const std::string& request, Clock::time_point deadline) {
    const int connected = ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (connected != 0 && errno != EINPROGRESS) return "";
    if (!ready(POLLOUT, deadline)) return "";
    if (::send(descriptor_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
      return "";
    std::string reply;
    std::array<char, 2048> piece{};
    while (ready(POLLIN, deadline)) {
      const ssize_t got = ::recv(descriptor_, piece.data(), piece.size(), 0);
      if (got == 0) return reply;
      if (got < 0) return "";
      reply.append(piece.data(), static_cast<std::size_t>(got));
    }
    return "";
  }

 private:
  bool ready(short events, Clock::time_point deadline) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{.fd = descriptor_, .events = events, .revents = 0};
    return left > 0 && ::poll(&waiting, 1, static_cast<int>(left)) == 1;
  }
  int descriptor_;
};

// The body of a good answer.
std::optional<std::string> ask(const Service& service, std::string_view method, std::string_view path,
                               const std::string& header, Clock::time_point deadline) {
  Connection connection;
  const std::string reply = connection.exchange(
      service.address,
      fmt::format("{} {} HTTP/1.0\r\nHost: {}\r\n{}\r\nContent-Length: 0\r\n\r\n", method, path, service.host, header),
      deadline);
  const std::size_t space = reply.find(' '), body = reply.find("\r\n\r\n");
  if (!reply.starts_with("HTTP/1.") || body == std::string::npos || reply.substr(space + 1, 3) != "200")
    return std::nullopt;
  return std::string(trimmed(std::string_view(reply).substr(body + 4)));
}

}  // namespace

std::map<std::string, std::string> ask_instance_metadata(Seconds limit) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
  std::map<std::string, std::string> told;
  if (const char* off = std::getenv("AWS_EC2_METADATA_DISABLED"); off && std::string_view(off) == "true") return told;
  const std::optional<Service> service = find_service();
  if (!service) return told;
  const auto token = ask(*service, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 60", deadline);
  if (!token || token->find_first_of("\r\n") != std::string::npos) return told;
  constexpr std::array<std::pair<const char*, const char*>, 5> wanted{{
      {"instance", "instance-id"},
      {"instance type", "instance-type"},
      {"availability zone", "placement/availability-zone"},
      {"placement group", "placement/group-name"},
      {"partition", "placement/partition-number"},
  }};
  for (const auto& [name, path] : wanted)
    if (const auto text = ask(*service, "GET", fmt::format("/latest/meta-data/{}", path),
                              "X-aws-ec2-metadata-token: " + *token, deadline))
      told[name] = *text;
  return told;
}

}  // namespace p5::topo
