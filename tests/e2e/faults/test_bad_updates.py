"""A worker whose records are damaged sends updates that are not finite."""

import json
import struct

from cluster import *

NET = """
net_param {
  layer { name: "table" type: "HDF5Data" top: "data" top: "label"
          hdf5_data_param { source: "table.h5" batch_size: 8 } include { phase: TRAIN } }
  layer { name: "table" type: "HDF5Data" top: "data" top: "label"
          hdf5_data_param { source: "table_test.h5" batch_size: 8 } include { phase: TEST } }
  layer { name: "classes" type: "InnerProduct" bottom: "data" top: "classes"
          inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "classes" bottom: "label" top: "accuracy"
          include { phase: TEST } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "classes" bottom: "label" top: "loss" }
}
"""
MARKER = 777.0


class BadUpdates(ClusterTest):
    def setUp(self):
        super().setUp()
        # Two workers read every second record each: all of the second one's are damaged.
        for name, rows, damaged in (("table", 64, True), ("table_test", 16, False)):
            lines = ["a,b,kind"]
            for row in range(rows):
                kind = row // 2 % 2
                a = MARKER if damaged and row % 2 == 1 else 2 * kind - 1
                lines.append(f"{a},{0.5 - kind},{kind}")
            self.file(f"{name}.csv", "\n".join(lines) + "\n")
            converted = self.tautline("convert", f"{name}.csv", f"{name}.h5", "--label", "kind")
            self.assertEqual(converted.returncode, 0, converted.stderr)
        path = self.folder / "table.h5"
        numbers = path.read_bytes()
        self.assertEqual(numbers.count(struct.pack("<f", MARKER)), 32)
        path.write_bytes(numbers.replace(struct.pack("<f", MARKER),
                                         struct.pack("<f", float("nan"))))

    def train(self, policy, name="out"):
        job = self.file("job.textproto", f"""name: "table" workers: 2 on_bad_update: {policy}
            consistency {{ mode: BSP }}
            solver_param {{ base_lr: 0.1 max_iter: 40 test_iter: 2 test_interval: 40 }}
            """ + NET)
        answer = self.tautline("train", job, "--output", self.folder / name)
        return answer, json.loads((self.folder / name / "summary.json").read_text())

    def test_by_default_the_training_diverges(self):
        answer, summary = self.train("ACCEPT")
        self.assert_fails(answer, "the training has diverged")
        self.assertEqual(summary["state"], "failed")

    def test_refused_updates_leave_the_others_training(self):
        answer, summary = self.train("REFUSE")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn('updates of worker "worker1" that were not finite were refused',
                      answer.stdout)
        self.assertEqual([worker["clock"] for worker in summary["workers"]], [40, 40])
        self.assertEqual(summary["evaluations"][-1]["accuracy"], 1)

    def test_a_worker_is_quarantined_and_the_other_ends_the_job(self):
        answer, summary = self.train("QUARANTINE")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn('worker "worker1"', answer.stdout)
        self.assertEqual(summary["workers"][0]["clock"], 40)
        self.assertLess(summary["workers"][1]["clock"], 40)
        self.assertEqual(summary["evaluations"][-1]["accuracy"], 1)

    def test_a_job_that_fails_names_the_worker(self):
        answer, _ = self.train("FAIL")
        self.assert_fails(answer, 'worker "worker1" has sent updates that are not finite, at 1 or '
                                  "more clocks; on_bad_update is FAIL")


if __name__ == "__main__":
    unittest.main()
