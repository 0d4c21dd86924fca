"""As much of ZMTP 3.0 with the mechanisms NULL, PLAIN and CURVE as a test needs to send a daemon
what it must survive. Source: https://rfc.zeromq.org/spec/23/"""

import ctypes
import ctypes.util
import hmac
import os
import pathlib
import re
import socket
import struct
import unittest

WIRE_VERSION = int(re.search(r"kWireVersion = (\d+)", (
    pathlib.Path(os.environ["TAUTLINE_SOURCE"]) / "proto/wire_version.hpp").read_text())[1])

GREETING = (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\x00"
            + bytes(31))
METADATA = b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
                    for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", b"")))


def connect(address, timeout=5):
    """A bare TCP connection to "host:port"."""
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host.strip("[]"), int(port)), timeout)


def receive_exactly(stream, size):
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed by the peer")
        data += piece
    return data


def frame(body, more=False, command=False):
    flags = (1 if more else 0) | (4 if command else 0)
    if len(body) > 255:
        return struct.pack(">BQ", flags | 2, len(body)) + body
    return struct.pack(">BB", flags, len(body)) + body


class Dealer:
    """A DEALER socket's side of one connection."""

    def __init__(self, address):
        self.stream = connect(address)
        try:
            self.greet()
        except ConnectionError:
            self.close()
            raise

    def greet(self):
        self.stream.sendall(GREETING)
        receive_exactly(self.stream, len(GREETING))
        self.stream.sendall(frame(b"\x05READY" + METADATA, command=True))
        self.receive_frame()  # the peer's READY

    def send(self, *frames):
        data = b"".join(frame(body, more=i + 1 < len(frames)) for i, body in enumerate(frames))
        self.stream.sendall(data)

    def receive_frame(self):
        """(more, body)"""
        flags = receive_exactly(self.stream, 1)[0]
        size = struct.unpack(">Q", receive_exactly(self.stream, 8))[0] if flags & 2 else \
            receive_exactly(self.stream, 1)[0]
        return bool(flags & 1), receive_exactly(self.stream, size)

    def receive(self):
        frames = []
        while True:
            more, body = self.receive_frame()
            frames.append(body)
            if not more:
                return frames

    def close(self):
        self.stream.close()


def plain_hello(secret, user=b"tautline"):
    """PLAIN's first command. Source: https://rfc.zeromq.org/spec/24/"""
    return frame(b"\x05HELLO" + bytes([len(user)]) + user + bytes([len(secret)]) + secret,
                 command=True)


def shows_secret(address, secret, user=b"tautline"):
    """Whether a listener of a plain data plane lets a connection in that shows this secret."""
    stream = connect(address)
    try:
        stream.sendall(GREETING.replace(b"NULL\0", b"PLAIN", 1))
        receive_exactly(stream, len(GREETING))
        stream.sendall(plain_hello(secret, user))
        receive_exactly(stream, 1)
        answer = receive_exactly(stream, receive_exactly(stream, 1)[0])
        return answer.startswith(b"\x07WELCOME")
    except ConnectionError:
        return False
    finally:
        stream.close()


class PlainDealer(Dealer):
    """A DEALER of a plain data plane, which shows a secret."""

    def __init__(self, address, secret):
        self.secret = secret
        super().__init__(address)

    def greet(self):
        self.stream.sendall(GREETING.replace(b"NULL\0", b"PLAIN", 1))
        receive_exactly(self.stream, len(GREETING))
        self.stream.sendall(plain_hello(self.secret))
        if not self.receive_frame()[1].startswith(b"\x07WELCOME"):
            raise ConnectionError("not admitted")
        self.stream.sendall(frame(b"\x08INITIATE" + METADATA, command=True))
        if not self.receive_frame()[1].startswith(b"\x05READY"):
            raise ConnectionError("not ready")

    def part(self, body, more):
        """The bytes of one frame."""
        return frame(body, more)


def check_secret(key, cluster_secret):
    """The request secret of a check of links, of a key's holder: docs/WIRE.md, "The plain data
    plane"."""
    scope = b"\x04" + key.public + bytes(28)
    derived = hmac.new(cluster_secret.encode(), b"tautline data plane", "sha256").hexdigest()
    return scope + hmac.new(derived.encode(), b"request".ljust(16, b"\0") + scope,
                            "sha256").digest()


