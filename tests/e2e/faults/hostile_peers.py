"""Peers that send what no client of ours would, and what a daemon pays for it."""

import os
import pathlib
import socket
import threading
import time
import urllib.error
import urllib.request

import zmtp

MIB = 1 << 20


def memory_of(pid, field="VmRSS"):
    """Bytes; "VmHWM": the most since the last reset_peak()."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/{pid}/status has no {field}")


def reset_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def growth(pid, attack):
    """MiB of memory that a process has taken in addition, at its worst, while `attack()` ran."""
    reset_peak(pid)
    before = memory_of(pid)
    attack()
    return (memory_of(pid, "VmHWM") - before) / MIB


def cpu_s(pid):
    """Processor time that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def list_field(number, body):
    """A field of protobuf that has a length."""
    return zmtp.varint(number << 3 | 2) + zmtp.varint(len(body)) + body


def data_header(body):
    return b"TAUTD\0" + zmtp.WIRE_VERSION.to_bytes(2, "little") + body


def control_message(body):
    return b"TAUTC\0" + zmtp.WIRE_VERSION.to_bytes(2, "little") + zmtp.number(1, 1) + body


def without_end(dealer, body, most_bytes, at_once=1):
    """Parts of one message that never ends, until the other side closes. Returns the bytes sent."""
    sent = 0
    try:
        while sent < most_bytes:
            parts = b"".join(dealer.part(body, True) for _ in range(at_once))
            dealer.stream.sendall(parts)
            sent += len(parts)
    except OSError:
        pass
    return sent


def plain_without_end(dealer, body, most_bytes):
    """As without_end(), on a plain plane: all parts have the same bytes, and are sent as fast as
    they are taken."""
    part = dealer.part(body, True)
    piece = part * (MIB // 8 // len(part))
    sent = 0
    try:
        while sent < most_bytes:
            dealer.stream.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def whole_messages(dealer, body, count):
    """The same message as often as it is taken. Returns how often that was."""
    try:
        for sent in range(count):
            dealer.send(body)
    except OSError:
        return sent
    return count


def send_long_hellos(connect):
    """66 hellos with a name of 15 MiB to a coordinator; they once took 1.1 GB, and as much of the
    log. `connect()` makes a connection to it."""
    hello = zmtp.control_hello(zmtp.WIRE_VERSION, name=b"x" * (15 * MIB))
    for _ in range(11):
        whole_messages(connect(), hello, 6)


def unanswered_handshake(address, most_bytes, pause_s=0):
    """A stranger who begins a handshake with a command that does not end, as fast as it is taken,
    or with a pause after each MiB. Returns bytes sent."""
    with zmtp.connect(address) as stream:
        stream.sendall(zmtp.GREETING.replace(b"NULL\0", b"CURVE", 1))
        stream.sendall(b"\x06" + (most_bytes + 1).to_bytes(8, "big"))
        sent, piece = 0, bytes(MIB)
        try:
            while sent < most_bytes:
                stream.sendall(piece)
                sent += len(piece)
                time.sleep(pause_s)
        except OSError:
            pass
        return sent


def empty_elements(field_path, count):
    """A list of `count` empty elements within the messages of these fields."""
    *outer, last = field_path
    body = (zmtp.varint(last << 3 | 2) + b"\0") * count
    for field in reversed(outer):
        body = list_field(field, body)
    return body


class Crowd:
    """Connections of strangers that say nothing."""

    def __init__(self, address, count):
        host, port = address.rsplit(":", 1)
        self.streams = []
        for _ in range(count):
            stream = socket.socket()
            stream.setblocking(False)
            stream.connect_ex((host, int(port)))
            self.streams.append(stream)

    def close(self):
        for stream in self.streams:
            stream.close()


def ask_http(address, path, token="", timeout=10):
    """(status, body, seconds)"""
    request = urllib.request.Request(f"http://{address}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode(), time.monotonic() - began
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode(), time.monotonic() - began


class OpenStreams:
    """Pages that follow a daemon's events, and read none of them."""

    def __init__(self, address, token, count):
        self.sockets = []
        for _ in range(count):
            one = zmtp.connect(address)
            one.sendall(f"GET /api/events HTTP/1.1\r\nHost: {address}\r\n"
                        f"Authorization: Bearer {token}\r\n\r\n".encode())
            self.sockets.append(one)

    def close(self):
        for one in self.sockets:
            one.close()


def in_turns(attacks):
    """Has several peers act at the same time, and waits for all of them."""
    threads = [threading.Thread(target=attack) for attack in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fields_of(data):
    """{number: last value} of a message of protobuf."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            found[tag >> 3] = varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        found[tag >> 3] = data[at:at + size]
        at += size
    return found


class Reader:
    """A reader of a job at a shard, which asks for values and may leave them unread."""

    def __init__(self, dealer, job):
        self.dealer, self.job = dealer, b"\x09" + job.to_bytes(8, "little")
        refused = self.greet(b"\0" * 32)
        accepted = self.greet(refused[3])
        if not accepted.get(4):
            raise AssertionError(f"the hello was refused: {accepted.get(5)}")

    def greet(self, job_hash):
        hello = zmtp.number(1, zmtp.WIRE_VERSION) + list_field(2, b"a test") \
            + list_field(3, b"reader") + list_field(4, job_hash)
        self.dealer.send(data_header(self.job + list_field(4, hello)))
        (header,) = self.dealer.receive()
        return fields_of(fields_of(header[8:])[5])

    def ask(self, slices):
        """A request for the values of these slices of table 0."""
        items = b"".join(list_field(1, zmtp.number(1, 4) + zmtp.number(3, one)) for one in slices)
        self.dealer.send(data_header(self.job + list_field(8, items)))
