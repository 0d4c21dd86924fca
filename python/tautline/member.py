"""A program's part in a job: its tables and its clock."""

import ctypes
import math

import numpy

from tautline import _library
from tautline.errors import InvalidError, StoppedError

_KINDS = {"trained": 0, "averaged": 1}


def _as_array(value, what):
    """A float32 array of NumPy, PyTorch or anything that DLPack or the array interface shares; a
    copy only where the element type differs or the memory has gaps."""
    if hasattr(value, "detach"):
        value = value.detach()
        if value.device.type != "cpu":
            raise InvalidError(f"{what} is on {value.device}; Tautline's library takes memory of "
                               "the host: call .cpu() on it")
        value = value.numpy()
    array = numpy.asarray(value)
    if array.dtype.kind not in "fiu":
        raise InvalidError(f"{what} has element type {array.dtype}; give numbers, which become "
                           "float32")
    return numpy.ascontiguousarray(array, dtype=numpy.float32)


def _pointer(array):
    return ctypes.c_void_p(array.ctypes.data)


class Table:
    """A table of parameters that the job's members share.

    name     unique within the job
    value    what was read last, a float32 array of NumPy: the memory that the library writes
             between push() and the end of pull()
    version  a clock before which `value` has the updates of every member
    """

    def __init__(self, name, value):
        self.name = name
        self.value = value
        self.version = 0
        self._number = ctypes.c_uint32()

    @property
    def shape(self):
        return self.value.shape

    def __repr__(self):
        return f"<Table {self.name!r} {list(self.shape)} of version {self.version}>"


