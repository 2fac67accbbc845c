// What the variables of a process say of the launcher that started it: MPI itself does not tell when the launcher is
// another library's, and each process then believes to be alone.
#pragma once

#include <string>

#include "bench/base/environment.hpp"

namespace p5 {

struct LaunchedAs {
  int processes = 0;  // 0: not said
  int rank = 0;
  std::string said_by;  // the variable; "": none
  bool by_torchrun = false;

  bool of_several() const { return processes > 1 || rank > 0; }
};

// By the first launcher that is known to be nearest: mpirun within srun is mpirun.
LaunchedAs launched_as(const Environment& environment);

// Why a job in which MPI sees so many ranks is not the one that was launched, with the remedy; "": it is.
std::string objection_to(const LaunchedAs& launch, int ranks);

// Whether nobody is there whom MPI could ask for its job: then it is not started to find that out. Open MPI would even
// end a task of srun instead of letting it be alone.
bool nobody_to_ask(const Environment& environment);

}  // namespace p5
