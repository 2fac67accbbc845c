// Texts in the files of other programs: shells, YAML, NCCL's configuration, comments. Whatever a value holds, it stays
// one value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace p5::tuner {

// A double-quoted scalar of YAML in ASCII, on one line. Null where the text is not UTF-8: YAML has no other texts.
std::optional<std::string> yaml_text(std::string_view text);

// One line of printable ASCII for a comment; anything else becomes '?', because a character that ends the line for some
// reader would turn the rest into content.
std::string comment_text(std::string_view text);

// Letters, digits, '_', no digit first.
bool is_variable_name(std::string_view name);

// Whether the value can stand in a KEY=VALUE line for readers without quotes (docker --env-file) that somebody may hand
// to a shell all the same: nothing in it means anything to one.
bool plain(std::string_view value);

// Whether NCCL's configuration file can hold it: printable, shorter than 1024, no space at the end, which nobody sees.
bool fits_nccl_conf(std::string_view value);

}  // namespace p5::tuner
