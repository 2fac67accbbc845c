// Threads, and the words for where there are none.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace p5 {

// Throws EnvironmentError where limits let this process have no more threads.
std::thread start_thread(std::function<void()> body);

// Where the limit of stacks (ulimit -s) is lower than libraries expect: raises it as far as it goes, and gives threads
// from here on stacks of a megabyte whatever it is.
void provide_stacks();

// Starts so many threads at once and ends them again: processes of ours count like threads. Throws EnvironmentError
// that names `what` needs them, the limits, and how many there were.
void prove_room_for_threads(int count, std::string_view what);

}  // namespace p5
