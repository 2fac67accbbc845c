// What the commands that compare share: reading runs, comparing with a baseline, and writing what came out.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"

namespace p5 {

// All runs of these files and folders, each once. Throws UsageError.
std::vector<reports::Run> read_runs(const std::vector<std::string>& paths, reports::Reading reading);

// The file's or folder's as BASE. Throws UsageError, also where `about` is of other hardware: before anything is
// measured.
reports::Side read_baseline(const std::string& path, const reports::Report& about);

// Into the folder, in those of the formats that a comparison has and that are files; returns their paths.
std::vector<std::filesystem::path> write_comparison(const reports::Comparison& comparison,
                                                    const std::vector<std::string>& formats,
                                                    const std::filesystem::path& folder);

}  // namespace p5
