// report.json: read, written in every format, compared with itself, made a baseline of.
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "bench/base/input.hpp"
#include "reports/baseline.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/report.hpp"
#include "reports/writer.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::reports;
    const Report report = report_from_json(p5::parse_json(text));
    // A report that was read can be written, and then read again.
    const nlohmann::json again = to_json(report);
    if (to_json(report_from_json(again)) != again) std::abort();
    for (const Writer& writer : writers())
      if (writer.render) writer.render(report);
    const std::vector<Run> runs{{.name = "a", .report = report, .journal = {}},
                                {.name = "b", .report = report, .journal = {}}};
    const std::span<const Run> all = runs;
    const Comparison comparison = compare(make_side("BASE", all.first(1)), make_side("NEW", all.last(1)), {.seed = 1});
    for (const Writer& writer : writers())
      if (writer.render_comparison) writer.render_comparison(comparison);
    make_baseline(runs, "2026-11-23T00:00:00Z");
  });
}
