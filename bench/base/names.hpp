// Names that a user types: suggestions for misspelt ones, lists of names, names of folders.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace p5 {

// The candidate with the smallest edit distance to `name`, ignoring case; candidates that start with `name` are
// preferred. "" when none is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "unknown KIND 'NAME'; did you mean 'X'? Known: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates);
// The same with a given suggestion.
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates,
                         const std::string& meant);

// Splits at the separator; empty parts are kept, so that the caller can reject them.
std::vector<std::string> split(std::string_view text, char separator = ',');

// Lower case of ASCII letters; other bytes stay.
std::string lower(std::string_view text);

// Error message for a name that cannot become part of a path below the output folder; "" where it can. A valid name
// stays within its parent, prints on one line and differs from reserved names.
std::string folder_name_error(std::string_view name);

std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

}  // namespace p5
