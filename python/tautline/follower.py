"""Readers that follow a job while it trains."""

import ctypes
import math
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Union

import numpy

from tautline import _library
from tautline.errors import InvalidError, StoppedError

if TYPE_CHECKING:
    from tautline.cluster import Job


class Model(Mapping[str, numpy.ndarray]):
    """A job's parameters at one version, by table: from Follower.pull().

    The arrays are float32, read-only, and share the library's memory; they may be kept. They
    contain every member's updates of the clocks before `version`: in BSP exactly these; if updates
    are applied on arrival, some newer ones too.

    version  a clock
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._owner = _Owner(handle)
        self.version: int = _library.lib.tautline_model_version(handle)
        self._tables: dict[str, numpy.ndarray] = {}
        info = _library.TableInfo()
        values = ctypes.POINTER(ctypes.c_float)()
        count = ctypes.c_uint64()
        find = _library.lib.tautline_model_table
        while (code := find(handle, len(self._tables), ctypes.byref(info), ctypes.byref(values),
                            ctypes.byref(count))) == 0:
            memory: Any = (ctypes.c_float * count.value).from_address(
                ctypes.addressof(values.contents))
            self._owner.lend(memory)
            array = numpy.frombuffer(memory, numpy.float32)
            array = array.reshape(tuple(info.shape[:info.dimensions]))
            array.flags.writeable = False
            self._tables[info.name.decode()] = array
        if code != _library.NOT_FOUND:
            _library.check(code)

    def __getitem__(self, name: str) -> numpy.ndarray:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def state_dict(self) -> dict[str, Any]:
        """The tables as tensors of PyTorch, copied, for a module's load_state_dict(): for a job
        whose members train with tautline.torch, which names tables like the module's parameters."""
        import torch  # not everywhere
        return {name: torch.from_numpy(array.copy()) for name, array in self._tables.items()}

    def __repr__(self) -> str:
        return f"<Model of version {self.version}, {len(self)} tables>"


class _Owner:
    """Frees a model once its memory is no longer used."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._free = _library.lib.tautline_model_free

    def lend(self, memory: Any) -> None:
        """Has memory of the model keep it."""
        memory._owner = self

    def __del__(self) -> None:
        self._free(self._handle)


class Follower:
    """A non-member reader of a job: training does not wait for it unless it is bounded. From
    Job.follow() or tautline.follow(); a context manager.

        with job.follow() as follower:
            model = follower.pull()                     # the newest, whole
            model = follower.pull(at_least=model.version + 10)
            model = follower.pull(max_behind=5)         # what is here, if it is new enough
            for model in follower: ...                  # each new one, until the job is over

    One thread at a time pulls.
    """

    def __init__(self, address: str, keys: Optional[str], job: int, name: Optional[str] = None,
                 bounded: bool = False, relay: Union[bool, str] = False) -> None:
        if not isinstance(relay, (bool, str)) or relay == "":
            raise InvalidError(f"relay is {relay!r}; it must be True, False or \"HOST:PORT\"")
        place = relay if isinstance(relay, str) else ":0" if relay else None
        self._handle = _library.Handle(
            _library.lib.tautline_unfollow, f"this follower of job {job} was closed; follow again")
        self.job = job
        self.version = -1
        options = _library.FollowOptions(
            ctypes.sizeof(_library.FollowOptions), _library.text(name), bounded,
            _library.text(place))
        _library.check(_library.lib.tautline_follow(
            _library.text(address), _library.text(keys), job, ctypes.byref(options),
            ctypes.byref(self._handle.pointer)))
        self._close = weakref.finalize(self, self._handle.close)

    def pull(self, at_least: int = 0, max_behind: Optional[int] = None,
             wait_s: float = 60.0) -> Model:
        """The newest model as of this call, every table of the same version.

        at_least    waits for this version or a later one
        max_behind  a model that is here already is enough if it is at most this many clocks behind
                    the newest when this returns; so must a transferred one be
        wait_s      raises DeadlineError after this many seconds, which says what it waited for

        Raises StoppedError once the job is over and its last version was given, and LostError if
        this follower is bounded and was silent for longer than its lease.
        """
        if max_behind is not None and max_behind < 0:
            raise InvalidError(f"max_behind is {max_behind}; it must be at least 0 clocks")
        if math.isnan(wait_s) or wait_s < 0:
            raise InvalidError(f"wait_s is {wait_s}; it must be at least 0 seconds")
        handle = ctypes.c_void_p()
        self._handle.call(_library.lib.tautline_follow_pull, at_least,
                          -1 if max_behind is None else max_behind, wait_s, ctypes.byref(handle))
        model = Model(handle)
        self.version = model.version
        return model

    def __iter__(self) -> Iterator[Model]:
        """Each new model, until the job is over; waits for the next for as long as it takes."""
        while True:
            try:
                yield self.pull(at_least=self.version + 1, wait_s=1e9)
            except StoppedError:
                return

    def traffic(self) -> int:
        """Bytes of parameters that have arrived."""
        return self._traffic()[0]

    def passed_on(self) -> int:
        """Bytes of parameters that it has passed on to other followers."""
        return self._traffic()[1]

    def _traffic(self) -> tuple[int, int]:
        received, passed = ctypes.c_uint64(), ctypes.c_uint64()
        self._handle.call(_library.lib.tautline_follow_traffic, ctypes.byref(received),
                          ctypes.byref(passed))
        return received.value, passed.value

    def close(self) -> None:
        """Stops following: training no longer waits for it. Its models stay valid. A pull of
        another thread raises StoppedError."""
        self._close()

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Follower of job {self.job}, at version {self.version}>"


def follow(job: Union["Job", str], number: Optional[int] = None, *, keys: Optional[str] = None,
           name: Optional[str] = None, bounded: bool = False,
           relay: Union[bool, str] = False) -> Follower:
    """Follows a job: reads its parameters while it trains, each time at one version.

        model = tautline.follow(job).pull()
        model = tautline.follow("host:7600", 3).pull(at_least=100)

    job      a Job, or the coordinator's address, with the job's number
    keys     with an address: the folder of keys, as for tautline.connect()
    name     of this process, for status and page; with keys, a bounded follower has its key's name
    bounded  training waits for it: at most as many clocks ahead of what it has pulled as the job's
             text says, followers { slack: N }. If it is silent for longer than its lease, training
             continues without it
    relay    it passes models on, slice by slice as they arrive, to the next follower that does so
             too, and takes them from the one before it, so that a server sends each once, however
             many follow. True listens at any free port, at the address with which this machine
             reaches the coordinator; "HOST:PORT" there. With keys it uses a server's, of its name
    """
    if isinstance(job, str):
        if number is None:
            raise InvalidError(f"follow({job!r}) names no job; give its number, or a Job")
        return Follower(job, keys, number, name, bounded, relay)
    if number is not None or keys is not None:
        raise InvalidError("a Job knows its number and its cluster's keys; omit them")
    return Follower(job._cluster.address, job._cluster.keys, job.number, name, bounded, relay)
