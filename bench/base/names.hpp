// Names that a user types: which one was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace p5 {

// The candidate with the fewest edits to `name`, small and capital letters alike, of those first that begin as it does;
// "" when none is near.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "unknown KIND 'NAME'; did you mean 'X'? Known: a, b, c".
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates);
// The same where it is known what was meant.
std::string unknown_name(std::string_view kind, std::string_view name, std::span<const std::string> candidates,
                         const std::string& meant);

// Splits at commas; an empty part is kept, for the caller to refuse.
std::vector<std::string> split(std::string_view text, char separator = ',');

// ASCII letters only.
std::string lower(std::string_view text);

// Why no folder of ours may have this name, and what names may be; "" where it may. For every name that becomes part of
// a path: it then stays in its parent, on one line of any terminal, and away from what else lies there.
std::string objection_to_folder_name(std::string_view name);

std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

}  // namespace p5
