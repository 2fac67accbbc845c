// Files that are written completely or not at all, and a journal that only grows.
#pragma once

#include <filesystem>
#include <string>

namespace p5::reports {

// Creates the folder and its parents and proves that a file can be made in it. Throws UsageError naming the folder.
void make_folder(const std::filesystem::path& folder);

// Writes a temporary file beside the target and renames it; nothing else is left there. Only a regular file is
// replaced, and it keeps its permissions. Links to files, pipes and character devices are written through; everything
// else is refused with a UsageError. Throws EnvironmentError naming the file where writing fails.
void write_atomically(const std::filesystem::path& path, const std::string& text);

// Checks a path that a user named: throws the UsageError that write_atomically would throw, or one that says that the
// file cannot be created or is not writable.
void check_writable(const std::filesystem::path& path);

// Appends a whole line or nothing to a regular file; links are not followed. Throws EnvironmentError naming the file.
void append_line(const std::filesystem::path& path, const std::string& line);

// Creates or replaces a symbolic link atomically.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

// Removes the temporary files and links that are not renamed yet, and lets no other be made: the process ends now.
void remove_unfinished_files();

// Random name for temporary files in folders where others may write; it cannot be predicted.
std::string random_name();

}  // namespace p5::reports
