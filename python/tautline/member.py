"""A program's part in a job: its tables and its clock."""

import contextlib
import ctypes
import math
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Protocol, Sized, Union

import numpy

from tautline import _library, dlpack
from tautline.errors import InvalidError, StoppedError, TautlineError
from tautline.progress import Progress
from tautline.sampler import Sampler

if TYPE_CHECKING:
    from tautline.torch import Optimizer

_KINDS = {"trained": 0, "averaged": 1}
_NOTHING = numpy.empty(0, numpy.float32)
_ANOTHER_THREAD = ("another thread is in a call of this member, which serves one at a time; give "
                   "each thread its own member, or let both take a lock")


def _as_array(value: Any, what: str) -> numpy.ndarray:
    """A float32 array of NumPy, PyTorch or anything that DLPack or the array interface shares; a
    copy only if the element type differs or the memory has gaps."""
    if hasattr(value, "detach"):
        value = value.detach()
        if value.device.type != "cpu":
            raise InvalidError(f"{what} is on {value.device}, but its table is in the host's "
                               "memory: call .cpu() on it")
        value = value.numpy()
    array = numpy.asarray(value)
    if array.dtype.kind not in "fiu":
        raise InvalidError(f"{what} has element type {array.dtype}; give numbers, which become "
                           "float32")
    # This makes a scalar one-dimensional.
    return numpy.ascontiguousarray(array, dtype=numpy.float32).reshape(array.shape)


