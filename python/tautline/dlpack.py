"""Tensors of other libraries as tables and updates, and tables as tensors, without a copy: the
protocol of DLPack (https://dmlc.github.io/dlpack) by ctypes, in both of its versions."""

import ctypes
from typing import Any, Callable, Optional

import numpy

from tautline import _library
from tautline.errors import InvalidError, TautlineError

# The names of capsules, which must exist as long as those do. The consumer renames what it takes.
_PLAIN, _USED_PLAIN = b"dltensor", b"used_dltensor"
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
_CUDA, _CUDA_MANAGED = 2, 13
# The protocol's number for CUDA's default stream, which CUDA calls 0.
_DEFAULT_STREAM = 1
_python = ctypes.pythonapi
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _declare() -> None:
    capsule, name = ctypes.py_object, ctypes.c_char_p
    _python.PyCapsule_New.argtypes = [ctypes.c_void_p, name, _DESTRUCTOR]
    _python.PyCapsule_New.restype = capsule
    _python.PyCapsule_SetName.argtypes = [capsule, name]
    _python.PyCapsule_SetName.restype = ctypes.c_int
    _python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, name]
    _python.PyCapsule_IsValid.restype = ctypes.c_int
    _python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, name]
    _python.PyCapsule_GetPointer.restype = ctypes.c_void_p


_declare()


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", _DELETER), ("flags", ctypes.c_uint64),
                ("tensor", _Tensor)]


def _delete(pointer: int, versioned: bool) -> None:
    kind: Any = _ManagedVersioned if versioned else _Managed
    kind.from_address(pointer).deleter(pointer)


@_DESTRUCTOR
def _drop(capsule: int) -> None:
    """Deletes a tensor that no library has taken out of its capsule."""
    for name, versioned in ((_PLAIN, False), (_VERSIONED, True)):
        if _python.PyCapsule_IsValid(capsule, name):
            _delete(_python.PyCapsule_GetPointer(capsule, name), versioned)


def shares(value: Any) -> bool:
    """Whether an object must be taken as a tensor: one that NumPy alone cannot take."""
    if isinstance(value, numpy.ndarray) or not hasattr(value, "__dlpack__"):
        return False
    # NumPy takes PyTorch's tensors itself, except those of the type that NumPy lacks.
    return not hasattr(value, "detach") or "bfloat16" in str(value.dtype)


def cuda_device_of(value: Any) -> Optional[int]:
    """CUDA's number of the device that an array or tensor is on; None: another one, or the host."""
    if hasattr(value, "detach"):  # PyTorch's, which raises an error for what DLPack does not know
        return (value.device.index or 0) if value.device.type == "cuda" else None
    if not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = value.__dlpack_device__()
    return int(number) if kind in (_CUDA, _CUDA_MANAGED) else None


def stream_of(value: Any) -> int:
    """The CUDA stream in whose order a tensor's work is: PyTorch's current one, or else CUDA's
    default one, for which others export."""
    if hasattr(value, "detach"):
        import torch  # it is one of its tensors
        return int(torch.cuda.current_stream(value.device).cuda_stream) or _DEFAULT_STREAM
    return _DEFAULT_STREAM


def _capsule_from(value: Any, what: str, stream: Optional[int]) -> Any:
    """Of the newer version if the object supports it, as that marks what is read-only."""
    words: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        try:
            return value.__dlpack__(max_version=(1, 0), **words)
        except TypeError:  # it is older than the argument
            return value.__dlpack__(**words)
    except (BufferError, RuntimeError, TypeError) as failure:
        raise InvalidError(f"{what} cannot be shared: {failure}") from failure


def take(value: Any, what: str, call: Callable[[ctypes.c_void_p, int], int],
         stream: Optional[int] = None) -> None:
    """Has the library take an object's tensor.

    call    of (pointer, versioned), returns the library's code: after 0 the library owns the tensor
    stream  of a device's tensor: the one in whose order its values are made; None: of the host
    """
    if hasattr(value, "detach"):
        value = value.detach()
    capsule = _capsule_from(value, what, stream)
    for name, used, versioned in ((_PLAIN, _USED_PLAIN, 0), (_VERSIONED, _USED_VERSIONED, 1)):
        if _python.PyCapsule_IsValid(id(capsule), name):
            pointer = ctypes.c_void_p(_python.PyCapsule_GetPointer(id(capsule), name))
            # The capsule's destructor leaves a taken tensor alone. It is renamed before, as
            # a KeyboardInterrupt may arrive between the call and what follows, and a tensor that is
            # never deleted then is better than one that is deleted twice.
            _python.PyCapsule_SetName(capsule, used)
            try:
                code = call(pointer, versioned)
            except TautlineError:  # the library was not called
                _python.PyCapsule_SetName(capsule, name)
                raise
            if code != 0:
                _python.PyCapsule_SetName(capsule, name)
            _library.check(code)
            return
    raise InvalidError(f"{what} has no tensor of DLPack in the capsule that it gives")


def capsule_of(tensor: ctypes.c_void_p, versioned: bool) -> Any:
    """A tensor of the library's in a capsule, which deletes it unless another library takes it."""
    return _python.PyCapsule_New(tensor, _VERSIONED if versioned else _PLAIN, _drop)


class _Owner:
    """Deletes a tensor with the last array that has its memory."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __del__(self) -> None:
        if _delete is not None:
            _delete(self._pointer, False)


def array_of(managed: ctypes.c_void_p) -> numpy.ndarray:
    """A float32 tensor of the library's as an array of NumPy, which keeps its memory."""
    address = managed.value or 0
    tensor = _Managed.from_address(address).tensor
    shape = tuple(tensor.shape[:tensor.dimensions])
    kind: Any = type("_Memory", (ctypes.Array,),
                {"_type_": ctypes.c_float, "_length_": int(numpy.prod(shape, dtype=int))})
    memory = kind.from_address(tensor.data)
    memory.owner = _Owner(address)
    return numpy.frombuffer(memory, numpy.float32).reshape(shape)
