// What NVIDIA's Xids mean for a GPU: the table is xids.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

struct XidClass {
  std::string name;                   // "isolate", "reboot", "reset", "process" (a program's own fault), "monitor"
  std::vector<int> codes;             // none: all others
  std::vector<std::string> recovery;  // words by which Xid 154 asks for it
  Severity severity = Severity::warning;
  std::string action, source;
};

// Xid 154 tells in its text what is needed; without one it is of no other class than "monitor".
const XidClass& class_of_xid(int code, std::string_view text = "");

}  // namespace p5::topo