def _pointer(array: numpy.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class ClockKeeper(Protocol):
    """What ends a member's clocks in its own time: tautline.torch.Optimizer."""

    @property
    def next_clock(self) -> int: ...

    @property
    def next_batch(self) -> int: ...

    @property
    def may_skip(self) -> bool: ...

    def synchronize(self) -> None: ...

    def release(self) -> None: ...


class Table:
    """A table of parameters that the job's members share.

    name     unique within the job
    version  a clock before which `value` has the updates of every member
    device   CUDA's number of the device that its values are on; None: they are the host's
    stream   for a table on a device: the CUDA stream, as a number, in whose order its values and
             updates are. None: PyTorch's current one at each call, or else CUDA's default stream
    """

    def __init__(self, member: "Member", name: str, value: Any,
                 device: Optional[int] = None) -> None:
        self._member = weakref.ref(member)
        self.name = name
        self._value = value
        self.version = 0
        self.device = device
        self.stream: Optional[int] = None
        self._number = ctypes.c_uint32()

    @property
    def value(self) -> Any:
        """What was read last: a float32 array of NumPy, the memory that the library writes between
        push() and the end of pull(). For a table on a device: the tensor that it was made
        from, which pull() writes in the order of its stream."""
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its values, outermost first."""
        return tuple(self.value.shape)

    def _stream(self) -> int:
        return dlpack.stream_of(self._value) if self.stream is None else self.stream

    def __dlpack__(self, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Optional[bool] = None) -> Any:
        """The values as a tensor of DLPack, without a copy: numpy.from_dlpack(table) and
        torch.from_dlpack(table) are views of what the library writes."""
        if self.device is not None:
            return self._value.__dlpack__(**({} if stream is None else {"stream": stream}))
        if stream is not None or copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"table {self.name!r} is memory of the host, and is shared as it is")
        versioned = max_version is not None and max_version[0] >= 1
        member = self._member()
        if member is None:
            raise StoppedError(f"table {self.name!r}: its member is gone")
        return member._capsule_of(self, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.device is None else (2, self.device)  # the host, or CUDA's

    def __repr__(self) -> str:
        return f"<Table {self.name!r} {list(self.shape)} of version {self.version}>"


class Member:
    """A member of a job. From Job.member(); a context manager: at the end of its block it finishes,
    and an exception that leaves the block is reported to the job.

    One thread at a time uses a member. Another one may call fail() or close(), which end a call
    that waits, with StoppedError.

    worker  its number, which is never given twice
    slot    its share of the data, one of `slots`
    clock   the clock that it computes, from 1
    """

    def __init__(self, address: str, keys: Optional[str], job: int, name: Optional[str],
                 wait_s: float) -> None:
        self._calls = threading.RLock()  # held during a call of the library
        self._ends = threading.RLock()   # held while the handle may be freed
        self._handle = ctypes.c_void_p()
        self._tables: list[Table] = []
        self._definition: Optional[dict[str, Any]] = None
        self._snapshot_into: Optional[numpy.ndarray] = None
        self._is_open = False
        self._place = _library.Place()
        self._leaves = False
        self._in_text: Optional[dict[str, tuple[tuple[int, ...], str]]] = None
        self._keeper: Optional[ClockKeeper] = None
        self._attached: Optional[ClockKeeper] = None  # until it is closed
        self._loss: Optional[float] = None
        self._items = 0
        _library.check(_library.lib.tautline_join(
            _library.text(address), _library.text(keys), job, _library.text(name), wait_s,
            ctypes.byref(self._handle)))
        try:
            self._wait(_library.lib.tautline_await_place, ctypes.byref(self._place))
        except BaseException:
            self.close()
            raise
        self.clock: int = self._place.start

    @property
    def worker(self) -> int:
        """Its number in the job, which is never given twice."""
        return self._place.worker

    @property
    def slot(self) -> int:
        """Its share of the data, from 0 to slots - 1."""
        return self._place.slot

    @property
    def slots(self) -> int:
        """Shares of the data: the most members that the job may have."""
        return self._place.slots

    @property
    def definition(self) -> dict[str, Any]:
        """The job as a dict, with the fields of a job's file."""
        if self._definition is None:
            text = ctypes.c_void_p()
            self._call(_library.lib.tautline_definition, ctypes.byref(text))
            self._definition = _library.take_json(text)
        return self._definition

    def job_tables(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The tables that the job's text names: {name: (shape, kind)}. Where it names any, the
        servers make their initial values, and members add all of them."""
        if self._in_text is None:
            tables: dict[str, tuple[tuple[int, ...], str]] = {}
            info = _library.TableInfo()
            find = _library.lib.tautline_job_table
            while (code := self._code(find, len(tables), ctypes.byref(info))) == 0:
                tables[info.name.decode()] = (tuple(info.shape[:info.dimensions]),
                                              list(_KINDS)[info.kind])
            if code != _library.NOT_FOUND:
                _library.check(code)
            self._in_text = tables
        return self._in_text

    def table(self, name: str, init: Any = None, kind: Optional[str] = None, *,
              lr_mult: Optional[float] = None, decay_mult: Optional[float] = None,
              stream: Optional[int] = None) -> Table:
        """Adds a table; all members add the same ones, in the same order unless the job's text
        names them.

        init  the initial values; those of the job's first member become every member's. A
              float32 array or tensor in C order (of NumPy, PyTorch, or any library that supports
              DLPack) becomes the table's memory, without a copy. Where it is on a CUDA device, the
              table's updates are too, and copies are queued on its streams: only pull() waits for
              the device. The servers make those of a table in the job's text; None: memory of its
              shape is made here
        kind  "trained": what is pushed are gradients; "averaged": values, whose mean is taken.
              None: as the job's text says, or else "trained"
        lr_mult, decay_mult  multiply the job's learning rate and weight decay for this table; None:
              as the job's text says, or else 1
        stream  for values on a device: as Table.stream
        """
        in_text = self.job_tables()
        if init is None:
            if name not in in_text:
                raise InvalidError(f"table {name!r} is not in the job's text, so it needs initial "
                                   "values: me.table(name, init)")
            init = numpy.zeros(in_text[name][0], numpy.float32)
        if kind is None:
            kind = in_text[name][1] if name in in_text else "trained"
        if self._is_open:
            raise InvalidError(f"table {name!r}: the tables are in use already; add all of them "
                               "before the first push, pull or clock")
        if kind not in _KINDS:
            raise InvalidError(f"table {name!r}: kind {kind!r} is unknown; choose one of "
                               f"{', '.join(_KINDS)}")
        number, what = _KINDS[kind], f"table {name!r}"
        device = dlpack.cuda_device_of(init)
        if device is not None:
            table = self._table_on_device(name, number, init, device, stream)
        else:
            table = self._table_on_host(name, number, init, what)
        if lr_mult is not None or decay_mult is not None:
            self._call(_library.lib.tautline_set_multiples, table._number,
                       1.0 if lr_mult is None else lr_mult,
                       1.0 if decay_mult is None else decay_mult)
        self._tables.append(table)
        return table

    def _table_on_device(self, name: str, kind: int, init: Any, device: int,
                         stream: Optional[int]) -> Table:
        table = Table(self, name, init.detach() if hasattr(init, "detach") else init, device)
        table.stream = stream
        used = table._stream()
        dlpack.take(table.value, f"table {name!r}", lambda tensor, versioned: self._code(
            _library.lib.tautline_add_device_dlpack, _library.text(name), kind, tensor, versioned,
            used, ctypes.byref(table._number)), used)
        return table

    def _table_on_host(self, name: str, number: int, init: Any, what: str) -> Table:
        array = None if dlpack.shares(init) else _as_array(init, what)
        if array is not None and not array.flags.writeable:
            array = array.copy()
        table = Table(self, name, _NOTHING if array is None else array)
        dlpack.take(init if array is None else array, what, lambda tensor, versioned: self._code(
            _library.lib.tautline_add_dlpack, _library.text(name), number, tensor, versioned,
            ctypes.byref(table._number)))
        if array is None:
            table._value = dlpack.array_of(self._tensor_of(table))
        return table

    @property
    def is_open(self) -> bool:
        """Whether the tables are in use."""
        return self._is_open

    @property
    def is_drained(self) -> bool:
        """Whether it must leave because the cluster needs its machine; clocks() does so."""
        return self._leaves

    def open(self) -> None:
        """Opens the tables at the servers and fills their values; the first use does it
        automatically."""
        if not self._is_open:
            for table in self._tables:
                self._use_stream(table)
            self._wait(_library.lib.tautline_open)
            self._is_open = True

    def _use_stream(self, table: Table) -> None:
        """Has what the library writes next into a device's memory be in the order of the stream
        that reads it."""
        if table.device is not None:
            self._call(_library.lib.tautline_set_stream, table._number, table._stream())

    def is_due(self, table: Table) -> bool:
        """Whether the table is pushed at this clock: always, unless the job's tables meet in
        fragments (tautline.Outer(fragments=4))."""
        self.open()
        due = ctypes.c_int()
        self._call(_library.lib.tautline_is_due, table._number, ctypes.byref(due))
        return bool(due.value)

    def push(self, table: Table, gradient: Any) -> None:
        """Pushes the table's update of this clock. An array of NumPy or a tensor of PyTorch may be
        used again at once. Any other tensor of DLPack, and PyTorch's in bfloat16, is lent: it must
        not be written before the table was pulled. For a table on a device, any tensor there, which
        work that is queued on its stream afterwards may write."""
        self.open()
        what = f"the update of table {table.name!r}"
        if table.device is not None:
            if dlpack.cuda_device_of(gradient) is None:
                raise InvalidError(f"{what} is in the host's memory, but the table is on CUDA "
                                   f"device {table.device}; push what is there")
            if hasattr(gradient, "detach"):
                gradient = gradient.detach().contiguous()
            stream = table._stream()
            dlpack.take(gradient, what, lambda tensor, versioned: self._code(
                _library.lib.tautline_push_device_dlpack, table._number, tensor, versioned,
                stream), stream)
            return
        if dlpack.cuda_device_of(gradient) is not None:
            raise InvalidError(f"{what} is on CUDA device {dlpack.cuda_device_of(gradient)}, but "
                               "its table is in the host's memory: push a copy there")
        if dlpack.shares(gradient):
            dlpack.take(gradient, what, lambda tensor, versioned: self._code(
                _library.lib.tautline_push_dlpack, table._number, tensor, versioned))
            return
        array = _as_array(gradient, what)
        if array.shape != table.shape:
            raise InvalidError(f"table {table.name!r} has shape {list(table.shape)}, but its "
                               f"update has {list(array.shape)}")
        self._call(_library.lib.tautline_push, table._number, _library.FLOAT32, _pointer(array),
                   array.size)

    def pull(self, table: Table) -> Any:
        """Waits until the staleness bound allows the next clock, and returns its values. Those on a
        device are seen by what is queued on its stream afterwards."""
        self.open()
        self._use_stream(table)
        version = ctypes.c_int64()
        self._wait(_library.lib.tautline_pull, table._number, ctypes.byref(version))
        table.version = version.value
        return table.value

    def snapshot(self, table: Table) -> numpy.ndarray:
        """The newest values, as a new array; waits for no member."""
        self.open()
        # One whose wait was interrupted is kept until here, so that this is other memory, for which
        # the library reads again.
        into = numpy.empty(table.shape, numpy.float32)
        self._snapshot_into = into
        version = ctypes.c_int64()
        self._wait(_library.lib.tautline_snapshot, table._number, _library.FLOAT32, _pointer(into),
                   into.size, ctypes.byref(version))
        self._snapshot_into = None
        return into

    def end_clock(self, loss: Optional[float] = None, items: int = 0) -> int:
        """Ends this clock, at which every table that is due was pushed and pulled.

        loss   what status and page show
        items  how many were trained at this clock, for the job's rate
        """
        self.open()
        report = _library.Report(math.nan if loss is None else float(loss), int(items))
        orders = _library.Orders()
        self._call(_library.lib.tautline_end_clock, ctypes.byref(report), ctypes.byref(orders))
        self.clock = orders.clock
        self._leaves = bool(orders.leave)
        return self.clock

    def clocks(self, end: Optional[int] = None, progress: Optional[bool] = None) -> Iterator[int]:
        """Clocks until `end` is done, from where this member joined: for a loop that pushes and
        pulls every table once, or calls step() of the member's optimizer once. It stops early where
        the member is drained.

        end       the last clock; None: without end
        progress  whether a bar shows how far it is; None: in notebooks
        """
        if self._keeper is None:
            self.open()
        with Progress("clocks", end, progress, begin=self.clock - 1) as bar:
            clock = self.clock
            while end is None or clock <= end:
                self._loss, self._items = None, 0
                yield clock
                following = self._following(clock)
                bar.show(following - 1, loss=self._loss)
                if self._leaves:
                    self.leave()
                    return
                clock = following

    def _following(self, clock: int) -> int:
        """Ends a clock, unless it has ended already, and returns the next."""
        if self._keeper is None:
            if self.clock == clock:
                self.end_clock(self._loss, self._items)
            return self.clock
        following = self._keeper.next_clock
        if following == clock and not self._keeper.may_skip:
            raise InvalidError(f"clock {clock} passed without the optimizer's step(); call it once "
                               "a clock")
        return following

    def report(self, loss: Optional[float] = None, items: int = 0) -> None:
        """Sets what clocks() reports about the clock that it ends."""
        self._loss, self._items = loss, items

    def sampler(self, records: Union[int, Sized], batch: int, *, seed: int = 1,
                shuffle: bool = True, end: Optional[int] = None) -> Sampler:
        """Draws this member's share of a data set: see tautline.Sampler.

            loader = torch.utils.data.DataLoader(data, batch_sampler=me.sampler(data, 64))
            for clock, (inputs, targets) in zip(me.clocks(1000), loader):

        records  how many there are, or a data set with a length
        batch    how many this member reads at a clock
        seed     of the order, the same for all members
        end      the last clock; None: without end
        """
        count = records if isinstance(records, int) else len(records)
        return Sampler(count, batch, slot=self.slot, slots=self.slots, seed=seed, shuffle=shuffle,
                       start=lambda: self._keeper.next_batch if self._keeper else self.clock,
                       end=end)

    def staleness(self) -> dict[int, int]:
        """How many reads had each staleness in clocks: {clocks: reads}."""
        bins = (ctypes.c_uint64 * 1002)()
        self._call(_library.lib.tautline_staleness, bins, len(bins))
        return {clocks: reads for clocks, reads in enumerate(bins) if reads}

    def optimizer(self, model: Any, overlap: bool = True, **options: Any) -> "Optimizer":
        """The replacement for a PyTorch optimizer: see tautline.torch.Optimizer."""
        from tautline.torch import Optimizer  # a second to import, and not everywhere
        return Optimizer(self, model, overlap, **options)

    def attach(self, keeper: ClockKeeper) -> None:
        """Leaves the ends of clocks to an optimizer, which does it when the next one begins."""
        if self._keeper is not None:
            raise InvalidError("this member has an optimizer already; give it one model that has "
                               "all modules, such as a torch.nn.ModuleList")
        self._keeper = self._attached = keeper

    def leave(self) -> None:
        """Leaves at the end of a clock; another member may take the place."""
        self._prepare_to_leave()
        self._wait(_library.lib.tautline_leave)
        self.close()

    def finish(self) -> None:
        """Leaves as finished: the job ends when its last member has."""
        self._prepare_to_leave()
        self._wait(_library.lib.tautline_finish)
        self.close()

    def fail(self, reason: Any) -> None:
        """Leaves at once, and says why; a call of another thread that waits raises StoppedError."""
        with self._ends:
            try:
                _library.check(_library.lib.tautline_fail(self._open_handle(),
                                                          _library.text(str(reason))))
            finally:
                self.close()

    def close(self) -> None:
        """Ends the connection; a call of another thread that waits raises StoppedError. A member
        that has not left is treated as lost."""
        with self._ends:
            if not self._handle:
                return
            _library.lib.tautline_cancel(self._handle)
            with self._calls:
                handle, self._handle = self._handle, ctypes.c_void_p()
                _library.lib.tautline_close(handle)
            attached, self._attached = self._attached, None
            if attached is not None:
                attached.release()

    def _prepare_to_leave(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None and self._is_open:
            keeper.synchronize()

    def _code(self, function: Callable[..., int], *arguments: Any) -> int:
        """What one call of the library returns."""
        if not self._calls.acquire(blocking=False):
            raise InvalidError(_ANOTHER_THREAD)
        try:
            return function(self._open_handle(), *arguments)
        finally:
            self._calls.release()

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        _library.check(self._code(function, *arguments))

    def _wait(self, function: Callable[..., int], *arguments: Any) -> None:
        """One call of the library that waits until what it waits for has happened. Signals are
        handled between its steps, other threads' calls are not."""
        if not self._calls.acquire(blocking=False):
            raise InvalidError(_ANOTHER_THREAD)
        try:
            code = _library.AGAIN
            while code == _library.AGAIN:
                code = function(self._open_handle(), *arguments)
        finally:
            self._calls.release()
        _library.check(code)

    def _tensor_of(self, table: Table, versioned: bool = False) -> ctypes.c_void_p:
        """A table's values as a tensor of DLPack, which the caller deletes."""
        tensor = ctypes.c_void_p()
        self._call(_library.lib.tautline_values_dlpack, table._number, int(versioned),
                   ctypes.byref(tensor))
        return tensor

    def _capsule_of(self, table: Table, versioned: bool) -> Any:
        return dlpack.capsule_of(self._tensor_of(table, versioned), versioned)

    def _open_handle(self) -> ctypes.c_void_p:
        if not self._handle:
            raise StoppedError("this member has left its job; job.member() joins again")
        return self._handle

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if not self._handle:
            return
        try:
            if error is None:
                self.finish()
            elif not isinstance(error, StoppedError):
                with contextlib.suppress(TautlineError):  # the block's own exception says more
                    self.fail(f"{type(error).__name__}: {error}")
        finally:
            self.close()

    def __del__(self) -> None:
        # At the interpreter's end its modules may be gone.
        if getattr(self, "_handle", None) and _library is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<Member {self.worker}, share {self.slot} of {self.slots}, at clock {self.clock}>"
