"""Tables of numbers and HDF5 data, by the commands."""

import random
import re

from cluster import *

FLOWERS = ("daisy", "iris", "rose")

AUTOENCODER = """
layer { name: "one" type: "HDF5Data" top: "data" hdf5_data_param { source: "a.h5" batch_size: 4 }
        include { phase: TRAIN } }
layer { name: "two" type: "HDF5Data" top: "data" hdf5_data_param { source: "a.h5" batch_size: 4 }
        include { phase: TEST stage: "test-on-train" } }
layer { name: "three" type: "HDF5Data" top: "data" hdf5_data_param { source: "a.h5" batch_size: 4 }
        include { phase: TEST stage: "test-on-test" } }
layer { name: "code" type: "InnerProduct" bottom: "data" top: "code"
        inner_product_param { num_output: 2 } }
layer { name: "decode" type: "InnerProduct" bottom: "code" top: "decode"
        inner_product_param { num_output: 3 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "decode" bottom: "data" top: "loss" }
"""


class Tables(ClusterTest):
    def fine(self, *arguments):
        answer = self.tautline(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout

    def flowers(self, rows=300):
        """A CSV with separable classes, in columns of very different units."""
        draw = random.Random(11)
        lines = ["id,width,height,species"]
        for row in range(rows):
            kind = draw.randrange(3)
            lines.append(f"{row},{1000 * kind + draw.gauss(0, 150):.3f},"
                         f"{0.01 * (kind - 1) + draw.gauss(0, 0.002):.5f},{FLOWERS[kind]}")
        return self.file("flowers.csv", "\n".join(lines) + "\n")

    def test_a_csv_is_learned_in_two_commands(self):
        self.flowers()
        out = self.fine("convert", "flowers.csv", "table.h5", "--label", "species", "--drop", "id",
                        "--test-share", 0.2)
        self.assertEqual(out, "table.h5: 240 rows of 2 features, 3 classes: 0 daisy, 1 iris, "
                              "2 rose\ntable_test.h5: 60 rows of 2 features\n")
        out = self.fine("train", SOURCE / "configs/models/table_mlp_solver.prototxt", "--max-iter",
                        150, "--workers", 2)
        self.assertGreater(float(re.search(r"test accuracy: ([\d.]+)", out)[1]), 0.9, out)

    def test_a_table_that_cannot_be_read_is_reported_at_line_and_column(self):
        self.file("t.csv", "a,b\n1,2\n3,four\n")
        self.assert_fails(self.tautline("convert", "t.csv", "t.h5"),
                          't.csv:3:3: column "b" holds "four"')
        self.assertFalse((self.folder / "t.h5").exists())
        self.assert_fails(self.tautline("convert", "t.csv"), "give OUT, where the table goes",
                          status=2)
        self.file("t.svm", "1 1:0.5\n-1 2:1\n")
        self.assertIn("2 classes: 0 -1, 1 1", self.fine("convert", "t.svm", "lmdb", "--classes"))
        self.assertTrue((self.folder / "lmdb/data.mdb").exists())

    def test_a_net_whose_tests_need_a_stage_is_shown_with_one_and_warned_of(self):
        self.file("a.csv", "".join(f"{i},{i + 1},{i + 2}\n" for i in range(8)))
        self.fine("convert", "a.csv", "a.h5")
        answer = self.tautline("validate", self.file("net.prototxt", AUTOENCODER))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("warning: the TEST phase needs a stage, which a solver gives: test_state { "
                      'stage: "test-on-train" }, with which it is shown; the net\'s stages are '
                      "test-on-train, test-on-test", answer.stderr)
        self.assertIn("4x3", answer.stdout)

    def test_a_test_writes_blobs_that_an_hdf5_data_layer_reads(self):
        job = self.job()
        text = job.read_text().replace(
            'layer { name: "loss"',
            'layer { name: "features" type: "HDF5Output" bottom: "ip1" bottom: "label" '
            'hdf5_output_param { file_name: "features.h5" } include { phase: TEST } }\n'
            '  layer { name: "loss"', 1)
        job.write_text(text)
        self.fine("train", job, "--output", self.folder / "run")
        net = self.file("reads.prototxt", """
layer { name: "f" type: "HDF5Data" top: "data" top: "label"
        hdf5_data_param { source: "features.h5" batch_size: 32 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 10 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
""")
        out = self.fine("validate", net)
        self.assertIn("32x16", out)
        # What a layer of another job has written is not replaced, nor is a file of something else.
        first = (self.folder / "features.h5").read_bytes()
        self.fine("train", job, "--output", self.folder / "again")
        self.assertEqual((self.folder / "features.h5").read_bytes(), first)
        self.assertTrue((self.folder / "features-2.h5").exists())
        # A job that is tested several times has one file.
        self.assertFalse((self.folder / "features-3.h5").exists())
        table = self.file("table.csv", "a,b,label\n1,2,0\n3,4,1\n")
        (self.folder / "features.h5").unlink()
        self.fine("convert", table, self.folder / "features.h5", "--label", "label")
        for others in (None, "mine"):
            if others:
                (self.folder / "features.h5").write_text(others)
            self.assert_fails(self.tautline("train", job, "--output", self.folder / "two",
                                            "--force"),
                              "features.h5: exists, and no HDF5Output layer has written it")
