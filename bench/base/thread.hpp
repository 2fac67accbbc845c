// Threads, and the words for where there are none.
#pragma once

#include <functional>
#include <thread>

namespace p5 {

// Throws EnvironmentError where limits let this process have no more threads.
std::thread start_thread(std::function<void()> body);

}  // namespace p5
