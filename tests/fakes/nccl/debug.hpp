// The fake's debug log, by the variables that NCCL has for it: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE.
#pragma once

namespace p5::fake_nccl {

// NCCL's levels and the subsystems that the fake writes for.
enum class Level { none = 0, version = 1, warn = 2, info = 3 };
inline constexpr unsigned long log_init = 0x1, log_tuning = 0x40, log_env = 0x80;

// What plugins are handed too.
void debug_log(int level, unsigned long subsystems, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

// What a network plugin would log while NCCL starts: the lines of the file P5BENCH_FAKE_PLUGIN_LOG, warnings where they
// begin with "WARN ". Nothing where there is no such file.
void log_of_network_plugin();

}  // namespace p5::fake_nccl
