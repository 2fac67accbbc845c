// Severity and remedy of NVIDIA's Xids for a GPU: the table is xids.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

struct XidClass {
  std::string name;  // "isolate", "reboot", "reset", "restart", "process" (a program's own fault), "none", "monitor"
  std::vector<int> codes;         // none: all others
  std::vector<std::string> says;  // lower-case words, one of which the text must contain too; none: any text
  Severity severity = Severity::warning;
  std::string action, source;
};

// First matching row of the table. Some codes name the required action only in their text (154; NVLinks' from 144 to
// 150); without it they are of the class "monitor".
const XidClass& class_of_xid(int code, std::string_view text = "");

}  // namespace p5::topo
