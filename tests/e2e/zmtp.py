"""As much of ZMTP 3.0 with the mechanisms NULL and PLAIN as a test needs to send a daemon what it
must survive. Source: https://rfc.zeromq.org/spec/23/"""

import socket
import struct

GREETING = (b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\x00"
            + bytes(31))


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
        ready = b"\x05READY"
        for name, value in ((b"Socket-Type", b"DEALER"), (b"Identity", b"")):
            ready += bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        self.stream.sendall(frame(ready, command=True))
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


def shows_secret(address, secret, user=b"tautline"):
    """Whether a listener of a plain data plane lets a connection in that shows this secret."""
    stream = connect(address)
    try:
        stream.sendall(GREETING.replace(b"NULL\0", b"PLAIN", 1))
        receive_exactly(stream, len(GREETING))
        hello = b"\x05HELLO" + bytes([len(user)]) + user + bytes([len(secret)]) + secret
        stream.sendall(frame(hello, command=True))
        receive_exactly(stream, 1)
        answer = receive_exactly(stream, receive_exactly(stream, 1)[0])
        return answer.startswith(b"\x07WELCOME")
    except ConnectionError:
        return False
    finally:
        stream.close()


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
