// Preloaded into workers by tests: the messages of rank P5BENCH_LIAR leave with their first byte changed, and shared
// memory of P5BENCH_STALE_FILES names is there already, as a killed process of the same id leaves it.
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <list>
#include <string>
#include <vector>

namespace {

fi_ops_fabric fabric_calls;
fi_ops_domain domain_calls;
fi_ops_tagged tagged_calls;
decltype(fi_ops_fabric::domain) open_domain;
decltype(fi_ops_domain::endpoint) open_endpoint;
decltype(fi_ops_tagged::send) send_truth;

bool lies() {
  const char *const liar = std::getenv("P5BENCH_LIAR"), *const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return liar && rank && std::string(liar) == rank;
}

ssize_t send(fid_ep* endpoint, const void* data, size_t bytes, void* descriptor, fi_addr_t to, uint64_t tag,
             void* context) {
  if (bytes == 0 || !lies()) return send_truth(endpoint, data, bytes, descriptor, to, tag, context);
  static std::list<std::vector<char>> sent;  // the library reads the copy until completion
  sent.emplace_back(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  sent.back().front() = static_cast<char>(sent.back().front() ^ 1);
  return send_truth(endpoint, sent.back().data(), bytes, descriptor, to, tag, context);
}

// Replaces one call of each object and keeps the others.
template <class Object, class Calls, class Call>
void put(Object*& calls_of_object, Calls& calls, Call Calls::*member, Call& before, Call instead) {
  calls = *calls_of_object;
  before = calls.*member;
  calls.*member = instead;
  calls_of_object = &calls;
}

int endpoint_of(fid_domain* domain, fi_info* info, fid_ep** endpoint, void* context) {
  const int result = open_endpoint(domain, info, endpoint, context);
  if (result == 0) put((*endpoint)->tagged, tagged_calls, &fi_ops_tagged::send, send_truth, &send);
  return result;
}

int domain_of(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  const int result = open_domain(fabric, info, domain, context);
  if (result == 0) put((*domain)->ops, domain_calls, &fi_ops_domain::endpoint, open_endpoint, &endpoint_of);
  return result;
}

}  // namespace

extern "C" int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  static const auto open = reinterpret_cast<decltype(&fi_fabric)>(dlsym(RTLD_NEXT, "fi_fabric"));
  static int within = 0;  // a layered provider opens another one, which must be left alone
  ++within;
  const int result = open(attributes, fabric, context);
  --within;
  if (result == 0 && within == 0) put((*fabric)->ops, fabric_calls, &fi_ops_fabric::domain, open_domain, &domain_of);
  return result;
}

extern "C" int shm_open(const char* name, int flags, mode_t mode) {
  static const auto open = reinterpret_cast<decltype(&shm_open)>(dlsym(RTLD_NEXT, "shm_open"));
  static int stale = std::getenv("P5BENCH_STALE_FILES") ? std::atoi(std::getenv("P5BENCH_STALE_FILES")) : 0;
  if ((flags & O_EXCL) && std::strchr(name, ':') && stale > 0) {  // not Open MPI's
    --stale;
    const int file = open(name, O_RDWR | O_CREAT, mode);
    const std::vector<char> other_version(1 << 20, '\x7f');
    if (write(file, other_version.data(), other_version.size()) < 0) return -1;
    close(file);
  }
  return open(name, flags, mode);
}
