// The folder that an import writes to.
#pragma once

#include <filesystem>

#include "bench/model/options.hpp"

namespace p5 {

// Creates a folder named after the imported file if that is a valid name, with "-2", "-3", ... if it exists.
std::filesystem::path new_folder_of_import(const Options& options, const std::filesystem::path& file);

// The cluster that an import belongs to.
std::string cluster_of_import(const Options& options);

}  // namespace p5