class Sodium:
    """libsodium's crypto_box, by ctypes."""

    def __init__(self):
        name = ctypes.util.find_library("sodium")
        if name is None:
            raise unittest.SkipTest("libsodium is not installed")
        self.library = ctypes.CDLL(name)

    def key_pair(self):
        """(public, secret)"""
        public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
        self.library.crypto_box_keypair(public, secret)
        return public.raw, secret.raw

    def shared(self, public, secret):
        key = ctypes.create_string_buffer(32)
        assert self.library.crypto_box_beforenm(key, public, secret) == 0
        return key.raw

    def box(self, text, nonce, shared):
        out = ctypes.create_string_buffer(len(text) + 16)
        self.library.crypto_box_easy_afternm(out, text, ctypes.c_ulonglong(len(text)), nonce,
                                             shared)
        return out.raw

    def open(self, box, nonce, shared):
        out = ctypes.create_string_buffer(len(box) - 16)
        if self.library.crypto_box_open_easy_afternm(out, box, ctypes.c_ulonglong(len(box)), nonce,
                                                     shared) != 0:
            raise ConnectionError("a box that does not open")
        return out.raw


def from_z85(text):
    """The 32 bytes of a key. Source: https://rfc.zeromq.org/spec/32/"""
    letters = ("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
               ".-:+=^!/*?&<>()[]{}@%$#")
    data = b""
    for i in range(0, len(text), 5):
        value = 0
        for letter in text[i:i + 5]:
            value = value * 85 + letters.index(letter)
        data += struct.pack(">I", value)
    return data


class Key:
    """A key file of a cluster."""

    def __init__(self, path):
        lines = [line.split(":", 1) for line in path.read_text().splitlines() if ":" in line]
        fields = {name.strip(): value.strip() for name, value in lines}
        self.name = fields["name"]
        self.public, self.secret = from_z85(fields["public"]), from_z85(fields["secret"])
        self.cluster = from_z85(fields["cluster"])
        self.cluster_secret = fields.get("cluster_secret", "")  # of a server's key


class CurveDealer(Dealer):
    """A DEALER under CURVE with a key of the cluster's: it says what it is told, also what a client
    never would. Source: https://rfc.zeromq.org/spec/26/"""

    def __init__(self, address, key):
        self.key, self.sodium, self.sent = key, Sodium(), 0
        super().__init__(address)

    def greet(self):
        sodium = self.sodium
        self.stream.sendall(GREETING.replace(b"NULL\0", b"CURVE", 1))
        receive_exactly(self.stream, len(GREETING))
        public, secret = sodium.key_pair()  # of this connection
        to_cluster = sodium.shared(self.key.cluster, secret)
        self.stream.sendall(frame(
            b"\x05HELLO\x01\0" + bytes(72) + public + self.nonce()
            + sodium.box(bytes(64), b"CurveZMQHELLO---" + self.nonce(0), to_cluster),
            command=True))
        welcome = super().receive_frame()[1]
        if not welcome.startswith(b"\x07WELCOME"):
            raise ConnectionError("no welcome")
        opened = sodium.open(welcome[24:], b"WELCOME-" + welcome[8:24], to_cluster)
        theirs, cookie = opened[:32], opened[32:]
        self.shared = sodium.shared(theirs, secret)
        vouch_nonce = os.urandom(16)
        vouch = sodium.box(public + self.key.cluster, b"VOUCH---" + vouch_nonce,
                           sodium.shared(theirs, self.key.secret))
        body = self.key.public + vouch_nonce + vouch + METADATA
        nonce = self.nonce()
        self.stream.sendall(frame(
            b"\x08INITIATE" + cookie + nonce
            + sodium.box(body, b"CurveZMQINITIATE" + nonce, self.shared), command=True))
        ready = super().receive_frame()[1]
        if not ready.startswith(b"\x05READY"):
            raise ConnectionError("not admitted")

    def nonce(self, more=1):
        self.sent += more
        return struct.pack(">Q", self.sent)

    def part(self, body, more):
        """The bytes of one frame."""
        nonce = self.nonce()
        return frame(b"\x07MESSAGE" + nonce
                     + self.sodium.box(bytes([1 if more else 0]) + body,
                                       b"CurveZMQMESSAGEC" + nonce, self.shared))

    def send(self, *frames):
        self.stream.sendall(b"".join(self.part(body, i + 1 < len(frames))
                                     for i, body in enumerate(frames)))

    def receive_frame(self):
        body = super().receive_frame()[1]
        opened = self.sodium.open(body[16:], b"CurveZMQMESSAGES" + body[8:16], self.shared)
        return bool(opened[0] & 1), opened[1:]


# Just enough protobuf to write a hello. Source: https://protobuf.dev/programming-guides/encoding/

def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def control_hello(version, name=b"stranger", role=2):
    """A ControlMessage with a Hello, as a release with that wire version sends it."""
    hello = number(1, version) + text(2, b"another build") + number(3, role) + text(4, name) \
        + number(5, 77)
    return b"TAUTC\0" + struct.pack("<H", version) + number(1, 1) + text(2, hello)


def data_hello(version):
    """A DataHeader with a DataHello."""
    hello = number(1, version) + text(2, b"another build") + text(3, b"worker")
    return b"TAUTD\0" + struct.pack("<H", version) + text(4, hello)
