// The signals by which users and schedulers end a job, or warn it that its time is over.
#pragma once

#include <array>
#include <csignal>
#include <utility>

namespace p5 {

inline constexpr std::array<std::pair<int, const char*>, 6> ending_signals{{{SIGHUP, "SIGHUP"},
                                                                            {SIGINT, "SIGINT"},
                                                                            {SIGTERM, "SIGTERM"},
                                                                            {SIGUSR1, "SIGUSR1"},
                                                                            {SIGUSR2, "SIGUSR2"},
                                                                            {SIGXCPU, "SIGXCPU"}}};

}  // namespace p5
