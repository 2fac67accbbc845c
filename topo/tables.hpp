// The tables of topo/tables/, which are compiled in: what is known of settings, versions and errors, with sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/base/units.hpp"
#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

// "settings.json". Throws std::logic_error where there is none.
nlohmann::json table(std::string_view file);

// Rows of the table; a row type has a list of fields (json_fields).
template <class Row>
std::vector<Row> make_rows(std::string_view file) {
  return json_fields::read_as<std::vector<Row>>(table(file));
}

// ---- Versions of software, compared by their numbers.

// Range of versions from one (inclusive) to another (exclusive); "": unbounded.
struct VersionRange {
  std::string from, below;
};

// "1.22.0amzn4.0" is 1.22.0: what follows the numbers does not count. False of a version that is not known.
bool contains(const VersionRange& range, const std::string& version);

void fields(auto& archive, Is<VersionRange> auto& range) {
  archive.may("from", range.from);
  archive.may("below", range.below);
}

// ---- Severity and remedy of NVIDIA's Xids for a GPU, and SXids for an NVSwitch: the table is xids.json.

// SXids have codes from 10000 on, and Xids far lower ones.
constexpr bool is_of_switch(int code) { return code >= 10000; }

struct XidClass {
  std::string name;  // "isolate", "reboot", "reset", "restart", "process" (a program's own fault), "none", "monitor"
  bool of_switch = false;         // SXids
  std::vector<int> codes;         // none: all others
  std::vector<std::string> says;  // lower-case words, one of which the text must contain too; none: any text
  Severity severity = Severity::warning;
  std::string action, source;
};

// First matching row of the table. Some codes name the required action only in their text (154; NVLinks' from 144 to
// 150); without it they are of the class "monitor".
const XidClass& class_of_xid(int code, std::string_view text = "");
// The class of the first of these; that of a later one by which the driver says that the GPU needs no reset or reboot
// any more. Xids in the order of their last occurrence; `of_this_gpu` tells which are of the GPU.
template <typename Iterator>
const XidClass& class_at_last(Iterator xid, Iterator end, auto of_this_gpu) {
  const XidClass& kind = class_of_xid(xid->code, xid->text);
  if (kind.name != "reset" && kind.name != "reboot") return kind;
  for (Iterator later = std::next(xid); later != end; ++later)
    if (of_this_gpu(*later))
      if (const XidClass& then = class_of_xid(later->code, later->text); then.name == "none") return then;
  return kind;
}

// ---- Published rates of matrix products by GPU model, the best of many shapes: for information, not a bar.
// The table is matrix_products.json.

struct PublishedProducts {
  std::vector<std::string> gpus;                            // models as platforms name them: "H100"
  std::optional<double> bf16_tflop_per_s, fp8_tflop_per_s;  // dense; null: unknown
  std::string source;
};

// Null: nothing is known of the model.
const PublishedProducts* published_products_of(std::string_view gpu_model);

// ---- Rates of NICs to and from host memory where they are below the NICs' line rate: the table is host_memory.json.

struct HostMemoryRate {
  std::vector<std::string> platforms;
  double read = 0;  // GB/s of all NICs of a node together, one direction, by the device out of the peer's memory
  std::string source;
};

// Null: no published figure shows that host memory limits this platform.
const HostMemoryRate* host_memory_of(const Platform& platform);

// Number of a node's NICs that can transfer host memory at once while each still reaches its own rate: their sum stays
// 20 % below the rate of host memory. At least 1; nullopt: unknown.
std::optional<int> nics_fed_by_host_memory(const Platform& platform);

}  // namespace p5::topo
