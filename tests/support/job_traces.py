"""Traces of jobs that never ran, in the published forms of each format: what NCCL Inspector (v4.0), NCCL's log, PyTorch's
flight recorder and its profiler would have written. Times are made up; marked so by the host name "made-up".

As a program: job_traces.py FORMAT FOLDER [RANKS [STEPS [REPEATED]]]."""

import copy
import gzip
import json
import pathlib
import re
import sys

SIZES = {"Float": 4, "BFloat16": 2, "Long": 8}
NCCL_TYPES = {"Float": 7, "BFloat16": 9, "Long": 4}
NCCL_NAMES = {"all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter",
              "broadcast": "Broadcast", "all_to_all": "AlltoAll"}
PROFILER_NAMES = {"all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base",
                  "broadcast": "broadcast", "all_to_all": "all_to_allv", "all_to_allv": "all_to_allv"}
RECORDER_NAMES = {"all_reduce": "all_reduce", "all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base",
                  "broadcast": "broadcast", "all_to_all": "all_to_all", "all_to_allv": "all_to_all"}


class Op:
    """A call of one rank: `elements` of the whole message; of all_to_allv `sent`, elements for each member. `computed`:
    when other kernels of the GPU run, as (us after the call's start, us). `thread`: of the host."""

    def __init__(self, name, group, elements=0, kind="BFloat16", gap_us=10.0, took_us=100.0, peer=None, sent=None, sends=False, computed=(), thread=7):
        self.name, self.group, self.elements, self.kind = name, group, elements, kind
        self.gap_us, self.took_us, self.peer, self.sent, self.sends, self.computed = gap_us, took_us, peer, sent, sends, computed
        self.thread = thread

    def sizes(self, ranks):
        """Elements of a rank's input and output."""
        share = self.elements // ranks
        if self.sent:
            return sum(self.sent), sum(self.sent)
        return {"all_gather": (share, self.elements), "reduce_scatter": (self.elements, share)}.get(
            self.name, (self.elements, self.elements))


class Job:
    """`calls(rank, step)`: what a rank calls, with groups by name; `groups`: name to a list of groups of ranks; nodes of
    eight ranks. `once(rank)`: before the first step."""

    def __init__(self, ranks, groups, calls, once=lambda rank: []):
        self.ranks, self.groups, self.calls, self.once = ranks, groups, calls, once

    def group_of(self, rank, name):
        return next(group for group in self.groups[name] if rank in group)

    def ops(self, rank, steps):
        at = 1_000_000.0
        for op in [*self.once(rank), *(op for step in range(steps) for op in self.calls(rank, step))]:
            at += op.gap_us
            yield op, at
            at += op.took_us


def data_parallel(ranks, repeated=2):
    """Reduce-scatter and all-gather of all ranks, as fully sharded data parallel training has it."""
    step = [op for _ in range(repeated) for op in (Op("all_gather", "world", 1024 * ranks, gap_us=50),
                                                   Op("reduce_scatter", "world", 2048 * ranks, "Float", took_us=200))]
    return Job(ranks, {"world": [list(range(ranks))]}, lambda rank, at: step + [Op("all_reduce", "world", 1, "Float", took_us=20)],
               lambda rank: [Op("broadcast", "world", 512, "Float")])


def tensor_parallel(ranks, repeated=4):
    """All-reduces of each node, and one of each rail for the gradients."""
    nodes = [list(range(first, first + 8)) for first in range(0, ranks, 8)]
    rails = [list(range(rail, ranks, 8)) for rail in range(8)]
    step = [Op("all_reduce", "node", 4 << 20, gap_us=30, took_us=150) for _ in range(repeated)]
    return Job(ranks, {"world": [list(range(ranks))], "node": nodes, "rail": rails},
               lambda rank, at: step + [Op("all_reduce", "rail", 16 << 20, "Float", took_us=900)],
               lambda rank: [Op("all_reduce", "world", 1, "Long")])


