// Messages between supervisor and worker, header and all.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include "bench/backends/protocol.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace p5::protocol;

void take(const nlohmann::json& body) {
  const auto each = [&](const auto& read) {
    try {
      read(body);
    } catch (const p5::CaseError&) {
    } catch (const p5::UsageError&) {
    } catch (const nlohmann::json::exception&) {  // of an order, which is answered with an error
    }
  };
  each(case_from_json);
  each(request_from_json);
  each(verification_from_json);
  each(selection_from_json);
  each(cost_table_from_json);
  each(identity_from_json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    // As much as a socket holds.
    std::array<int, 2> ends{};
    if (text.size() > 65536 || ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return;
    if (::write(ends[0], text.data(), text.size()) != static_cast<ssize_t>(text.size())) return;
    ::close(ends[0]);
    try {
      Inbox inbox;
      for (;;) {
        const Received received = inbox.receive(ends[1], 0);
        if (!received.message) break;
        take(received.message->body);
      }
    } catch (const p5::CaseError&) {
    }
    ::close(ends[1]);
  });
}
