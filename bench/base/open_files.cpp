#include "bench/base/open_files.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include <fmt/format.h>

namespace p5 {

namespace {

// For logs, journals, libraries and the pipes to a worker, with a margin.
constexpr std::uint64_t own_files = 64;

std::optional<rlimit> limit_of_files() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::optional(limit) : std::nullopt;
}

std::uint64_t files_open_now() {
  std::error_code problem;
  const std::filesystem::directory_iterator files("/proc/self/fd", problem);
  return problem ? 0 : static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace

std::optional<std::uint64_t> open_files_at_start() {
  static const std::optional<rlimit> limit = limit_of_files();
  return limit ? std::optional<std::uint64_t>(limit->rlim_cur) : std::nullopt;
}

std::string make_room_for_connections(std::uint64_t connections) {
  open_files_at_start();  // before it changes
  std::optional<rlimit> limit = limit_of_files();
  const std::uint64_t needed = files_open_now() + own_files + connections;
  if (!limit || limit->rlim_cur >= needed) return "";
  if (limit->rlim_max < needed)
    return fmt::format(
        "a process may open {} files (ulimit -Hn), and the connections to {} ranks of other hosts need {}. Raise it, "
        "for "
        "instance to 65536: /etc/security/limits.d for logins, LimitNOFILE of slurmd or the kubelet, --ulimit "
        "nofile=65536 for docker",
        limit->rlim_max, connections, needed);
  limit->rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &*limit);
  return "";
}

}  // namespace p5
