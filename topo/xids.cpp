#include "topo/xids.hpp"

#include <algorithm>

#include "bench/base/names.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

void fields(auto& visit, Is<XidClass> auto& row) {
  visit.must("class", row.name);
  visit.must("codes", row.codes);
  visit.must("recovery", row.recovery);
  visit.must("severity", json_fields::named(row.severity, severity_from));
  visit.must("action", row.action);
  visit.must("source", row.source);
}

// "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
const XidClass& class_of_xid(int code, std::string_view text) {
  static const auto rows = rows_of<XidClass>("xids.json");
  constexpr int recovery_action = 154;
  const std::string wanted =
      code == recovery_action ? lower(text.substr(std::min(text.size(), text.rfind(" to ")))) : "";
  const auto asks = [&](const std::string& word) { return wanted.find(word) != std::string::npos; };
  const auto at = std::ranges::find_if(rows, [&](const XidClass& row) {
    return row.codes.empty() || std::ranges::find(row.codes, code) != row.codes.end() ||
           std::ranges::any_of(row.recovery, asks);
  });
  return at == rows.end() ? rows.back() : *at;
}

}  // namespace p5::topo
