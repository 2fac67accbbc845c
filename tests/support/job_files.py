"""Steps of jobs, as `p5bench import job` writes them (p5bench.job/1)."""

import json


def operation(collective, size, ranks, groups, gap_us=0, **more):
    """`groups`: the name of groups, or lists of ranks."""
    named = isinstance(groups, str)
    return {"collective": collective, "bytes": size, "type": "float32", "op": None, "root": None,
            "group": groups if named else None, **({} if named else {"groups": groups}), "ranks": ranks,
            "gap_us": gap_us, "time_us": None, "fastest_us": None, **more}


def write_job(path, ranks, operations, **more):
    path.write_text(json.dumps({"schema": "p5bench.job/1", "ranks": ranks, "steps": 1, "step_us": None,
                                "operations": operations, **more}))
    return path
