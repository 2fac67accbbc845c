// The tables of topo/tables/, which are compiled in: what is known of settings, versions and errors, with sources.
#pragma once

#include <string_view>
#include <vector>

#include "bench/base/json_fields.hpp"

namespace p5::topo {

// "settings.json". Throws std::logic_error where there is none.
nlohmann::json table(std::string_view file);

// Rows of the table; a row type has a list of fields (json_fields).
template <class Row>
std::vector<Row> make_rows(std::string_view file) {
  return json_fields::read_as<std::vector<Row>>(table(file));
}

}  // namespace p5::topo
