"""Which records a member reads at which clock: what torch.utils.data.DistributedSampler is to
DistributedDataParallel."""

from typing import Callable, Iterator, Optional, Union

import numpy

from tautline.errors import InvalidError

_MAX_RECORDS = 2**62
_WORD = numpy.uint64(0xFFFFFFFF)
_HALF = numpy.uint64(32)
_ROUNDS = 4  # of the Feistel network
_AHEAD = 32  # clocks that are drawn together


def _philox(key: int, stream: int, counters: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The first two of the four random words of Philox4x32-10, for each of the counters.

    Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011
    """
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0, c1 = counters & _WORD, counters >> _HALF
    c2 = numpy.full_like(counters, stream & 0xFFFFFFFF)
    c3 = numpy.full_like(counters, stream >> 32)
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c0
        p1 = numpy.uint64(0xCD9E8D57) * c2
        c0, c2 = ((p1 >> _HALF) ^ c1 ^ numpy.uint64(k0), (p0 >> _HALF) ^ c3 ^ numpy.uint64(k1))
        c1, c3 = p1 & _WORD, p0 & _WORD
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1


def _name_stream(name: bytes) -> int:
    """FNV-1a of 64 bits (Fowler, Noll, Vo)."""
    stream = 0xCBF29CE484222325
    for byte in name:
        stream = ((stream ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return stream


class Sampler:
    """The records that one member reads: those whose number leaves the rest `slot` when divided by
    `slots`, pass by pass, each pass in its own order, so that each record is read once in a pass.

        sampler = me.sampler(len(data), batch=64)
        for clock in me.clocks(1000):
            inputs, targets = data[sampler.indices(clock)]

    indices(clock) is a pure function of the arguments here and the clock: nothing is stored. So a
    member that joins in the place of another one, or is started again, continues with the records
    of its clock, and no record is read twice. Records of clocks at which a slot had no member while
    others trained are left out of that pass. Tautline's own workers read in the same order.

    It is also a batch_sampler for torch.utils.data.DataLoader: then it begins at the clock that the
    member computes next, and has one batch for each clock.

    records  how many there are
    batch    how many are read at a clock
    seed     of the order, the same for all members
    shuffle  False: in the order of their numbers
    start    the first clock of an iteration, or a function that returns it when one begins
    end      the last clock of an iteration; None: it has no end
    """

    def __init__(self, records: int, batch: int, *, slot: int = 0, slots: int = 1, seed: int = 1,
                 shuffle: bool = True, start: Union[int, Callable[[], int]] = 1,
                 end: Optional[int] = None) -> None:
        if batch < 1:
            raise InvalidError(f"batch is {batch}; it must be at least 1")
        if not 0 <= slot < slots:
            raise InvalidError(f"slot {slot} of {slots} slots: slots count from 0")
        if not slot < records <= _MAX_RECORDS:
            raise InvalidError(f"slot {slot} of {slots} has no records, as there are {records}; "
                               "use fewer members, or more data")
        self.batch = batch
        self.slot, self.slots = slot, slots
        self.records = (records - slot + slots - 1) // slots
        self._shuffle = shuffle
        self._start, self._end = start, end
        half = max(1, ((self.records - 1).bit_length() + 1) // 2)
        self._half = numpy.uint64(half)
        self._mask = numpy.uint64((1 << half) - 1)
        seed_words = _philox(seed & 0xFFFFFFFFFFFFFFFF, _name_stream(b"data order"),
                             numpy.array([slot], numpy.uint64))
        self._block = -1
        self._drawn: list[int] = []  # of the newest block of clocks
        self._key = int(seed_words[1][0]) << 32 | int(seed_words[0][0])

    def indices(self, clock: int) -> list[int]:
        """The numbers of the records of a clock, which counts from 1."""
        if clock < 1:
            raise InvalidError(f"clock is {clock}; the first one is 1")
        block, within = divmod(clock - 1, _AHEAD)
        if block != self._block:
            self._block, self._drawn = block, self._draw(block)
        return self._drawn[within * self.batch:(within + 1) * self.batch]

    def _draw(self, block: int) -> list[int]:
        """The records of a block's clocks, one after another: few calls of NumPy for many."""
        first = block * _AHEAD * self.batch
        end = first + _AHEAD * self.batch
        drawn: list[int] = []
        while first < end:
            turn, place = divmod(first, self.records)
            count = min(self.records - place, end - first)
            places = numpy.arange(place, place + count, dtype=numpy.uint64)
            if self._shuffle:
                places = self._order(turn, places)
            drawn += (self.slot + places.astype(numpy.int64) * self.slots).tolist()
            first += count
        return drawn

    def _order(self, turn: int, places: numpy.ndarray) -> numpy.ndarray:
        """The positions in a pass's order of its places: a permutation by a Feistel network, which
        is walked until it falls within the records.

        Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, sections 4
        and 5
        """
        values = self._encrypt(turn, places)
        while (outside := values >= numpy.uint64(self.records)).any():
            values[outside] = self._encrypt(turn, values[outside])
        return values

    def _encrypt(self, turn: int, values: numpy.ndarray) -> numpy.ndarray:
        left, right = values >> self._half, values & self._mask
        for number in range(_ROUNDS):
            words, _ = _philox(self._key, turn, numpy.uint64(number << 32) | right)
            left, right = right, left ^ (words & self._mask)
        return left << self._half | right

    def __iter__(self) -> Iterator[list[int]]:
        clock = self._first()
        while self._end is None or clock <= self._end:
            yield self.indices(clock)
            clock += 1

    def _first(self) -> int:
        return self._start() if callable(self._start) else self._start

    def __len__(self) -> int:
        """Batches until the end."""
        if self._end is None:
            raise TypeError("this sampler has no end; name the last clock as `end`")
        return max(0, self._end + 1 - self._first())

    def __repr__(self) -> str:
        return (f"<Sampler of {self.records} records, share {self.slot} of {self.slots}, "
                f"{self.batch} a clock>")
