// What others hand us: files, and the JSON in them. Read with limits, so that no file costs more than a message.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "bench/base/units.hpp"

namespace p5 {

// The largest report of a real run has some 30 MB, and JSON takes a dozen times its size in memory.
inline constexpr Bytes largest_json = MiB(256);
// The journal of a long run has some 100 MB.
inline constexpr Bytes largest_journal = GiB(1);

// The content of a regular file: nothing waits for a pipe, and no device is read. Throws UsageError that names the
// file, what is wrong with it, and `remedy` ("name a report.json").
std::string read_input(const std::filesystem::path& path, Bytes most, std::string_view remedy);

// All of stdin, as long as it takes. Throws UsageError that says what is wrong with it, and `remedy`.
std::string read_standard_input(Bytes most, std::string_view remedy);

// Throws UsageError that says in which line and column the text is no JSON in UTF-8, or which limit it
// exceeds: how deep values are nested, and how many there are, of which each takes some 100 bytes. Members of the names
// `left_out`, of whatever object, have to be JSON but are not kept and not counted.
nlohmann::json parse_json(std::string_view text, std::span<const std::string_view> left_out = {},
                          std::size_t most_values = 20'000'000);

// Both: the file's name stands before what is wrong with its JSON.
nlohmann::json read_json_input(const std::filesystem::path& path, Bytes most, std::string_view remedy,
                               std::span<const std::string_view> left_out = {});

}  // namespace p5