def pipeline(ranks):
    """Each rank hands on what it got from the one before; all reduce at the end."""
    def calls(rank, _):
        ops = []
        if rank > 0:
            ops.append(Op("p2p", "world", 1 << 20, peer=rank - 1))
        if rank + 1 < ranks:
            ops.append(Op("p2p", "world", 1 << 20, peer=rank + 1, sends=True))
        return [*ops, Op("all_reduce", "world", 256, "Float")]
    return Job(ranks, {"world": [list(range(ranks))]}, calls)


def of_all_levels(ranks):
    """Two all-reduces of each node, an all-gather of each rail, an all-reduce of all ranks."""
    nodes = [list(range(first, first + 8)) for first in range(0, ranks, 8)]
    rails = [list(range(rail, ranks, 8)) for rail in range(8)]
    step = [Op("all_reduce", "node", 4 << 20), Op("all_reduce", "node", 4 << 20), Op("all_gather", "rail", 1 << 20),
            Op("all_reduce", "world", 1 << 20)]
    return Job(ranks, {"world": [list(range(ranks))], "node": nodes, "rail": rails}, lambda rank, at: step,
               lambda rank: [Op("all_reduce", "world", 1, "Long")])


def with_last_stage(ranks):
    """An all-reduce of all ranks, and one more of the last two at the end of each step."""
    groups = {"world": [list(range(ranks))], "stage": [[ranks - 2, ranks - 1]]}
    step = [Op("all_reduce", "world", 1024, "Float"), Op("all_reduce", "stage", 1 << 20, "Float")]
    return Job(ranks, groups, lambda rank, at: [op for op in step if any(rank in group for group in groups[op.group])])


def behind(job, ranks, calls):
    """The job when some ranks have not called its last `calls` yet."""
    early = copy.copy(job)
    early.ops = lambda rank, steps: list(job.ops(rank, steps))[:-calls if rank in ranks else None]
    return early


def late(job, ranks, calls):
    """The job when the records of some ranks begin some calls later."""
    later = copy.copy(job)
    later.ops = lambda rank, steps: list(job.ops(rank, steps))[calls if rank in ranks else 0:]
    return later


def lacking(job, calls):
    """The job when the record of each rank lacks the last `calls(rank, group)` of a group, and has later ones of others."""
    def ops(rank, steps):
        left = {group: calls(rank, group) for group in job.groups}
        kept = []
        for op, at in reversed(list(job.ops(rank, steps))):
            if left[op.group] > 0:
                left[op.group] -= 1
            else:
                kept.append((op, at))
        return kept[::-1]
    shorter = copy.copy(job)
    shorter.ops = ops
    return shorter


def with_embeddings(ranks):
    """All-reduces of the first and the last two ranks, of pairs, and of all ranks, as a pipeline's end and beginning have
    them."""
    groups = {"world": [list(range(ranks))], "embedding": [[0, 1, ranks - 2, ranks - 1]],
              "pair": [[first, first + 1] for first in range(0, ranks, 2)]}
    step = [Op("all_reduce", "embedding", 1 << 18, "Float", took_us=50), Op("all_reduce", "pair", 1 << 24, "Float", took_us=450),
            Op("all_reduce", "pair", 1 << 20, "Float", took_us=30), Op("all_reduce", "world", 8, "Float", took_us=20)]
    return Job(ranks, groups, lambda rank, at: [op for op in step if any(rank in group for group in groups[op.group])],
               lambda rank: [Op("broadcast", "world", 2048, "Float")])


def another_run(text, number):
    """The record of the same ranks when the job is started again: other processes, communicators and times."""
    text = re.sub(r"(made-up-\d+:)(\d+):(\d+)", lambda at: f"{at[1]}{int(at[2]) + 100 * number}:{int(at[3]) + 100 * number}", text)
    text = re.sub(r'"pid":(\d+)', lambda at: f'"pid":{int(at[1]) + 100 * number}', text)
    text = re.sub(r'(_ts|timestamp_us)":(\d+)', lambda at: f'{at[1]}":{int(at[2]) + 10**9 * number}', text)
    return text.replace('"id":"0x', f'"id":"0x{number}').replace("commId 0x", f"commId 0x{number}")


