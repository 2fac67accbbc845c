// Files from outside and their JSON, read within limits of size, depth and number of values.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "bench/base/units.hpp"

namespace p5 {

// The largest report of a real run has about 30 MB; parsed JSON takes about a dozen times as much memory.
inline constexpr Bytes largest_json = MiB(256);
// The journal of a long run has about 100 MB.
inline constexpr Bytes largest_journal = GiB(1);

// Content of a regular file, that of UTF-16 as UTF-8; pipes, devices and other types are refused without blocking.
// Throws UsageError that names the file, the problem, and `remedy` ("name a report.json").
std::string read_input(const std::filesystem::path& path, Bytes most, std::string_view remedy);

// Reads stdin to its end, alike. Throws UsageError that names the problem and `remedy`.
std::string read_standard_input(Bytes most, std::string_view remedy);

// Throws UsageError that names line and column where the text is not JSON in UTF-8, or the limit that it exceeds:
// nesting depth, or number of values, each of which takes about 100 bytes. Members with a name in `excluded`, of any
// object, have to be valid JSON but are neither kept nor counted.
nlohmann::json parse_json(std::string_view text, std::span<const std::string_view> excluded = {},
                          std::size_t most_values = 20'000'000);

// Reads and parses a file; the error starts with the file's name.
nlohmann::json read_json_input(const std::filesystem::path& path, Bytes most, std::string_view remedy,
                               std::span<const std::string_view> excluded = {});

}  // namespace p5
