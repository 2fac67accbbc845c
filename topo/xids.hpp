// What NVIDIA's Xids mean for a GPU: the table is xids.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

struct XidClass {
  std::string name;  // "isolate", "reboot", "reset", "restart", "process" (a program's own fault), "none", "monitor"
  std::vector<int> codes;         // none: all others
  std::vector<std::string> says;  // one of these words, in small letters, stands in the text besides; none: any text
  Severity severity = Severity::warning;
  std::string action, source;
};

// The first row of the table that fits. Some codes tell what is needed in their text only (154; NVLinks' from 144 to
// 150); without it they are of the class "monitor".
const XidClass& class_of_xid(int code, std::string_view text = "");

}  // namespace p5::topo
