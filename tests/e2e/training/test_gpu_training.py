"""The model that BSP on a GPU is compared with, and the jobs that gpu_training writes."""
import os
import pathlib
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TAUTLINE_SOURCE"])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu_training"))

import bound
import jobs

FAST = 1e30  # bytes/s of a place that costs nothing


class BspBound(unittest.TestCase):
    def test_tables_that_travel_in_no_time_leave_the_compute(self):
        layers = [(1000, 1.0), (0, 2.0), (1000, 1.0)]
        self.assertAlmostEqual(bound.bsp_seconds(layers, 0.4, FAST, FAST, FAST), 0.4)

    def test_the_first_layers_table_hides_behind_nothing(self):
        # Both copies of 1000 bytes at 10,000 a second follow all of the compute.
        layers = [(1000, 1.0), (0, 3.0)]
        self.assertAlmostEqual(bound.bsp_seconds(layers, 0.4, 1e4, FAST, 1e4), 0.4 + 0.2)

    def test_the_last_layers_table_overlaps_with_earlier_layers(self):
        # A quarter of the compute is the last layer's; the rest hides 0.2 s of copies, not 0.5 s.
        layers = [(0, 3.0), (1000, 1.0)]
        self.assertAlmostEqual(bound.bsp_seconds(layers, 0.4, 1e4, FAST, 1e4), 0.4)
        self.assertAlmostEqual(bound.bsp_seconds(layers, 0.4, 4e3, FAST, 4e3), 0.1 + 0.5)

    def test_a_place_that_all_tables_pass_is_counted_with_all_of_them(self):
        # Each of 3000 bytes makes 5 of memory traffic, after the last layer's third of the compute.
        layers = [(1000, 1.0), (1000, 1.0), (1000, 1.0)]
        self.assertAlmostEqual(bound.bsp_seconds(layers, 0.3, FAST, 5000, FAST), 0.1 + 3.0)


class WrittenJobs(unittest.TestCase):
    def test_a_published_net_is_fed_by_one_made_up_layer(self):
        with tempfile.TemporaryDirectory() as name:
            written = jobs.Jobs(SOURCE / "configs", pathlib.Path(name))
            written.synthetic("one", "alexnet.prototxt", (256, 3, 227, 227), 10, "BSP")
            net = (pathlib.Path(name) / "one.prototxt").read_text()
        original = (SOURCE / "configs/models/alexnet.prototxt").read_text()
        self.assertEqual(net.count('"DummyData"'), 1)
        self.assertEqual(net.count('"Data"'), 0)
        self.assertEqual(net.count("layer {"), original.count("layer {") - 2 + 1)
        self.assertEqual(net.count("{"), net.count("}"))
        self.assertIn("dim: 256 dim: 3 dim: 227 dim: 227", net)


if __name__ == "__main__":
    unittest.main()
