"""Embeddings whose rows live at the servers: a job is resumed, and a server is lost."""

import re
import shutil

from cluster import *

NET = """
net_param {
  name: "letters"
  layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
          data_param { batch_size: 4 backend: TEXT } text_param { steps: 6 test_share: 0.2 } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
          embed_param { input_dim: 16 num_output: 8 bias_term: false
                        weight_filler { type: "gaussian" std: 0.3 }
                        by_rows: true buckets: 5 evict { idle_clocks: 3 max_rows: 15 } } }
  layer { name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "lstm"
          recurrent_param { num_output: 8 carry_state: false
                            weight_filler { type: "uniform" min: -0.4 max: 0.4 } } }
  layer { name: "scores" type: "InnerProduct" bottom: "lstm" top: "scores"
          inner_product_param { num_output: 16 axis: 2 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
          softmax_param { axis: 2 } }
}
solver_param { type: "Adam" base_lr: 0.02 momentum: 0.9 max_iter: %d }
"""


def rows_job(test, iterations, more=""):
    """Two workers' job on a text whose letters are rare by turns, so that rows are dropped."""
    data = test.folder / "text"
    if not data.exists():
        data.mkdir()
        (data / "input.txt").write_text(("abacadabra " * 30 + "efghijkl" * 30) * 3)
    text = f'name: "letters"\nworkers: 2\ndata {{ folder: "{data}" }}\n'
    return test.file("rows.textproto", text + NET % iterations + more)


class RowsSaved(ClusterTest):
    def train(self, job, *arguments, output):
        shutil.rmtree(self.folder / output, ignore_errors=True)
        answer = self.tautline("train", job, "--mode", "bsp", "--output", self.folder / output,
                               *arguments, timeout=90)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return re.search(r"parameters sha256: (\w+)", answer.stdout)[1]

    def test_a_job_with_an_embedding_by_rows_resumes_in_its_bits_on_other_servers(self):
        for name, way in (("whole", ""), ("coded", "coded { data: 1 parity: 1 }"),
                          ("changed", "incremental: true")):
            job = rows_job(self, 40, f"checkpoint {{ every: 10 keep: 0 {way} }}")
            # Those that are saved in parts need two servers.
            servers = 2 if way else 1
            # Clocks long enough for orders to arrive in time.
            whole = self.train(job, "--servers", servers, "--clock-time", 20, output=name)
            saved = self.folder / name / "checkpoints/letters_iter_20"
            for servers in (1, 2, 3) if not way else (2,):
                with self.subTest(f"{name} on {servers}"):
                    self.assertEqual(self.train(job, "--servers", servers, "--resume", saved,
                                                output="rest"), whole)

    def test_commands_that_read_whole_tables_refuse_rows_with_one_line(self):
        job = rows_job(self, 10, "checkpoint { every: 10 }")
        self.train(job, output="run")
        saved = self.folder / "run/checkpoints/letters_iter_10"
        file = self.folder / "letters.safetensors"
        self.assert_fails(self.tautline("export", saved, "--output", file),
                          '"embed/weight" is kept by rows')


class RowsSurvive(ServersTest):
    def clock(self, job):
        return min(int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"])

    def submit_rows(self, iterations, clock_ms=0, more=""):
        answer = self.ask("submit", rows_job(
            self, iterations, f"consistency {{ mode: BSP }} clock_time_ms: {clock_ms} {more}"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def lose_servers(self, durability):
        self.start_server("coordinator", shards=0, settings=(
            f"heartbeat_limit_s: 1 replication {{ interval: 2 durability: {durability} }}"))
        servers = {i: self.start_daemon("server", f"server{i}") for i in range(3)}
        for i in range(2):
            self.start_daemon("worker", f"worker{i}")
        reference = self.wait_for_job(self.submit_rows(400), "DONE", 120)["parameters_sha256"]
        job = self.submit_rows(400, clock_ms=10)
        for victim in (1, 2):
            wait_until(lambda: self.clock(job) > 10, what="clocks")
            wait_until(lambda: all(shard.get("is_protected")
                                   for shard in self.running(job).get("shards", [])),
                       what="a whole backup of each shard")
            servers[victim].kill()
            servers[victim].wait()
            before = self.clock(job)
            wait_until(lambda: self.clock(job) > before + 10, what="clocks after the loss")
            servers[victim] = self.start_daemon("server", f"server{victim}")
        self.assertEqual(self.wait_for_job(job, "DONE", 120)["parameters_sha256"], reference)
        self.assertIn("is taken over by server", (self.folder / "coordinator.log").read_text())

    def test_a_job_with_an_embedding_by_rows_survives_its_servers_in_its_bits(self):
        self.lose_servers("ASYNC")

    def test_rows_whose_updates_count_once_a_backup_has_them_survive_too(self):
        self.lose_servers("SYNC")

    def test_rows_that_are_lost_for_good_come_from_a_checkpoint_on_fewer_servers(self):
        self.start_server("coordinator", shards=0, settings=(
            "heartbeat_limit_s: 1 replication { interval: 0 }"))
        servers = {i: self.start_daemon("server", f"server{i}") for i in range(4)}
        for i in range(2):
            self.start_daemon("worker", f"worker{i}")
        reference = self.wait_for_job(self.submit_rows(60), "DONE", 120)["parameters_sha256"]
        for victim, name, way in ((0, "whole", ""), (1, "changed", "incremental: true"),
                                  (2, "coded", "coded { data: 1 parity: 1 }")):
            saved = self.folder / name
            job = self.submit_rows(60, 40 * SLOWER, f"""restart: 1
                checkpoint {{ every: 5 folder: "{saved}" keep: 0 {way} }}""")
            wait_until(lambda s=saved: len(list(s.glob("letters_iter_*/manifest.textproto"))) > 1,
                       what="two checkpoints")
            servers[victim].kill()
            servers[victim].wait()
            self.wait_for_job(job, "FAILED", 60)
            rest = self.wait_for_job(job + 1, "DONE", 120)
            self.assertEqual(rest["parameters_sha256"], reference, name)
            log = (self.folder / "coordinator.log").read_text()
            self.assertRegex(log, rf"job {job + 1}: continues job {job} from clock [1-9]")
            servers[victim] = self.start_daemon("server", f"server{victim}")
