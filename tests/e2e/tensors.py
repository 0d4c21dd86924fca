"""Files of tensors, .safetensors, without a library."""

import array
import json
import math
import struct


def write_safetensors(path, tensors):
    """tensors: {name: (shape, bytes of float32)}"""
    head, offset = {}, 0
    for name, (shape, data) in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(shape),
                      "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(data for _, data in tensors.values()))
    return path


def read_shaped(path):
    """{name: (shape, bytes)}, and the notes."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + length])
    notes = head.pop("__metadata__", {})
    tensors = {name: (entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
               for name, entry in head.items()}
    return tensors, notes


def read_safetensors(path):
    """{name: bytes}, and the notes."""
    tensors, notes = read_shaped(path)
    return {name: data for name, (_, data) in tensors.items()}, notes


def distance(ours, theirs):
    """The largest difference of two tensors of float32, as bytes, in units of the largest number of
    the first."""
    ours, theirs = (array.array("f", data) for data in (ours, theirs))
    if len(ours) != len(theirs) or not all(map(math.isfinite, theirs)):
        return math.inf
    largest = max(map(abs, ours))
    return max(abs(a - b) for a, b in zip(ours, theirs)) / (largest or 1)
