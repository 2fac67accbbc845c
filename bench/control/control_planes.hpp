// The kinds of ControlPlane: one participant for all ranks, one thread a rank, one forked process a rank, one MPI
// process a rank.
#pragma once

#include <functional>
#include <memory>

#include "bench/base/units.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// One participant that hosts all ranks: for the simulator.
std::unique_ptr<ControlPlane> make_solo_world(int ranks);

// Runs `body` in `ranks` threads, each with its ControlPlane, and waits for all. When one throws, those that wait for
// it get JobLost, and the first exception is thrown again here.
void run_threads(int ranks, const std::function<void(ControlPlane&)>& body);

// Processes of this host, without a launcher: this one is rank 0 and leads, the others are forked from it.
class ProcessJob {
 public:
  // Returns in each of the processes. Make it before there is any thread, which a forked process would lack. The others
  // end with this one, whatever ends it; where one of them ends before the job, the leader gets JobLost that names it.
  // At its end the leader waits so long for the others', then it kills them. Throws EnvironmentError.
  explicit ProcessJob(int ranks, Seconds teardown_limit = {5});
  ControlPlane& control() const { return *control_; }

 private:
  std::unique_ptr<ControlPlane> control_;
};

// MPI, from MPI_Init to MPI_Finalize. Only one may exist, and only once.
class MpiJob {
 public:
  // control_plane_only: the data under test does not travel over this MPI, so keep it off the fabric: point-to-point
  // over shared memory and TCP, unless the operator chose otherwise. TCP goes over interfaces that lead to other hosts,
  // unless the operator chose them too. Throws UnreachableError when the launcher started several processes that MPI
  // does not see as one job, when they do not hear each other, or when they may not open as many files as there are
  // connections.
  explicit MpiJob(bool control_plane_only);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;
  ControlPlane& control() const { return *control_; }

 private:
  std::unique_ptr<ControlPlane> control_;
};

// Whether an MPI launcher (mpirun, srun) started this process.
bool started_by_launcher();
// Whether some launcher, of MPI or not, says that there are more processes like this one.
bool one_of_several();
// Whether none says that there is one before this one.
bool first_of_several();

}  // namespace p5
