// Reads the samples of measurements.jsonl, launch by launch.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

inline constexpr const char* journal_name = "measurements.jsonl";  // beside a run's report.json

// Reads case, launch and samples with the interval of their median from each line, and nothing else: the journal of a
// long run has 100 MB and a comparison should take a second. An incomplete last line, left by a killed run, is skipped.
// Throws UsageError naming the line.
std::vector<Result> read_journal(const std::filesystem::path& path);
// Reads a journal from memory; `name` is for messages.
std::vector<Result> journal_in(std::string_view text, std::string_view name);

}  // namespace p5::reports
