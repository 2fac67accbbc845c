#include "bench/base/environment.hpp"

#include <unistd.h>

namespace p5 {

Environment own_environment() {
  Environment variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (const std::size_t equals = text.find('='); equals != std::string::npos)
      variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace p5
