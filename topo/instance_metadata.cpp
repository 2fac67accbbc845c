// EC2's instance metadata service, version 2: a token first, then plain GET requests (AWS, EC2 User Guide, "Access
// instance metadata"). Plain sockets: it is one small HTTP exchange with a machine that is always there.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <set>
#include <string_view>

#include "bench/base/connection.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

constexpr std::size_t longest_reply = 64 << 10;

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

struct Reply {
  std::string status, body;  // "200"
};

std::optional<Reply> ask(const Service& service, std::string_view method, std::string_view path,
                         const std::string& header, Clock::time_point deadline) {
  const auto& address = reinterpret_cast<const sockaddr&>(service.address);
  const Connection connection(address, sizeof service.address, deadline);
  if (!connection.connected() ||
      !connection.send(fmt::format("{} {} HTTP/1.0\r\nHost: {}\r\n{}\r\nContent-Length: 0\r\n\r\n", method, path,
                                   service.host, header)))
    return std::nullopt;
  const auto [reply, whole] = connection.receive(Connection::Until::closed, longest_reply);
  if (!whole) return std::nullopt;
  const std::size_t space = reply.find(' '), body = reply.find("\r\n\r\n");
  if (!reply.starts_with("HTTP/1.") || body == std::string::npos) return std::nullopt;
  return Reply{reply.substr(space + 1, 3), std::string(trimmed(std::string_view(reply).substr(body + 4)))};
}

}  // namespace

std::map<std::string, std::string> ask_instance_metadata(Seconds limit) {
  const Clock::time_point deadline = deadline_in(limit);
  std::map<std::string, std::string> told;
  if (const char* off = std::getenv("AWS_EC2_METADATA_DISABLED"); off && std::string_view(off) == "true") return told;
  const std::optional<Service> service = find_service();
  if (!service) return told;
  const auto token = ask(*service, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 60", deadline);
  if (!token || token->status != "200" || token->body.find_first_of("\r\n") != std::string::npos) return told;
  constexpr std::array<std::pair<const char*, const char*>, 5> wanted{{
      {"instance", "instance-id"},
      {"instance type", "instance-type"},
      {"availability zone", "placement/availability-zone"},
      {"placement group", "placement/group-name"},
      {"partition", "placement/partition-number"},
  }};
  constexpr std::array<std::pair<const char*, const char*>, 2> of_interface{
      {{"vpc", "vpc-id"}, {"subnet", "subnet-id"}}};
  const auto reply = [&](const std::string& path) {
    return ask(*service, "GET", "/latest/meta-data/" + path, "X-aws-ec2-metadata-token: " + token->body, deadline);
  };
  const auto said = [&](const std::string& path) {
    const std::optional<Reply> text = reply(path);
    return text && text->status == "200" ? std::optional(text->body) : std::nullopt;
  };
  for (const auto& [name, path] : wanted)
    if (const auto text = said(path)) told[name] = *text;
  // An instance in no placement group has no such path.
  if (!told.contains("placement group"))
    if (const auto group = reply("placement/group-name"); group && group->status == "404") told["placement group"] = "";
  const std::string interfaces = "network/interfaces/macs/";
  if (const auto mac = said("mac"))
    for (const auto& [name, path] : of_interface)
      if (const auto text = said(fmt::format("{}{}/{}", interfaces, *mac, path))) told[name] = *text;
  std::set<std::string> cards;
  for (const std::string& interface : lines_of(said(interfaces).value_or(""))) {
    const auto card = reply(fmt::format("{}{}network-card", interfaces, interface));  // "02:00:00:00:00:01/"
    if (!card || (card->status != "200" && card->status != "404")) return told;
    cards.insert(card->status == "200" ? card->body : "0");  // no such path where there is one card
  }
  if (!cards.empty()) told["network cards"] = std::to_string(cards.size());
  return told;
}

}  // namespace p5::topo
