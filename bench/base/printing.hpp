// fmt::format for a terminal: each text among the arguments is made printable.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include "bench/base/text.hpp"

namespace p5 {

namespace printing {

template <class Value>
inline constexpr bool is_text = std::is_convertible_v<const Value&, std::string_view>;
template <class Value>
using Shown = std::conditional_t<is_text<Value>, std::string, Value>;

template <class Value>
decltype(auto) shown(const Value& value) {
  if constexpr (is_text<Value>)
    return printable(value);
  else
    return (value);
}

template <class... Values>
std::string format(fmt::string_view form, const Values&... values) {
  return fmt::vformat(form, fmt::make_format_args(values...));
}

}  // namespace printing

template <class... Values>
std::string format_printable(fmt::format_string<printing::Shown<Values>...> form, const Values&... values) {
  return printing::format(fmt::string_view(form), printing::shown(values)...);
}

}  // namespace p5
