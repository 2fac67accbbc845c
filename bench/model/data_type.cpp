#include "bench/model/data_type.hpp"

#include <algorithm>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5 {

namespace {

const std::vector<std::string> type_names{"int8",   "uint8",   "int32",    "uint32",  "int64",
                                          "uint64", "float16", "bfloat16", "float32", "float64"};
const std::vector<std::string> op_names{"sum", "prod", "min", "max", "avg"};

template <class Enum>
Enum parse(std::string_view kind, std::string_view name, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw UsageError(unknown_name(kind, name, names));
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::span<const std::string> data_type_names() { return type_names; }
std::span<const std::string> reduce_op_names() { return op_names; }
std::string_view name_of(DataType type) { return type_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(ReduceOp op) { return op_names[static_cast<std::size_t>(op)]; }
DataType parse_data_type(std::string_view name) { return parse<DataType>("type", name, type_names); }
ReduceOp parse_reduce_op(std::string_view name) { return parse<ReduceOp>("operation", name, op_names); }

}  // namespace p5
