// All processes that this one started, and those that they started.
#pragma once

namespace p5 {

// SIGKILL to all of them, stopped ones too, and what NCCL made for them in /dev/shm goes. Waits a moment for them to be
// gone.
void end_descendants();

}  // namespace p5