def experts(ranks):
    """An even exchange, and an uneven one: rank r sends rank s (r + 1) * (s + 1) rows of 64 elements."""
    def calls(rank, _):
        return [Op("all_to_all", "world", 64 * ranks, "Float"), Op("all_to_allv", "world", kind="BFloat16", sent=[64 * (rank + 1) * (to + 1) for to in range(ranks)]),
                Op("all_reduce", "world", 4096, "Float")]
    return Job(ranks, {"world": [list(range(ranks))]}, calls)


def pipeline_before_an_exchange(ranks):
    """Each rank hands on bfloat16 to the next, then all exchange float32, which libraries do by messages too."""
    def calls(rank, _):
        ops = []
        if rank + 1 < ranks:
            ops.append(Op("p2p", "world", 1000, peer=rank + 1, sends=True))
        if rank > 0:
            ops.append(Op("p2p", "world", 1000, peer=rank - 1))
        for peer in range(ranks):
            ops += [Op("p2p", "world", 1 << 16, "Float", peer=peer, sends=True), Op("p2p", "world", 1 << 16, "Float", peer=peer)]
        return [*ops, Op("all_reduce", "world", 256, "Float")]
    return Job(ranks, {"world": [list(range(ranks))]}, calls)


def experts_in_turn(ranks):
    """The numbers of rows and the rows that go to each rank, and nothing between: two even exchanges of other sizes and types."""
    step = [Op("all_to_all", "world", ranks, "Long"), Op("all_to_all", "world", 4096 * ranks, "BFloat16")]
    return Job(ranks, {"world": [list(range(ranks))]}, lambda rank, at: step)


# ---- formats: each yields the lines or the text of a rank's file

def pointer(name):
    return f"0x{abs(hash(name)) % (1 << 40) + 4096:x}"


