#include "reports/colours.hpp"

#include <array>

#include "bench/base/console.hpp"

namespace p5::reports {

namespace {

constexpr std::string_view green = "\033[1;32m", red = "\033[1;31m", yellow = "\033[1;33m", faint = "\033[2m",
                           plain = "\033[0m";

struct Word {
  std::string_view word, colour;
};
constexpr std::array first_words{Word{"ACCEPT", green},  Word{"REJECT", red},       Word{"CANNOT TELL", yellow},
                                 Word{"error ", red},    Word{"warning ", yellow},  Word{"  suspect ", red},
                                 Word{"  slow ", red},   Word{"  wrong ", red},     Word{"  failed ", red},
                                 Word{"  faulty ", red}, Word{"  one of ", yellow}, Word{"  not judged: ", faint}};
// Of a row, behind the blanks before its last column.
constexpr std::array last_words{Word{"  ok", green}, Word{"  slow", red}, Word{"  wrong", red}, Word{"  failed", red},
                                Word{"  not judged", faint}};

void add_line(std::string_view line, std::string& out) {
  for (const auto& [word, colour] : first_words)
    if (line.starts_with(word)) {
      out.append(colour).append(word).append(plain).append(line.substr(word.size()));
      return;
    }
  for (const auto& [word, colour] : last_words)
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
