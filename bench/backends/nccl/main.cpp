// The worker program for NCCL: takes orders from the p5bench that started it, until that one says so or is gone.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/worker.hpp"
#include "bench/protocol.hpp"

namespace {

using namespace p5;

bool is_socket(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

// Ends with the process that made the socket pair. That one may be gone before prctl has come into effect.
bool tie_to_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  ucred maker{};
  socklen_t size = sizeof maker;
  if (getsockopt(protocol::socket_descriptor, SOL_SOCKET, SO_PEERCRED, &maker, &size) != 0) return true;
  return maker.pid <= 0 || maker.pid == getppid();
}

void close_all_above(int descriptor) {
  if (close_range(static_cast<unsigned>(descriptor) + 1, ~0u, 0) == 0) return;
  const long end = sysconf(_SC_OPEN_MAX);  // a kernel before 5.9
  for (int each = descriptor + 1; each < end; ++each) close(each);
}

// Children, of which plugins may start some, get none of it.
protocol::SharedPage* take_descriptors() {
  close_all_above(protocol::page_descriptor);
  for (const int each : {protocol::socket_descriptor, protocol::page_descriptor}) fcntl(each, F_SETFD, FD_CLOEXEC);
  void* const page =
      mmap(nullptr, sizeof(protocol::SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, protocol::page_descriptor, 0);
  return page == MAP_FAILED ? nullptr : static_cast<protocol::SharedPage*>(page);
}

// Until "quit", or until the other side is gone.
void obey(nccl::Worker& worker, protocol::SharedPage& page) {
  for (;;) {
    const protocol::Received received = protocol::receive(protocol::socket_descriptor, -1);
    if (!received.message) return;
    page.orders.fetch_add(1);
    const auto& [epoch, order] = *received.message;
    const std::string name = order.value("order", "");
    if (name == "quit") return;
    page.order.store(protocol::order_number(name));
    const nlohmann::json reply = worker.answer(order);
    page.order.store(0);
    protocol::send(protocol::socket_descriptor, {epoch, reply});
  }
}

}  // namespace

int main() {
  if (!is_socket(protocol::socket_descriptor)) {
    std::fputs("p5bench starts this program by itself; start p5bench instead\n", stderr);
    return 2;
  }
  // Ctrl-C and the scheduler's signals reach all processes; what follows from them is the supervisor's to say.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  if (!tie_to_parent()) return 0;
  protocol::SharedPage* const page = take_descriptors();
  if (!page) {
    std::perror("p5bench-worker-nccl: the shared page");
    return 1;
  }
  try {
    nccl::register_twins();
    nccl::Worker worker(*page);
    obey(worker, *page);
    worker.abort();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "p5bench-worker-nccl: %s\n", problem.what());
    _exit(1);
  }
  _exit(0);  // destructors could wait for a device that does not answer
}
