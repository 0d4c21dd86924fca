"""The model that BSP's speed is compared with: docs/MEASUREMENTS.md, "On a GPU", describes it."""
import json

# What processors move of the host's memory for each byte of a table in a clock with momentum: the
# gradient is read, value and history are read and written. The device reads values where they are.
SERVER_BYTES = 5


def bsp_seconds(layers, compute_s, down, memory, up):
    """The least time of a clock of one worker under BSP.

    layers      in the net's order: (parameter bytes, seconds of forward and backward, on any scale)
    compute_s   of one clock without parameters on their way
    down, up    bytes/s between the device and pinned memory; memory: bytes/s of the host's memory
    """
    costs = (1 / down, SERVER_BYTES / memory, 1 / up)  # seconds for each byte of a table
    scale = compute_s / max(sum(seconds for _, seconds in layers), 1e-12)
    longest = compute_s
    above = compute_s  # forward and backward of this layer and all later ones
    below = 0          # bytes of the tables up to this one
    for size, seconds in layers:
        below += size
        if size > 0:
            # From the end of this layer's backward to its next forward nothing above it computes,
            # and all tables up to it are transferred: through each of three places one after
            # another.
            way = max(below * max(costs), size * sum(costs))
            longest = max(longest, above + way)
        above -= seconds * scale
    return longest


def read_layers(file):
    """What time_net --layers wrote: (parameter bytes, seconds of forward and backward) of each
    layer."""
    return [(layer["parameter_bytes"], layer["forward_s"] + layer["backward_s"])
            for layer in json.loads(file.read_text(encoding="utf-8"))]


class Limits:
    """Bytes/s that bench_gpu --limits measured."""

    def __init__(self, file):
        rows = json.loads(file.read_text(encoding="utf-8"))

        def of(begin):
            return next(1e9 * row["gigabytes_per_second"] for row in rows
                        if row["what"].startswith(begin))
        self.up = of("pinned host to device")
        self.down = of("device to pinned host")
        self.memory = of("memory of the host")