def inspector(job, rank, steps, verbose=True, interval=1, ring=None, newest_in_us=None):
    """Written in intervals of some calls: communicator by communicator, and of each the collectives before the messages.
    `ring`: at the end, of each communicator so many calls, the newest (NCCL 2.30). `newest_in_us`: in intervals of so long,
    of each communicator the newest call that ended in it (NCCL 2.28 and 2.29)."""
    counts, lines, order, ends = {}, [], [], []
    for op, at in job.ops(rank, steps):
        group = job.group_of(rank, op.group)
        member = group.index(rank)
        header = {"id": f"0x{job.groups[op.group].index(group):x}{op.group.encode().hex()}", "rank": member,
                  "n_ranks": len(group), "nnodes": len({each // 8 for each in group})}
        metadata = {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                    "dump_timestamp_us": int(at) + 5000, "hostname": f"made-up-{rank // 8}", "pid": 1000 + rank}
        count = counts[op.group, op.name] = counts.get((op.group, op.name), 0) + 1
        share = len(group) if op.name in ("all_gather", "reduce_scatter", "all_to_all") else 1
        size = op.elements // share * SIZES[op.kind]
        if op.name == "p2p":
            kind, perf = "p2p", {"p2p": "Send" if op.sends else "Recv", "p2p_sn": count, "p2p_peer": group.index(op.peer)}
        else:
            kind, perf = "coll", {"coll": NCCL_NAMES[op.name], "coll_sn": count}
        perf |= {f"{kind}_msg_size_bytes": size, f"{kind}_exec_time_us": int(op.took_us), f"{kind}_timing_source": "kernel_gpu",
                 f"{kind}_algobw_gbs": 1.0, f"{kind}_busbw_gbs": 1.0}
        if verbose:
            perf |= {"event_trace_sn": {f"{kind}_start_sn": 1, "kernel_events": [{"channel_id": 0, "kernel_start_sn": 2}]},
                     "event_trace_ts": {f"{kind}_start_ts": int(at), f"{kind}_stop_ts": int(at + op.took_us),
                                        "kernel_events": [{"channel_id": 0, "kernel_start_ts": int(at)}]}}
        line = json.dumps({"header": header, "metadata": metadata, f"{kind}_perf": perf}, separators=(",", ":")) + "\n"
        order += [op.group] if op.group not in order else []
        lines.append((order.index(op.group), kind, line))
        ends.append(at + op.took_us)
    if ring:
        interval = len(lines)
        lines = [each for at, each in enumerate(lines) if sum(other[:2] == each[:2] for other in lines[at:]) <= ring]
    if newest_in_us:
        phase = 137 * rank % newest_in_us  # ranks write at different times
        lines = list({((end + phase) // newest_in_us, each[0]): each for end, each in zip(ends, lines)}.values())
    for first in range(0, len(lines), interval):
        yield from (line for *_, line in sorted(lines[first:first + interval], key=lambda each: each[:2]))


def nccl_log(job, rank, steps, has_proxy_work=lambda rank, op: True, version="2.26"):
    """opCount moves at the launches that have work for the rank's proxy: all before NCCL 2.27.3; since, none over NVLink
    alone, and those of small calls on the ranks that drive a NIC. Communicators are split from that of all ranks, with the
    place of their ranks in the job's list as the color; `version`: of the line that says so, "2.21", "2.23" or "2.26"."""
    origin = f"made-up-{rank // 8}:{1000 + rank}:{1000 + rank} [{rank % 8}] NCCL INFO "
    seen = {}
    for op, at in job.ops(rank, steps):
        group = job.group_of(rank, op.group)
        comm = pointer((op.group, rank))
        if op.group not in seen:
            about = (f"comm {comm} rank {group.index(rank)} nranks {len(group)} cudaDev {rank % 8} nvmlDev {rank % 8} "
                     "busId 1000")
            if op.group == "world":
                yield f"{origin}ncclCommInitRankConfig {about} commId 0x2b7d - Init START\n"
            else:
                color = job.groups[op.group].index(group)
                split = (f"parent {pointer(('world', rank))} " + f"splitCount {list(job.groups).index(op.group)} " * (version == "2.26")
                         + f"color {color} key {group.index(rank)}" + f" commId {pointer(('split', color))} " * (version == "2.21"))
                yield f"{origin}ncclCommSplit {about} {split}- Init START\n"
                yield f"{origin}ncclCommSplit {about} {split} - Init COMPLETE\n"
        count = seen.setdefault(op.group, 0)
        seen[op.group] += has_proxy_work(rank, op)
        share = len(group) if op.name in ("all_gather", "reduce_scatter", "all_to_all") else 1

        def line(name, elements, root):
            return (f"{origin}{name}: opCount {count:x} sendbuff 0x7f0000000000 recvbuff 0x7f0000100000 count {elements} "
                    f"datatype {NCCL_TYPES[op.kind]} op 0 root {root} comm {comm} [nranks={len(group)}] stream 0x5580\n")
        if op.name == "all_to_allv":  # as PyTorch calls it
            for member, elements in enumerate(op.sent):
                yield line("Send", elements, member)
                yield line("Recv", 64 * (member + 1) * (group.index(rank) + 1), member)
        elif op.name == "p2p":
            yield line("Send" if op.sends else "Recv", op.elements, group.index(op.peer))
        else:
            yield line(NCCL_NAMES[op.name], op.elements // share, 0)


def flight_recorder(job, rank, steps, timed=True):
    entries, counts, config = [], {}, {}
    for op, at in job.ops(rank, steps):
        group = job.group_of(rank, op.group)
        given, got = op.sizes(len(group))
        name = RECORDER_NAMES.get(op.name)
        if op.name == "p2p":
            me, peer = group.index(rank), group.index(op.peer)
            name = f"send {me}->{peer}" if op.sends else f"recv {me}<-{peer}"
        number = counts[op.group] = counts.get(op.group, 0) + (op.name != "p2p")
        label = str(list(job.groups).index(op.group))
        config[label] = {"name": label, "desc": op.group, "ranks": str(group)}
        entry = {"record_id": len(entries), "pg_id": int(label), "process_group": [label, op.group], "collective_seq_id": number,
                 "p2p_seq_id": 0, "op_id": len(entries), "profiling_name": f"nccl:{name}", "time_created_ns": int(at * 1000),
                 "input_sizes": [[given]], "input_dtypes": [op.kind], "output_sizes": [[got]], "output_dtypes": [op.kind],
                 "state": "completed", "time_discovered_started_ns": None, "time_discovered_completed_ns": int(at * 1000),
                 "retired": True, "timeout_ms": 600000, "is_p2p": op.name == "p2p",
                 "frames": [{"name": "step", "filename": "train.py", "line": 7}]}
        entries.append(entry | ({"duration_ms": op.took_us / 1000} if timed else {}))
    # PyTorch writes the members in the order of their names.
    yield json.dumps({"entries": entries, "nccl_comm_state": {}, "pg_config": config, "pg_status": {}, "version": "2.10"})


def profiler(job, rank, steps, old=False, kernels=True):
    events, config, counts = [], {}, {}
    for number, (op, at) in enumerate(job.ops(rank, steps)):
        group = job.group_of(rank, op.group)
        given, got = op.sizes(len(group))
        label = str(list(job.groups).index(op.group))
        config[label] = {"pg_name": label, "pg_desc": op.group, "backend_config": "cuda:nccl", "pg_size": len(group), "ranks": group}
        listed = group if len(group) <= 30 else None
        args = {"External id": 100 + number, "Collective name": PROFILER_NAMES.get(op.name, "send" if op.sends else "recv"),
                "dtype": op.kind, "In msg nelems": given, "Out msg nelems": got, "Group size": len(group),
                "In split size": str([each // 64 for each in op.sent] if op.sent else []), "Out split size": "[]",
                "Process Group Name": label, "Process Group Description": op.group,
                "Process Group Ranks": str(listed) if listed else f"[{', '.join(map(str, group[:29]))}, ..., {group[-1]}]"}
        if op.name == "p2p":
            args["Dst Rank" if op.sends else "Src Rank"] = op.peer
        elif not old:
            args["Seq"] = counts[op.group] = counts.get(op.group, 0) + 1
        common = {"ph": "X", "pid": rank, "tid": op.thread}
        events.append({**common, "cat": "cpu_op", "name": "aten::mm", "ts": at - 30, "dur": 5, "args": {"External id": 1}})
        events.append({**common, "cat": "cpu_op", "name": "record_param_comms", "ts": at - 20, "dur": 8, "args": args})
        if kernels:
            events.append({**common, "cat": "kernel", "name": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ts": at,
                           "dur": op.took_us, "args": {"External id": 100 + number, "stream": 20, "correlation": number,
                                                       "Collective name": args["Collective name"]}})
        events += [{**common, "cat": "kernel", "name": "nvjet_hsh_128x256", "ts": at + after, "dur": took, "args": {"External id": 7, "stream": 7}}
                   for after, took in op.computed]
    events.sort(key=lambda each: (each["cat"] == "kernel", each["tid"]))  # as PyTorch lists them: thread by thread
    about = {"backend": "nccl", "rank": rank, "world_size": job.ranks}
    yield "\n " + json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made-up"}],
                      "distributedInfo": about if old else {**about, "pg_count": len(config), "pg_config": list(config.values()),
                                                            "nccl_version": "2.28.9"},
                      "traceEvents": events, "traceName": "made-up"})


FORMATS = {"inspector": inspector, "log": nccl_log, "recorder": flight_recorder, "profiler": profiler}


def write(job, kind, folder, steps, ranks=None, compressed=False, **options):
    """A file for each of the ranks (all of them if not given)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(job.ranks) if ranks is None else ranks:
        text = "".join(FORMATS[kind](job, rank, steps, **options))
        path = folder / f"trace_rank_{rank}.json"
        if compressed:
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(text.encode(), 1))
        else:
            path.write_text(text)
    return folder


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[3:]]
    size, how_many, repeats = (numbers + [16, 10, 4][len(numbers):])
    write(tensor_parallel(size, repeats), sys.argv[1], sys.argv[2], how_many)
