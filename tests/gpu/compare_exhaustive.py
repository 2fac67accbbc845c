"""The loss of a tuning against an exhaustive search on the same machine: python3 compare_exhaustive.py TUNED
EXHAUSTIVE. Two report.json: of `p5bench tune`, and of `p5bench tune --tuning=exhaustive`, which measured each setting
that NCCL offers in each size. Regret: the time of the tuning's choice for a size over that of the fastest setting, both
as the exhaustive search measured them, less one. Prints a table and the mean; judges nothing."""

import json
import statistics
import sys


def row_for(tuning, cell):
    for row in tuning["rows"]:
        if row["collective"] == cell["collective"] and row["from"] <= cell["tuner_bytes"] <= row["to"]:
            return row["setting"]
    return "default"


def main():
    tuned, everything = (json.load(open(path))["tuning"] for path in sys.argv[1:3])
    regrets, of_default = [], []
    print("| collective | bytes | tuned to | us | fastest | us | default us | regret |\n|---|---|---|---|---|---|---|---|")
    for cell in everything["cells"]:
        times = {s["setting"]: s["median_us"] for s in cell["settings"] if s["median_us"] and s["samples"] >= 10}
        if "default" not in times:
            continue
        mine = row_for(tuned, cell)
        if mine not in times:
            print(f"{cell['collective']} {cell['bytes']}: {mine} was not measured by the exhaustive search")
            continue
        best = min(times, key=times.get)
        regrets.append(times[mine] / times[best] - 1)
        of_default.append(times["default"] / times[best] - 1)
        print(f"| {cell['collective']} | {cell['bytes']} | {mine} | {times[mine]:.2f} | {best} | {times[best]:.2f} | {times['default']:.2f} | {100 * regrets[-1]:.1f} % |")
    samples = [sum(cell["samples"] for cell in t["cells"]) for t in (tuned, everything)]
    wanted = {(c["collective"], c["bytes"]) for c in everything["cells"]}
    samples[0] = sum(c["samples"] for c in tuned["cells"] if (c["collective"], c["bytes"]) in wanted)
    print(f"mean regret {100 * statistics.mean(regrets):.2f} %, of the default {100 * statistics.mean(of_default):.2f} %; "
          f"samples {samples[0]} against {samples[1]} ({100 * samples[0] / samples[1]:.1f} %)")


main()
