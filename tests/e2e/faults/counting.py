"""Jobs whose parameters count the updates that were applied: those of each share of the data."""

import array
import collections
import csv
import re

from cluster import *
from tensors import *

# The gradient of each row of a table is the record, and a record says in whose share of the data it
# is (write_shares). So an update subtracts the same power of two from the first value of each row
# and from that of its share, and a lost one shows also where one of another share is applied twice.
# One of the same share and another clock is the same update: a net does not know its clock, and
# which records it draws is the sampler's matter. Sums do not depend on the order, and are exact up
# to 2^24 updates.
NET_THAT_COUNTS = """
net_param {
  name: "counting"
  layer { name: "data" type: "Data" top: "data" top: "label"
          data_param { batch_size: 1 backend: IDX } }
  layer { name: "ignored" type: "Silence" bottom: "label" }
%s
}
solver_param { base_lr: 0.0009765625 lr_policy: "fixed" max_iter: %d }
"""
TABLE = """
  layer { name: "%s" type: "InnerProduct" bottom: "data" top: "%s"
          inner_product_param { num_output: %d bias_term: false
                                weight_filler { type: "constant" } } }
  layer { name: "%s" type: "Reduction" bottom: "%s" top: "%s" loss_weight: 1 }
"""
STEP = 2.0 ** -10

# leave  its last clock is the one before
Member = collections.namedtuple("Member", "name share join leave")


def row_length(shares):
    """Values of a row: all updates, those of each share, and zeros up to a power of two."""
    return 1 << shares.bit_length()


def write_shares(folder, shares):
    """Records whose first number and the one at the place of their share are 1, and the others 0.
    Share i has every record whose number leaves i when divided by the number of shares."""
    if folder.exists():
        return folder
    folder.mkdir()
    records = bytearray()
    count = 4 * shares
    for record in range(count):
        row = bytearray(row_length(shares))
        row[0] = row[1 + record % shares] = 1
        records += row
    for stem in ("train", "t10k"):
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", (count, 1, row_length(shares)),
                  bytes(records))
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", (count,), bytes(count))
    return folder


def table_names(tables):
    return ["w" + end for end in ("" if tables == 1 else str(i) for i in range(tables))]


def net_that_counts(rows, clocks, tables):
    return NET_THAT_COUNTS % ("".join(TABLE % (name, name, rows, f"{name}_loss", name,
                                               f"{name}_loss") for name in table_names(tables)),
                              clocks)


class CountingTest(ServersTest):
    def submit_counting(self, mode, clocks, parameters, clock_ms, more="", tables=1, workers=2):
        """Returns the job's number.
        parameters  of each of the tables
        workers     shares of the data
        """
        job = self.job(iterations=clocks, workers=workers,
                       data=write_shares(self.folder / f"{workers} shares", workers), extra=(
                           f"consistency {{ mode: {mode} }} clock_time_ms: {clock_ms} {more}"))
        rows, rest = divmod(parameters, row_length(workers))
        self.assertEqual(rest, 0, "parameters that are no whole row")
        text = job.read_text()
        begin, end = text.index("net_param {"), text.index("consistency {")
        job.write_text(text[:begin] + net_that_counts(rows, clocks, tables) + text[end:])
        answer = self.ask("submit", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def clock(self, job):
        return max((int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"]),
                   default=0)

    def is_protected(self, job):
        shards = self.running(job).get("shards", [])
        return shards and all(shard.get("is_protected") for shard in shards)

    def wait_for_protected_clocks(self, job):
        wait_until(lambda: self.clock(job) > 10 and self.is_protected(job), 60,
                   what="clocks, and a whole backup of each shard")

    def counts(self, checkpoint, parameters, tables=1, workers=2):
        """How many updates of each share the parameters of a checkpoint have: a list for each
        table. All of its rows have the same ones."""
        columns = {name: [set() for _ in range(row_length(workers))]
                   for name in table_names(tables)}
        found = collections.Counter()
        for file in checkpoint.glob("shard*.safetensors"):
            for name, data in read_safetensors(file)[0].items():
                table, offset = re.fullmatch(r"(\w+)/weight\[(\d+):\d+\]", name).groups()
                values = array.array("f", data)
                found[table] += len(values)
                length = row_length(workers)
                for column, seen in enumerate(columns[table]):
                    seen.update(values[(column - int(offset)) % length::length])
        self.assertEqual(dict(found), dict.fromkeys(columns, parameters), "numbers in a checkpoint")
        counts = []
        for table, sets in columns.items():
            self.assertEqual({len(seen) for seen in sets}, {1}, (table, sets))
            total, *shares = (-seen.pop() / STEP for seen in sets)
            self.assertEqual(total, sum(shares), (table, shares))
            counts.append(shares[:workers])
        return counts

    def applied(self, folder, clocks, parameters):
        """How many updates of each share the parameters of the last checkpoint have, of which none
        is missing. The job has one table."""
        [counts] = self.counts(folder / f"tiny_iter_{clocks}", parameters)
        return counts

    @staticmethod
    def members(checkpoint):
        """All that its job has had, with their shares and clocks up to the checkpoint's."""
        text = (checkpoint / "manifest.textproto").read_text()
        end = int(re.search(r"^clock: (\d+)", text, re.M)[1])
        found = []
        for block in re.findall(r"^members \{\n(.*?)^\}", text, re.M | re.S):
            fields = dict(re.findall(r"^  (\w+): (.*)$", block, re.M))
            join, leave = (min(int(fields.get(name, 0)), end)
                           for name in ("join_clock", "leave_clock"))
            found.append(Member(fields["name"].strip('"'), int(fields.get("slot", 0)), join, leave))
        return found

    def updates_until(self, checkpoint, workers=2):
        """How many updates the members of each share have made until the checkpoint, by the clocks
        at which they have joined and left."""
        updates = [0] * workers
        for member in self.members(checkpoint):
            updates[member.share] += member.leave - member.join
        return updates

    def read_of_others(self, job, worker, parameters):
        """How many of the other worker's updates each of a worker's reads had, at least: the loss
        counts all updates, its own ones twice, and it has pushed one of its own a clock."""
        rows = parameters // row_length(2)
        with (self.folder / f"records/job{job}-{worker}/metrics.csv").open() as file:
            return [-float(row["loss"]) / (STEP * rows) - 2 * int(row["clock"])
                    for row in csv.DictReader(file)]


__all__ = ["CountingTest"]
