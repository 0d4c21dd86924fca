"""Servers with `transport: UCX`: what holds over ZeroMQ holds over UCX too."""

import ctypes
import os
import random
import socket
import unittest

from cluster import *
import faults.test_token as test_token

LENET = """
name: "lenet"
workers: 2
data { folder: "%s" }
net: "%s"
solver_param { base_lr: 0.01 momentum: 0.9 max_iter: 12 test_interval: 0 }
consistency { mode: BSP }
"""


def without_ucx():
    """Why UCX is not to be had here; "" if it is."""
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError as failure:
        return str(failure)
    is_built_in = b"ucp_am_send_nbx" in (BIN / "tautline-server").read_bytes()
    return "" if is_built_in else "this build has no UCX"


class Ucx(test_token.Training):
    """Also runs what it inherits, over UCX."""

    def setUp(self):
        if why := without_ucx():
            self.skipTest(why)
        super().setUp()
        self.addCleanup(os.environ.pop, "UCX_TLS", None)
        self.transport = "transport: UCX"

    def start_daemon(self, role, name, settings="", wait=True, more=""):
        if role == "server":
            settings += " " + self.transport
        return super().start_daemon(role, name, settings, wait, more)

    def lenet(self):
        data = write_random_images(self.folder / "images")
        net = (SOURCE / "configs" / "models" / "lenet.prototxt").read_text()
        net = self.file("lenet.prototxt", net.replace("batch_size: 100", "batch_size: 16"))
        return self.file("lenet.textproto", LENET % (data, net))

    def lenet_digest(self, transports=""):
        """The parameters after a training, over ZeroMQ or over these of UCX's transports."""
        self.transport = "transport: UCX" if transports else ""
        os.environ["UCX_TLS"] = transports or "none"  # which ZeroMQ does not read
        self.coordinator = None
        self.start_cluster()
        for server in ("server0", "server1"):
            (shard,) = self.addresses(server)["shard"]
            self.assertEqual(shard.startswith("ucx://"), bool(transports), shard)
        answer = self.ask("submit", self.lenet())
        self.assertEqual(answer.returncode, 0, answer.stderr)
        digest = self.wait_for_job(int(answer.stdout.split()[1]), "DONE",
                                   60)["parameters_sha256"]
        self.kill_all()
        return digest

    def test_lenet_over_ucx_ends_in_the_bits_that_it_has_over_zeromq(self):
        over_zeromq = self.lenet_digest()
        self.assertRegex(over_zeromq, "^[0-9a-f]{64}$")
        self.assertEqual(self.lenet_digest("tcp"), over_zeromq)
        self.assertEqual(self.lenet_digest("tcp,posix,cma"), over_zeromq)
        self.assertNotIn("dropped a message", self.logs())

    def test_over_ucx_a_lost_server_is_taken_over_and_no_bit_changes(self):
        self.test_under_token_a_lost_server_is_taken_over_and_no_bit_changes()

    def test_over_ucx_a_lost_server_is_taken_over_in_shared_memory_too(self):
        os.environ["UCX_TLS"] = "tcp,posix,cma"
        self.test_under_token_a_lost_server_is_taken_over_and_no_bit_changes()

    def test_over_ucx_a_worker_that_was_declared_lost_comes_back_as_another_member(self):
        self.test_under_token_a_worker_that_was_declared_lost_comes_back_as_another_member()

    def test_over_ucx_the_links_of_a_cluster_are_examined(self):
        self.test_under_token_the_links_of_a_cluster_are_examined()

    def test_over_ucx_followers_read_from_the_servers_and_from_each_other(self):
        self.test_under_token_followers_read_from_the_servers_and_from_each_other()

    def killed_worker(self):
        self.start_cluster()
        job = self.submit("SSP", 300, clock_ms=10)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.workers[0].kill()
        self.wait_for_job(job, "DONE", 60)
        self.assertIn("declared lost", self.logs())
        self.start_daemon("worker", "worker2")
        self.assert_still_trains()

    def test_over_ucx_a_killed_worker_holds_no_training_up(self):
        os.environ["UCX_TLS"] = "tcp"
        self.killed_worker()

    def test_over_ucx_a_worker_killed_in_shared_memory_holds_no_training_up(self):
        os.environ["UCX_TLS"] = "tcp,posix,cma"
        self.killed_worker()

    def test_servers_of_both_wires_serve_one_job(self):
        self.start_cluster(servers=1)
        self.transport = ""
        self.servers.append(self.start_daemon("server", "server1"))
        first = self.wait_for_job(self.submit("BSP", 60), "DONE", 60)["parameters_sha256"]
        self.kill_all()
        self.coordinator = None
        self.start_cluster()
        second = self.wait_for_job(self.submit("BSP", 60), "DONE", 60)["parameters_sha256"]
        self.assertEqual(first, second)

    def test_a_killed_server_listens_on_its_port_of_ucx_again(self):
        self.start_cluster(servers=0, workers=2)
        port = f"port_base: {free_ports(1)[0]}"
        server = self.start_daemon("server", "server0", port)
        job = self.submit("SSP", 100000, clock_ms=5)
        wait_until(lambda: self.clock(job) > 5, what="clocks")
        server.kill()
        server.wait()
        self.start_daemon("server", "server0", port)

    def test_garbage_on_a_shards_port_of_ucx_harms_no_training(self):
        self.start_cluster()
        job = self.submit("SSP", 200, clock_ms=10)
        wait_until(lambda: self.clock(job) > 5, what="clocks")
        draw = random.Random(1)
        for server in ("server0", "server1"):
            (shard,) = self.addresses(server)["shard"]
            host, port = shard.removeprefix("ucx://").rsplit(":", 1)
            for size in (0, 1, 64, 4096, 100000):
                with socket.create_connection((host, int(port)), timeout=5) as stranger:
                    try:
                        stranger.sendall(draw.randbytes(size))
                    except OSError:
                        pass
        self.wait_for_job(job, "DONE", 60)
        for server in self.servers:
            self.assertIsNone(server.poll())


class UcxSettings(ClusterTest):
    def test_transport_ucx_is_refused_without_token_with_line_and_column(self):
        for line in ("", "data_security: CURVE", "insecure: true"):
            config = self.file("cluster.textproto", 'coordinator_address: "127.0.0.1:0"\n'
                               'server { name: "s" coordinator {}\n  transport: UCX }\n' + line)
            for answer in (self.tautline("validate", config),
                           self.run_program("tautline-server", "--config", config)):
                self.assert_fails(answer, "cluster.textproto:3:3: transport: UCX does not encrypt",
                                  "data_security: TOKEN", "remove transport: UCX")
                self.assertEqual(len(answer.stderr.strip().splitlines()), 1, answer.stderr)


if __name__ == "__main__":
    unittest.main()