class Member:
    """A member of a job. From Job.member(); a context manager: at the end of its block it finishes,
    and an exception that leaves the block is told to the job.

    One thread at a time uses a member.

    worker  its number, which is never given twice
    slot    its share of the data, one of `slots`
    clock   the clock that it computes, from 1
    """

    def __init__(self, address, keys, job, name, wait_s):
        self._handle = ctypes.c_void_p()
        self._tables = []
        self._is_open = False
        self._place = _library.Place()
        self._leaves = False
        self._before_leaving = []
        self._loss, self._items = None, 0
        _library.check(_library.lib.tautline_join(
            _library.text(address), _library.text(keys), job, _library.text(name), wait_s,
            ctypes.byref(self._handle)))
        try:
            _library.wait(_library.lib.tautline_await_place, self._handle,
                          ctypes.byref(self._place))
        except BaseException:
            self.close()
            raise
        self.clock = self._place.start

    @property
    def worker(self):
        return self._place.worker

    @property
    def slot(self):
        return self._place.slot

    @property
    def slots(self):
        return self._place.slots

    def table(self, name, init, kind="trained"):
        """Adds a table; all members add the same ones in the same order.

        init  the initial values, of which those of the job's first member are every member's. A
              float32 array or tensor in C order becomes the table's memory, without a copy.
        kind  "trained": what is pushed are gradients; "averaged": values, whose mean is taken
        """
        if self._is_open:
            raise InvalidError(f"table {name!r}: the tables are in use already; add all of them "
                               "before the first push, pull or clock")
        if kind not in _KINDS:
            raise InvalidError(f"table {name!r}: kind {kind!r} is unknown; choose one of "
                               f"{', '.join(_KINDS)}")
        value = _as_array(init, f"table {name!r}")
        if not value.flags.writeable:
            value = value.copy()
        table = Table(name, value)
        shape = (ctypes.c_int64 * value.ndim)(*value.shape)
        _library.check(_library.lib.tautline_add_table(
            self._open_handle(), _library.text(name), shape, value.ndim, _library.FLOAT32,
            _KINDS[kind], _pointer(value), ctypes.byref(table._number)))
        self._tables.append(table)
        return table

    def open(self):
        """Opens the tables at the servers and fills their values; the first use does it by
        itself."""
        if not self._is_open:
            _library.wait(_library.lib.tautline_open, self._open_handle())
            self._is_open = True

    def push(self, table, gradient):
        """Pushes the table's update of this clock. The array may be used again at once."""
        self.open()
        array = _as_array(gradient, f"the update of table {table.name!r}")
        if array.shape != table.shape:
            raise InvalidError(f"table {table.name!r} has shape {list(table.shape)}, but its "
                               f"update has {list(array.shape)}")
        _library.check(_library.lib.tautline_push(
            self._open_handle(), table._number, _library.FLOAT32, _pointer(array), array.size))

    def pull(self, table):
        """Waits until the staleness bound allows the next clock, and returns its values."""
        self.open()
        version = ctypes.c_int64()
        _library.wait(_library.lib.tautline_pull, self._open_handle(), table._number,
                      ctypes.byref(version))
        table.version = version.value
        return table.value

    def snapshot(self, table):
        """The newest values, as a new array; waits for no member."""
        self.open()
        into = numpy.empty_like(table.value)
        version = ctypes.c_int64()
        _library.check(_library.lib.tautline_snapshot(
            self._open_handle(), table._number, _library.FLOAT32, _pointer(into), into.size,
            ctypes.byref(version)))
        return into

    def end_clock(self, loss=None, items=0):
        """Ends this clock, at which every table was pushed and pulled.

        loss   what status and page show
        items  how many were trained at this clock, for the job's rate
        """
        self.open()
        report = _library.Report(math.nan if loss is None else float(loss), int(items))
        orders = _library.Orders()
        _library.check(_library.lib.tautline_end_clock(
            self._open_handle(), ctypes.byref(report), ctypes.byref(orders)))
        self.clock = orders.clock
        self._leaves = bool(orders.leave)
        return self.clock

    def clocks(self, end=None):
        """Clocks until `end` is done, from where this member joined: for a loop that pushes and
        pulls every table once. It stops early where the member is drained.

        end  the last clock; None: without end
        """
        self.open()
        while end is None or self.clock <= end:
            clock = self.clock
            self._loss, self._items = None, 0
            yield clock
            if self.clock == clock:
                self.end_clock(self._loss, self._items)
            if self._leaves:
                self.leave()
                return

    def report(self, loss=None, items=0):
        """Says what clocks() is to report of the clock that it ends."""
        self._loss, self._items = loss, items

    def staleness(self):
        """How many reads were how many clocks stale: {clocks: reads}."""
        bins = (ctypes.c_uint64 * 1002)()
        _library.check(_library.lib.tautline_staleness(self._open_handle(), bins, len(bins)))
        return {clocks: reads for clocks, reads in enumerate(bins) if reads}

    def optimizer(self, model, overlap=True):
        """What takes a PyTorch optimizer's place: see tautline.torch.Optimizer."""
        from tautline.torch import Optimizer  # a second to import, and not everywhere
        return Optimizer(self, model, overlap)

    def before_leaving(self, call):
        """Has leave() and finish() call something first, such as what ends the last clock."""
        self._before_leaving.append(call)

    def leave(self):
        """Leaves at the end of a clock; another member may take the place."""
        self._prepare_to_leave()
        _library.check(_library.lib.tautline_leave(self._open_handle()))
        self.close()

    def finish(self):
        """Leaves as finished: the job ends when its last member has."""
        self._prepare_to_leave()
        _library.check(_library.lib.tautline_finish(self._open_handle()))
        self.close()

    def fail(self, reason):
        """Leaves at once, and says why."""
        _library.check(_library.lib.tautline_fail(self._open_handle(), _library.text(str(reason))))
        self.close()

    def close(self):
        """Ends the connection. A member that has not left is taken for lost."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _library.lib.tautline_close(handle)

    def _prepare_to_leave(self):
        calls, self._before_leaving = self._before_leaving, []
        for call in calls:
            call()

    def _open_handle(self):
        if not self._handle:
            raise StoppedError("this member has left its job; job.member() joins again")
        return self._handle

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if not self._handle:
            return
        try:
            if error is None:
                self.finish()
            elif not isinstance(error, StoppedError):
                self.fail(f"{kind.__name__}: {error}")
        finally:
            self.close()

    def __del__(self):
        # At the interpreter's end its modules may be gone.
        if getattr(self, "_handle", None) and _library is not None:
            self.close()

    def __repr__(self):
        return f"<Member {self.worker}, share {self.slot} of {self.slots}, at clock {self.clock}>"
