// Reads one report per line from stdin, and prints "read" or the reason for its refusal.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "bench/base/input.hpp"
#include "reports/report.hpp"

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      p5::reports::report_from_json(p5::parse_json(line));
      std::puts("read");
    } catch (const p5::UsageError& problem) {
      std::printf("refused: %s\n", problem.what());
    } catch (const std::exception& problem) {
      std::printf("broken: %s\n", problem.what());
    }
  }
}
