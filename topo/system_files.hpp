// Reading the small files of /proc and /sys: whatever is missing or unreadable is absent, never an error.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace p5::topo {

// The whole file without white space at its ends.
std::optional<std::string> read_text(const std::filesystem::path& file);

// The number that the file starts with.
std::optional<double> read_number(const std::filesystem::path& file);

std::vector<std::string> lines_of(std::string_view text);

// The value of the first line that starts with `key`, such as "MemTotal:" or "inactive_file", without white space at
// its ends.
std::optional<std::string> value_of(const std::filesystem::path& file, std::string_view key);

// Names in a folder, sorted; none when there is no such folder.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Target of a link as a full path, and its last component; "" when the target cannot be resolved.
std::filesystem::path target_of(const std::filesystem::path& link);
std::string target_name(const std::filesystem::path& link);

bool present(const std::filesystem::path& path);
// False also for the file of a device that the kernel has no driver for. (As root, NVML makes /dev/nvidiactl on any
// machine.)
bool has_driver(const std::filesystem::path& device);

std::string_view trimmed(std::string_view text);
std::optional<double> leading_number(std::string_view text);

}  // namespace p5::topo
