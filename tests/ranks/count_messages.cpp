// Preloaded into ranks by tests: counts the messages of MPI's point-to-point calls, and writes a line into the folder
// P5BENCH_COUNTS: messages and bytes sent, then received, then the number of partners. Once MPI has started, hosts are
// pretended: P5BENCH_RANKS_ON_A_HOST have the same name.
#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace {

struct Counted {
  unsigned long long messages = 0, bytes = 0;
  void add(int count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    ++messages;
    bytes += static_cast<unsigned long long>(count) * static_cast<unsigned long long>(size);
  }
};

Counted sent, received;
std::set<int> others;
int own_rank = -1;

void count_sent(int count, MPI_Datatype type, int to) {
  sent.add(count, type);
  others.insert(to);
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  PMPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  return result;
}

int gethostname(char* name, size_t length) {
  using Real = int (*)(char*, size_t);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "gethostname"));
  const char* const on_a_host = std::getenv("P5BENCH_RANKS_ON_A_HOST");
  if (own_rank < 0 || !on_a_host) return real(name, length);
  std::snprintf(name, length, "pretended-%d", own_rank / std::atoi(on_a_host));
  return 0;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  count_sent(count, type, to);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  count_sent(count, type, to);
  return PMPI_Send(data, count, type, to, tag, comm);
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  received.add(count, type);
  return PMPI_Recv(data, count, type, from, tag, comm, status);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  received.add(count, type);
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Finalize() {
  if (const char* const folder = std::getenv("P5BENCH_COUNTS"))
    std::ofstream(std::string(folder) + "/" + std::to_string(own_rank))
        << sent.messages << " " << sent.bytes << " " << received.messages << " " << received.bytes << " "
        << others.size() << "\n";
  return PMPI_Finalize();
}
}
