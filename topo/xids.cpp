#include "topo/xids.hpp"

#include <algorithm>

#include "bench/base/names.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

void fields(auto& archive, Is<XidClass> auto& row) {
  archive.must("class", row.name);
  archive.must("codes", row.codes);
  archive.must("says", row.says);
  archive.must("severity", json_fields::named(row.severity, severity_from));
  archive.must("action", row.action);
  archive.must("source", row.source);
}

// Matches the text after the last " to " only: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
// Required)" names the required action there.
const XidClass& class_of_xid(int code, std::string_view text) {
  static const auto rows = make_rows<XidClass>("xids.json");
  constexpr std::string_view change = " to ";
  const std::size_t at = text.rfind(change);
  const std::string told = lower(at == std::string_view::npos ? text : text.substr(at + change.size()));
  const auto fits = [&](const XidClass& row) {
    return (row.codes.empty() || std::ranges::find(row.codes, code) != row.codes.end()) &&
           (row.says.empty() || std::ranges::any_of(row.says, [&](const std::string& word) {
              return told.find(word) != std::string::npos;
            }));
  };
  return *std::ranges::find_if(rows, fits);  // the last takes all
}

}  // namespace p5::topo
