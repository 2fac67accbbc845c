"""The messages and bytes of the control plane, counted in MPI: an agreement, an abort notice of all ranks at once, and
the start up to the first case. Hosts of eight ranks are pretended. At night with more ranks."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, NIGHTLY, PROGRAM, Folder, main, mpirun  # noqa: E402

RANKS = 64 if NIGHTLY else 24
ON_A_HOST = 8
HOSTS = RANKS // ON_A_HOST
AGREEMENTS = BUILD / "tests" / "agreements"
COUNTER = BUILD / "tests" / "count_messages.so"
PATIENCE_S = 600


class Messages(Folder):
    def count(self, *arguments, program=(AGREEMENTS,)):
        """Counts of each rank: messages and bytes sent, received, and number of partners."""
        counts = self.folder / "counts"
        counts.mkdir(exist_ok=True)
        variables = {"LD_PRELOAD": COUNTER, "P5BENCH_COUNTS": counts, "P5BENCH_RANKS_ON_A_HOST": ON_A_HOST}
        forwarded = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        # The library is not preloaded into mpirun itself.
        done = self.run_it(*arguments, program=(*mpirun(RANKS), *forwarded, *program), patience=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return [tuple(map(int, (counts / str(rank)).read_text().split())) for rank in range(RANKS)]

    def difference(self, more, less, times=1):
        return [tuple((a - b) / times for a, b in zip(one, other)) for one, other in zip(more, less)]

    def test_an_agreement_costs_the_leader_a_message_for_each_host(self):
        times, size = 50, 100
        each = self.difference(self.count(times, size), self.count(0, size), times)
        sent, sent_bytes, received, received_bytes = (sum(one[at] for one in each) for at in range(4))
        self.assertEqual(sent, 2 * (RANKS - 1))
        self.assertEqual(received, sent)
        self.assertEqual(sent_bytes, received_bytes)
        self.assertEqual(each[0][2], HOSTS - 1 + ON_A_HOST - 1)
        self.assertLess(each[0][0], ON_A_HOST + HOSTS.bit_length())
        for rank in range(1, RANKS):
            most = 2 * ON_A_HOST + HOSTS.bit_length() if rank % ON_A_HOST == 0 else 2
            self.assertLessEqual(each[rank][0] + each[rank][2], most)
        others = sorted(one[1] + one[3] for one in each[1:])
        print(f"an agreement of {size} bytes among {RANKS} ranks on {HOSTS} hosts: {sent:.0f} messages, "
              f"{sent_bytes:.0f} bytes; leader receives {each[0][2]:.0f}, sends {each[0][0]:.0f}, "
              f"{each[0][1] + each[0][3]:.0f} bytes; "
              f"others {others[0]:.0f} to {others[-1]:.0f} bytes")

    def test_abort_notices_of_all_cost_two_messages_for_each_rank(self):
        sent = sum(one[0] for one in self.difference(self.count("abort"), self.count(1, 0)))
        self.assertGreaterEqual(sent, RANKS - 1)
        self.assertLessEqual(sent, 2 * RANKS)
        print(f"abort notices of all {RANKS} ranks: {sent:.0f} messages")

    def test_what_a_rank_hears_of_the_machine_does_not_grow_with_the_hosts(self):
        counts = self.difference(self.count("topo", program=(PROGRAM,)), self.count(0, 0))
        others = [one[1] + one[3] for rank, one in enumerate(counts) if rank % ON_A_HOST != 0]
        first = [one[1] + one[3] for rank, one in enumerate(counts) if rank % ON_A_HOST == 0]
        # Two bytes for each rank and thirteen for each host, and a constant part.
        self.assertLessEqual(max(others), 2048 + 2 * RANKS + 13 * HOSTS)
        print(f"finding the machine with {RANKS} ranks on {HOSTS} hosts: a rank {max(others):.0f} bytes at most, "
              f"the first of a host {max(first[1:]):.0f}, the leader {first[0]:.0f}")


if __name__ == "__main__":
    main()
