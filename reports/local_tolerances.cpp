// The figures of a GPU that is checked alone and under load, and by how much it may be worse than the others.
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>

#include "reports/local_checks.hpp"

namespace p5::reports {

namespace {

// Healthy GPUs of one model differ in compute rate because their chips differ in power; Azure warns at 3.5 % below the
// median and repairs at 7 % (Azure/ai-infrastructure-on-azure, skills/slurm, 2026).
constexpr double tolerated_compute = 0.035;
// Another program on a GPU may explain a warning: the driver gives programs equal turns, so that a second one leaves
// half of the GPU, and even three others, none of which should be there, a quarter. Where less than that is left of its
// matrix products the GPU itself is at fault, as with clocks that stay at idle (345 of 1980 MHz).
constexpr double condemned_rate = 0.75;
constexpr const char* about_clocks =
    "compare its clocks, power and temperature under load with the others': nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,"
    "PERFORMANCE; if they do not differ, replace the instance";

constexpr const char* about_links =
    "compare its clocks and its NVLinks with the others' while a job runs: nvidia-smi -q -d CLOCK,POWER,PERFORMANCE "
    "and nvidia-smi nvlink -e; if they do not differ, replace the instance";
constexpr const char* about_slow_nics =
    "compare the PCIe link and the error counters of the NIC beside it with the others'; if they do not differ, "
    "replace the instance";
constexpr double any_deviation = std::numeric_limits<double>::infinity();
// Messages share processors and memory with the products, whose order differs from GPU to GPU.
constexpr double tolerated_messages = 0.1;

constexpr LocalCheck check_of_memory(std::string_view name, std::string_view label) {
  return {.name = name,
          .label = label,
          .unit = "GB/s",
          .tolerated = 0.05,
          .action = "look at its memory and clocks: nvidia-smi -q -d ECC,ROW_REMAPPER,CLOCK,PERFORMANCE"};
}

constexpr LocalCheck check_of_host_copies(std::string_view name, std::string_view label) {
  return {.name = name,
          .label = label,
          .unit = "GB/s",
          .tolerated = 0.25,
          .action = "compare its PCIe link with the others': nvidia-smi -q, \"GPU Link Info\""};
}

constexpr LocalCheck check_of_products(std::string_view name, std::string_view label, double tolerated,
                                       double condemned) {
  return {.name = name,
          .label = label,
          .unit = "TFLOP/s",
          .tolerated = tolerated,
          .condemned = condemned,
          .action = about_clocks};
}

constexpr LocalCheck rate_under_load(std::string_view name, std::string_view label, std::string_view unit,
                                     std::string_view action) {
  return {.name = name, .label = label, .unit = unit, .tolerated = any_deviation, .action = action, .under_load = true};
}

// The tolerances are wide on purpose: host copies share memory and switches with the host's other work, and launch
// rates differed by 40 % between processes on a shared H200 host (2026-11-22). No rate of copies, memory or launches
// condemns a GPU: a busy host, or another program for the moment in which one is measured, explains them too.
constexpr std::array all_local_checks{
    check_of_memory("device_copy_gb_per_s", "device copy"),
    check_of_host_copies("host_to_device_gb_per_s", "host to device"),
    check_of_host_copies("device_to_host_gb_per_s", "device to host"),
    check_of_host_copies("host_both_ways_gb_per_s", "host and device both ways"),
    check_of_memory("memory_read_gb_per_s", "reading memory"),
    LocalCheck{.name = "slowest_slice_share",
               .label = "rate of the slowest 64th of memory over the median",
               .unit = "",
               .tolerated = 0.1,
               .action = "a part of its memory is slow: replace the instance, and open a case with support.txt"},
    check_of_products("bf16_tflop_per_s", "bf16 matrix products", tolerated_compute, condemned_rate),
    check_of_products("fp8_tflop_per_s", "fp8 matrix products", tolerated_compute, condemned_rate),
    check_of_products("burn_first_tflop_per_s", "bf16 matrix products at the start of the burn", tolerated_compute,
                      2 * tolerated_compute),
    check_of_products("burn_last_tflop_per_s", "bf16 matrix products at the end of the burn", tolerated_compute,
                      2 * tolerated_compute),
    check_of_products("burn_least_tflop_per_s", "the slowest second of the burn", 0.1, condemned_rate),
    LocalCheck{.name = "launch_us",
               .label = "launch of an empty kernel",
               .unit = "us",
               .more_is_better = false,
               .tolerated = 1,
               .action = "check what else runs on the cores near it, and their clock"},
    // Under load. Rates are shown, and what is left of the rate alone is judged: that needs no figure of another
    // machine, and parts that are slow alone too are named by the checks above or as suspects.
    rate_under_load("load_products_alone_tflop_per_s", "bf16 matrix products before messages pass", "TFLOP/s",
                    about_clocks),
    rate_under_load("load_products_tflop_per_s", "while messages pass", "TFLOP/s", about_clocks),
    LocalCheck{.name = "load_products_share",
               .label = "what messages leave of the rate of matrix products",
               .unit = "",
               .tolerated = tolerated_compute,
               .condemned = condemned_rate,
               .action = about_clocks,
               .under_load = true,
               .rate = "load_products_tflop_per_s"},
    rate_under_load("load_links_alone_gb_per_s", "messages over links alone", "GB/s", about_links),
    rate_under_load("load_links_gb_per_s", "while it computes", "GB/s", about_links),
    LocalCheck{.name = "load_links_share",
               .label = "what matrix products leave of the rate of messages over links",
               .unit = "",
               .tolerated = tolerated_messages,
               .condemned = condemned_rate,
               .action = about_links,
               .under_load = true,
               .of_exchange = true,
               .rate = "load_links_gb_per_s"},
    rate_under_load("load_nics_alone_gb_per_s", "messages over NICs alone", "GB/s", about_slow_nics),
    rate_under_load("load_nics_gb_per_s", "while it computes", "GB/s", about_slow_nics),
    LocalCheck{.name = "load_nics_share",
               .label = "what matrix products and links leave of the rate of messages over NICs",
               .unit = "",
               .tolerated = tolerated_messages,
               .condemned = condemned_rate,
               .action = about_slow_nics,
               .under_load = true,
               .of_exchange = true,
               .rate = "load_nics_gb_per_s"},
    rate_under_load("load_copies_alone_gb_per_s", "copies to the host alone", "GB/s", about_clocks),
    rate_under_load("load_copies_gb_per_s", "while it computes", "GB/s", about_clocks),
    LocalCheck{.name = "load_copies_share",
               .label = "what matrix products leave of the rate of copies to the host",
               .unit = "",
               .tolerated = 0.25,
               .action = about_clocks,
               .under_load = true,
               .rate = "load_copies_gb_per_s"},
};

}  // namespace

std::span<const LocalCheck> local_checks() { return all_local_checks; }

std::string unknown_figure(const LocalFigures& figures) {
  const auto is_known = [](const std::string& name) {
    return std::ranges::find(all_local_checks, name, &LocalCheck::name) != all_local_checks.end();
  };
  for (const auto& [name, value] : figures)
    if (!is_known(name)) return name;
  return "";
}

}  // namespace p5::reports
