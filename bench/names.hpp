// Names that a user types: which one was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace p5 {

// The candidate with the fewest edits to `name`, or "" when none is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "unknown KIND 'NAME'; did you mean 'X'? Known: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates);

// Splits at commas; an empty part is kept, for the caller to refuse.
std::vector<std::string> split(std::string_view text, char separator = ',');

// ASCII letters only.
std::string lower(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

}  // namespace p5
