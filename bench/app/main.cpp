#include <string>
#include <vector>

#include "bench/app/program.hpp"

int main(int argc, char** argv) { return p5::run_program(std::vector<std::string>(argv + 1, argv + argc)); }
