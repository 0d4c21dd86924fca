"""libtautline.so by ctypes: its functions with their types, and its codes as exceptions."""

import ctypes
import json
import os
import pathlib
import threading
from typing import Any, Callable, Optional

from tautline import errors

_PACKAGE = pathlib.Path(__file__).resolve().parent
_NAME = "libtautline.so.1"

NOT_FOUND = 2
AGAIN = 8
FLOAT32 = 0
# Between two checks of the interpreter for signals, while a call waits.
_PATIENCE_S = 0.05


class Place(ctypes.Structure):
    _fields_ = [("worker", ctypes.c_uint32), ("slot", ctypes.c_uint32),
                ("slots", ctypes.c_uint32), ("start", ctypes.c_int64)]


class TableInfo(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("dimensions", ctypes.c_size_t), ("kind", ctypes.c_int)]


class Report(ctypes.Structure):
    _fields_ = [("loss", ctypes.c_double), ("items", ctypes.c_uint64)]


class Orders(ctypes.Structure):
    _fields_ = [("clock", ctypes.c_int64), ("leave", ctypes.c_int)]


class FollowOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("bounded", ctypes.c_int),
                ("relay", ctypes.c_char_p)]


def _places() -> list[str]:
    """Where the library may be: named, next to the package, in a build tree, in the system."""
    named = os.environ.get("TAUTLINE_LIBRARY")
    if named:
        return [named]
    return [str(_PACKAGE / "lib" / _NAME),
            str(_PACKAGE.parent.parent / "build" / "release" / "lib" / _NAME), _NAME]


def _load() -> ctypes.CDLL:
    reason: Optional[OSError] = None
    for place in _places():
        if os.sep in place and not os.path.exists(place):
            continue
        try:
            return ctypes.CDLL(place)
        except OSError as failure:
            reason = failure
    raise ImportError(f"{_NAME} cannot be loaded ({reason}); scripts/build builds it, or name it "
                      "in TAUTLINE_LIBRARY")


def _declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    text, handle, number = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64
    table, size, seconds = ctypes.c_uint32, ctypes.c_size_t, ctypes.c_double
    element, out = ctypes.c_int, ctypes.POINTER
    signatures: dict[str, list[Any]] = {
        "connect": [text, text, seconds, out(handle)],
        "submit": [handle, text, out(number)],
        "status": [handle, number, out(handle)],
        "set_slack": [handle, number, ctypes.c_int64],
        "stop": [handle, number, ctypes.c_int],
        "checkpoint": [handle, number],
        "finish_job": [handle, number],
        "join": [text, text, number, text, seconds, out(handle)],
        "await_place": [handle, out(Place)],
        "add_table": [handle, text, out(ctypes.c_int64), size, element, ctypes.c_int, handle,
                      out(table)],
        "job_table": [handle, size, out(TableInfo)],
        "definition": [handle, out(handle)],
        "set_multiples": [handle, table, ctypes.c_float, ctypes.c_float],
        "open": [handle],
        "add_dlpack": [handle, text, ctypes.c_int, handle, ctypes.c_int, out(table)],
        "push_dlpack": [handle, table, handle, ctypes.c_int],
        "add_device_dlpack": [handle, text, ctypes.c_int, handle, ctypes.c_int, handle, out(table)],
        "push_device_dlpack": [handle, table, handle, ctypes.c_int, handle],
        "set_stream": [handle, table, handle],
        "values_dlpack": [handle, table, ctypes.c_int, out(handle)],
        "is_due": [handle, table, out(ctypes.c_int)],
        "push": [handle, table, element, handle, number],
        "pull": [handle, table, out(ctypes.c_int64)],
        "snapshot": [handle, table, element, handle, number, out(ctypes.c_int64)],
        "end_clock": [handle, out(Report), out(Orders)],
        "staleness": [handle, out(number), size],
        "leave": [handle],
        "finish": [handle],
        "fail": [handle, text],
        "follow": [text, text, number, out(FollowOptions), out(handle)],
        "follow_pull": [handle, ctypes.c_int64, ctypes.c_int64, seconds, out(handle)],
        "follow_traffic": [handle, out(number), out(number)],
        "model_table": [handle, size, out(TableInfo), out(out(ctypes.c_float)), out(number)],
    }
    for name, arguments in signatures.items():
        function = getattr(lib, "tautline_" + name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    without_code: dict[str, list[Any]] = {"disconnect": [handle], "close": [handle],
                                          "cancel": [handle], "free": [handle],
                                          "set_patience": [seconds], "unfollow": [handle],
                                          "model_free": [handle]}
    for name, arguments in without_code.items():
        function = getattr(lib, "tautline_" + name)
        function.argtypes = arguments
        function.restype = None
    for name in ("error", "version"):
        function = getattr(lib, "tautline_" + name)
        function.argtypes = []
        function.restype = text
    lib.tautline_model_version.argtypes = [handle]
    lib.tautline_model_version.restype = ctypes.c_int64
    lib.tautline_set_patience(_PATIENCE_S)
    return lib


lib = _declare(_load())


def check(code: int) -> None:
    """Raises the exception of a code other than success."""
    if code == 0:
        return
    message = lib.tautline_error().decode(errors="replace")
    raise errors.BY_CODE.get(code, errors.TautlineError)(message)


class Handle:
    """An object of the library that several threads use, one at a time, and any of them closes."""

    def __init__(self, free: Callable[[ctypes.c_void_p], None], closed: str) -> None:
        self.pointer = ctypes.c_void_p()
        self._free = free
        self._closed = closed  # what a call says after that
        self._is_closed = False
        # A handler of signals may call it too, in the middle of a call of the main thread.
        self._lock = threading.RLock()

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function until what it waits for has happened. Signals, and other threads' calls,
        are handled between its steps."""
        code = AGAIN
        while code == AGAIN:
            with self._lock:
                if self._is_closed or not self.pointer:
                    raise errors.StoppedError(self._closed)
                code = function(self.pointer, *arguments)
        check(code)

    def close(self) -> None:
        """Frees it after the current step of another thread's call, which raises StoppedError."""
        self._is_closed = True
        with self._lock:
            pointer, self.pointer = self.pointer, ctypes.c_void_p()
            if pointer:
                self._free(pointer)


def take_json(pointer: ctypes.c_void_p) -> Any:
    """A JSON text of the library, which this frees."""
    try:
        return json.loads(ctypes.string_at(pointer))
    finally:
        lib.tautline_free(pointer)


def text(value: Any) -> Optional[bytes]:
    """A text for the library; None stays None."""
    return None if value is None else os.fsencode(value)
