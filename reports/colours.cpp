#include "reports/colours.hpp"

#include <array>

#include "bench/base/console.hpp"

namespace p5::reports {

namespace {

constexpr std::string_view green = "\033[1;32m", red = "\033[1;31m", yellow = "\033[1;33m", faint = "\033[2m",
                           plain = "\033[0m";

struct ColouredWord {
  std::string_view word, colour;
};
constexpr std::array first_words{
    ColouredWord{"ACCEPT", green},  ColouredWord{"REJECT", red},       ColouredWord{"CANNOT TELL", yellow},
    ColouredWord{"error ", red},    ColouredWord{"warning ", yellow},  ColouredWord{"  suspect ", red},
    ColouredWord{"  slow ", red},   ColouredWord{"  wrong ", red},     ColouredWord{"  failed ", red},
    ColouredWord{"  faulty ", red}, ColouredWord{"  one of ", yellow}, ColouredWord{"  not judged: ", faint}};
// Of a row, behind the blanks before its last column.
constexpr std::array failure_context{ColouredWord{"  ok", green}, ColouredWord{"  slow", red},
                                     ColouredWord{"  wrong", red}, ColouredWord{"  failed", red},
                                     ColouredWord{"  not judged", faint}};

void add_line(std::string_view line, std::string& out) {
  for (const auto& [word, colour] : first_words)
    if (line.starts_with(word)) {
      out.append(colour).append(word).append(plain).append(line.substr(word.size()));
      return;
    }
  for (const auto& [word, colour] : failure_context)
    if (line.ends_with(word)) {
      line.remove_suffix(word.size());
      out.append(line).append(colour).append(word).append(plain);
      return;
    }
  out.append(line);
}

}  // namespace

std::string with_colours(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    add_line(text.substr(0, end), out);
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string in_colours(std::string_view text) {
  return stdout_takes_colours() ? with_colours(text) : std::string(text);
}

}  // namespace p5::reports
