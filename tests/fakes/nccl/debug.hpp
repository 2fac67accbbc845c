// The fake's debug log, controlled by NCCL's variables NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE.
#pragma once

namespace p5::fake_nccl {

// NCCL's log levels and the subsystems that the fake uses.
enum class Level { none = 0, version = 1, warn = 2, info = 3 };
inline constexpr unsigned long log_init = 0x1, log_tuning = 0x40, log_env = 0x80;

// The logger that plugins receive, too.
void debug_log(int level, unsigned long subsystems, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

// Logs lines of the file P5BENCH_FAKE_PLUGIN_LOG as a network plugin would during initialization, as warnings if they
// begin with "WARN ". Does nothing without the file.
void log_of_network_plugin();

}  // namespace p5::fake_nccl
