// This process's variables.
#pragma once

#include <map>
#include <string>

namespace p5 {

using Environment = std::map<std::string, std::string>;

Environment own_environment();

}  // namespace p5
