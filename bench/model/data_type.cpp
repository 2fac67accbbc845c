#include "bench/model/data_type.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5 {

namespace {

const std::vector<std::string> type_names{"int8",    "uint8",    "int32",   "uint32",  "int64",       "uint64",
                                          "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};
const std::vector<std::string> op_names{"sum", "prod", "min", "max", "avg", "mulsum"};

// Names in other programs, nccl-tests and PyTorch among them.
const std::map<std::string, std::string, std::less<>> other_names{{"half", "float16"},
                                                                  {"fp16", "float16"},
                                                                  {"f16", "float16"},
                                                                  {"bf16", "bfloat16"},
                                                                  {"float", "float32"},
                                                                  {"fp32", "float32"},
                                                                  {"f32", "float32"},
                                                                  {"tf32", "float32"},
                                                                  {"double", "float64"},
                                                                  {"fp64", "float64"},
                                                                  {"f64", "float64"},
                                                                  {"int", "int32"},
                                                                  {"long", "int64"},
                                                                  {"char", "int8"},
                                                                  {"i8", "int8"},
                                                                  {"i32", "int32"},
                                                                  {"i64", "int64"},
                                                                  {"u8", "uint8"},
                                                                  {"u32", "uint32"},
                                                                  {"u64", "uint64"},
                                                                  {"f8e4m3", "float8_e4m3"},
                                                                  {"fp8_e4m3", "float8_e4m3"},
                                                                  {"float8_e4m3fn", "float8_e4m3"},
                                                                  {"fp8", "float8_e4m3"},
                                                                  {"f8e5m2", "float8_e5m2"},
                                                                  {"fp8_e5m2", "float8_e5m2"},
                                                                  {"average", "avg"},
                                                                  {"mean", "avg"},
                                                                  {"product", "prod"},
                                                                  {"minimum", "min"},
                                                                  {"premulsum", "mulsum"},
                                                                  {"maximum", "max"}};

template <class Enum>
Enum parse(std::string_view kind, std::string_view name, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, name);
  if (const auto other = other_names.find(lower(name)); found == names.end() && other != other_names.end())
    if (std::ranges::find(names, other->second) != names.end())
      throw UsageError(unknown_name(kind, name, names, other->second));
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
