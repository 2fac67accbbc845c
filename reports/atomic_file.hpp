// Files that are there whole or not at all, and a journal that only grows.
#pragma once

#include <filesystem>
#include <string>

namespace p5::reports {

// Creates the folder and its parents and proves that a file can be made in it. Throws UsageError naming the folder.
void make_folder(const std::filesystem::path& folder);

// Writes beside the target and renames over it; nothing else is left there. Throws EnvironmentError naming the file.
void write_atomically(const std::filesystem::path& path, const std::string& text);

// Appends a line, the whole of it or nothing. Throws EnvironmentError naming the file.
void append_line(const std::filesystem::path& path, const std::string& line);

// Makes or moves a symbolic link, atomically.
void point_link(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace p5::reports
