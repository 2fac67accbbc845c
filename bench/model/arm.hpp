// An arm as the command line writes it: "KEY=VALUE,KEY=VALUE".
#pragma once

#include <map>
#include <string>

namespace p5 {

// Variables for the processes of an arm, over those that the operator has set; an empty value removes one. Empty text:
// none. Values may hold commas, as NCCL's do: what stands behind a comma and has no "NAME=" belongs to the value
// before. Throws UsageError naming what is wrong.
std::map<std::string, std::string> parse_arm(const std::string& text);

}  // namespace p5
