"""Whatever arrives at a port, the daemons continue serving."""

import socket
import struct

from cluster import *
import zmtp

GARBAGE = [
    b"",
    b"\0" * 10,
    b"GET / HTTP/1.1\r\n\r\n",
    b"TAUT",
    b"TAUTC\0\x03\x00",
    b"TAUTD\0\x03\x00",
    b"TAUTC\0\x03\x00" + b"\xff" * 40,
    b"TAUTD\0\x03\x00" + b"\xff" * 40,
    b"TAUTX\0\x03\x00" + b"\x08\x01",
    bytes(range(256)) * 40,
]


class Frames(ClusterTest):
    # Without keys: with them nothing of a stranger's is decoded. test_keys.py has that.
    insecure = True

    def setUp(self):
        super().setUp()
        self.start_server(shards=2)
        self.start_worker()
        self.ports = self.addresses("server0")["coordinator"] + self.addresses("server0")["shard"]
        self.assertEqual(len(self.ports), 3)

    def test_garbage_frames_on_every_port_leave_the_daemons_serving(self):
        for port in self.ports:
            dealer = zmtp.Dealer(port)
            self.addCleanup(dealer.close)
            for body in GARBAGE:
                dealer.send(body)
                dealer.send(body, body)
        self.assert_still_trains()

    def test_empty_and_very_many_frames_leave_the_daemons_serving(self):
        for port in self.ports:
            dealer = zmtp.Dealer(port)
            self.addCleanup(dealer.close)
            dealer.send(b"", b"", b"")
            dealer.send(*[b""] * 20000)
        self.assert_still_trains()

    def test_an_oversized_frame_closes_its_connection_and_nothing_else(self):
        for port in self.ports:
            dealer = zmtp.Dealer(port)
            self.addCleanup(dealer.close)
            # Announces 1 TiB; a daemon that believed it would run out of memory.
            dealer.stream.sendall(struct.pack(">BQ", 2, 1 << 40))
            dealer.stream.settimeout(10)
            with self.assertRaises(ConnectionError):
                dealer.receive()
        self.assert_still_trains()

    def test_bytes_that_are_no_zeromq_leave_the_daemons_serving(self):
        for port in self.ports:
            for body in GARBAGE:
                with zmtp.connect(port) as stream:
                    stream.sendall(body)
        self.assert_still_trains()

    def test_connections_that_say_nothing_do_not_keep_others_out(self):
        for port in self.ports:
            for _ in range(50):
                stream = zmtp.connect(port)
                self.addCleanup(stream.close)
        self.assert_still_trains()

    def test_a_peer_of_another_wire_version_gets_both_versions(self):
        dealer = zmtp.Dealer(self.ports[0])
        self.addCleanup(dealer.close)
        dealer.send(zmtp.control_hello(version=999))
        (reply,) = dealer.receive()
        self.assertIn(b"wire version 16 ", reply)
        self.assertIn(b"wire version 999 (another build)", reply)
        self.assert_still_trains()

    def test_a_shard_sends_a_peer_of_another_wire_version_both_versions(self):
        for port in self.ports[1:]:
            dealer = zmtp.Dealer(port)
            self.addCleanup(dealer.close)
            dealer.send(zmtp.data_hello(version=999))
            (reply,) = dealer.receive()
            self.assertIn(b"wire version 16 ", reply)
            self.assertIn(b"wire version 999 (another build)", reply)
        self.assert_still_trains()
