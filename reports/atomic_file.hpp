// Files that are there whole or not at all, and a journal that only grows.
#pragma once

#include <filesystem>
#include <string>

namespace p5::reports {

// Creates the folder and its parents and proves that a file can be made in it. Throws UsageError naming the folder.
void make_folder(const std::filesystem::path& folder);

// Writes beside the target and renames over it; nothing else is left there. Only a regular file is replaced, and keeps
// its permissions. A link to a file, a pipe and a character device are written through; all else is refused:
// UsageError. Throws EnvironmentError naming the file where writing fails.
void write_atomically(const std::filesystem::path& path, const std::string& text);

// For a file or a folder that a user named: throws the UsageError with which write_atomically would end, or one that
// says that the file cannot be made, or that nobody may write it.
void refuse_unwritable(const std::filesystem::path& path);

// Appends a line, the whole of it or nothing, to a regular file and not through a link. Throws EnvironmentError naming
// the file.
void append_line(const std::filesystem::path& path, const std::string& line);

// Makes or moves a symbolic link, atomically.
void point_link(const std::filesystem::path& link, const std::filesystem::path& target);

// For names of temporary files where others may write too: nobody can foresee them.
std::string unpredictable_word();

}  // namespace p5::reports
