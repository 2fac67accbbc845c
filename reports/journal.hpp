// Reading measurements.jsonl: its samples, launch by launch.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

inline constexpr const char* journal_name = "measurements.jsonl";  // beside a run's report.json

// Of each line the case, the launch and the samples with the interval of their median; nothing else is read, because
// the journal of a long run has 100 MB and a comparison should take a second. Half a line at the end, as a run leaves
// that was ended hard, is left out. Throws UsageError naming the line.
std::vector<Result> read_journal(const std::filesystem::path& path);
// Of its text; `name` is for messages.
std::vector<Result> journal_in(std::string_view text, std::string_view name);

}  // namespace p5::reports
