// The kinds of ControlPlane: one participant for all ranks, one thread per rank, one forked process per rank, one MPI
// process per rank.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// One participant that hosts all ranks: for the simulator.
std::unique_ptr<ControlPlane> make_solo_control_plane(int ranks);

// Runs `body` in `ranks` threads, each with its ControlPlane, and joins them. When one throws, those that wait for it
// get JobLost, and the first exception is rethrown here.
void run_threads(int ranks, const std::function<void(ControlPlane&)>& body);

// Ranks as processes of this host, without a launcher: this process is rank 0 and leads, the others are forked from it.
class ProcessJob {
 public:
  // Returns in each of the processes. Requires a process without threads, which a fork would not copy. The other
  // processes are killed when this one ends; where one of them ends before the job, the leader gets JobLost that names
  // it. The destructor of the leader waits `teardown_limit` for the others, then kills them. Throws EnvironmentError.
  explicit ProcessJob(int ranks, Seconds teardown_limit = {5});
  ControlPlane& control() const { return *control_; }

 private:
  std::unique_ptr<ControlPlane> control_;
};

// MPI from MPI_Init to MPI_Finalize; only one per process.
class MpiJob {
 public:
  // control_plane_only: the data under test does not use this MPI, which is kept off the fabric: point-to-point over
  // shared memory and TCP, unless the operator chose otherwise. TCP uses interfaces that lead to other hosts, unless
  // the operator chose them too. Throws UnreachableError when the launcher started several processes that MPI does not
  // see as one job, when ranks cannot exchange messages, or when the limit of open files is below the number of
  // connections.
  explicit MpiJob(bool control_plane_only);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;
  ControlPlane& control() const { return *control_; }

 private:
  std::unique_ptr<ControlPlane> control_;
};

// True if an MPI launcher (mpirun, srun) started this process.
bool started_by_launcher();
// True if any launcher, of MPI or not, started further processes.
bool has_launched_peers();
// True unless a launcher gave this process a rank above 0.
bool is_first_launched();

// ---- MPI, for its ControlPlane and the mpi backend

// An unreachable rank; `host` is "" where unknown.
struct UnreachableRank {
  int rank = 0;
  std::string host;
};
std::string describe(const std::vector<UnreachableRank>& unreachable);

// Called after MPI_Init and before any other exchange, on all ranks: each sends its host name to rank 0, one rank of
// each host sends enough to use all connections that MPI has between two processes, and all pass a barrier. Throws
// UnreachableError when that takes longer than `limit`: at rank 0 with the missing hosts and `remedy`; at the others, a
// while later, without a message.
void check_connectivity(Seconds limit, const std::string& remedy);

namespace mpi {

// Throws CaseError with the text of MPI's error code and the caller's location.
void check(int result, std::source_location where = std::source_location::current());

}  // namespace mpi

}  // namespace p5
