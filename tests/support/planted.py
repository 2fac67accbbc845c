"""What the tests of tuning plant on the clock of the fake GPUs (P5BENCH_FAKE_CLOCK), which does not depend on how busy the
machine is."""

# Settings of all_reduce on the fake NCCL take 12 ms, and the fastest takes 2 ms.
FASTEST = "tree/ll"
SLOWED = {"P5BENCH_FAKE_CLOCK": "2000",
          "P5BENCH_FAKE": ",".join(f"slow:rank=0:us=10000:setting={setting}" for setting in
                                   ("tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple"))}
