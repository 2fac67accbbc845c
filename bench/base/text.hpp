// Text from outside (file contents, host names, library messages) made safe for a terminal or a message, and lines of
// logs.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

namespace p5 {

// Replaces control characters (line ends and ESC among them), invisible and bidirectional marks, and bytes that are not
// UTF-8 by \xNN; the result is one line. Idempotent.
std::string printable(std::string_view text);
// The same, but line ends stay.
std::string printable_lines(std::string_view text);

bool is_utf8(std::string_view text);
// Stands in front of texts of some programs of Windows.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
// Stands for spaces in texts that were copied from web pages.
inline constexpr std::string_view no_break_space = "\xc2\xa0";

// At most `most` bytes of UTF-8, with "..." at the end where some are left out, and no part of a character.
std::string cut(std::string text, std::size_t most);

// Printable, in quotation marks, and cut after about 80 characters: messages may quote any input.
std::string in_quotes(std::string_view text);

// The text as one word of a POSIX shell; NUL is not supported.
std::string shell_word(std::string_view text);
// The same, without quotation marks where a shell needs none.
std::string for_shell(std::string_view text);

std::string upper_case(std::string text);  // ASCII only

// The whole text as a number, or null.
template <class Number>
std::optional<Number> as_number(std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

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

}  // namespace printing

template <class... Values>
std::string format_printable(fmt::format_string<printing::Shown<Values>...> form, const Values&... values) {
  const auto format = [&](const auto&... shown) {
    return fmt::vformat(fmt::string_view(form), fmt::make_format_args(shown...));
  };
  return format(printing::shown(values)...);
}

// ---- Lines of logs as launchers and terminals leave them: coloured, with other text in front of what NCCL wrote.

// Length of the escape sequence at the beginning of a text; 0 for none. ESC may be a byte or written as in JSON
// ("\u001b"), by `cat -v` ("^[") or by rsyslog ("#033").
std::size_t length_of_escape(std::string_view text);
// The line without escape sequences, and without what a carriage return within it lets later text overwrite; \" becomes
// ", and a no-break space a space.
std::string plain_line(std::string_view line);

// The process that wrote a line of NCCL's: "HOST:PID:TID [DEVICE] ".
struct NcclOrigin {
  std::string_view host;
  std::string_view process;  // "HOST:PID"
  std::string_view before;   // what stands in front of it
};
// `before`: the line as far as "NCCL INFO". Of several such origins the last one counts. What a launcher writes in
// front of it is no part of the host's name, with or without a blank between: "[1,3]<stdout>:", "[rank3]:", "3: ".
std::optional<NcclOrigin> nccl_origin(std::string_view before);

// A line of a log as its program wrote it.
struct LogLine {
  std::string text;    // plain
  bool begins = true;  // false: it stands directly behind another line, of which its host's name may have the last word
};
// The lines in a line of a file: parted at line feeds that are written as in JSON ("\n"), and before a further origin
// of NCCL's, where a launcher glued lines or a tool put tabs between them. At least one.
std::vector<LogLine> log_lines(std::string_view line);
// The longest end of a word that is known, else the word: "node-b" of "readnode-b".
std::string_view known_end(std::string_view word, const std::set<std::string, std::less<>>& known);

}  // namespace p5
