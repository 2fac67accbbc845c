// Ends all descendants of this process.
#pragma once

namespace p5 {

// Sends SIGKILL to all descendants, including stopped ones, waits up to 0.4 s for their end, and removes NCCL's files
// of theirs in /dev/shm.
void end_descendants();

}  // namespace p5
