#include "topo/tables.hpp"

#include <stdexcept>
#include <string>

#include "bench/base/embedded.hpp"

namespace p5::topo {

nlohmann::json table(std::string_view file) {
  for (const embedded::File& each : embedded::table_files())
    if (each.name == file) return nlohmann::json::parse(each.text);
  throw std::logic_error("no table is called " + std::string(file));
}

}  // namespace p5::topo
