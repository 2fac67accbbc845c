// Lines of measurements.jsonl, one for each case of each launch: the report's fields, and samples.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

inline constexpr const char* journal_name = "measurements.jsonl";  // beside a run's report.json

// A line has more than the report's measurement, so that --resume judges it, and names parts, as the run itself: all
// samples of each series, some of each group, evenly spaced, and the groups without progress or with wrong data. Groups
// that are no pairs are named by their first rank.
inline constexpr std::size_t most_samples_of_group = 32;
void add_to_line(const Measurement& m, nlohmann::json& line);
// Reads them, and the mean that follows from a series' samples, as far as the line has them: reports have none. Throws
// UsageError naming the field.
void read_from_line(const nlohmann::json& line, Measurement& m);

// Reads case, launch and samples with the interval of their median from each line, and nothing else: the journal of a
// long run has 100 MB and a comparison should take a second. An incomplete last line, left by a killed run, is skipped.
// Throws UsageError naming the line.
std::vector<Result> read_journal(const std::filesystem::path& path);
// Reads a journal from memory; `name` is for messages.
std::vector<Result> journal_in(std::string_view text, std::string_view name);

}  // namespace p5::reports
