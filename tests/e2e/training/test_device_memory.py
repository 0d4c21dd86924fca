"""Tables of members in a device's memory, and updates from there, in the order of the program's own
streams: on the device twin, which runs work as late as its order allows."""

import unittest

from training.python_members import PythonMembers
from twin import BUILD, MODULE

# What the programs below share: arrays on the twin's device as another library has them, whose
# work is queued on a stream and not waited for.
BEGIN = """
    import ctypes, os, sys, numpy, tautline
    from tautline import dlpack
    cuda = ctypes.CDLL(os.path.join(sys.argv[3], "libtaut_twin.so"))
    cuda.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                     ctypes.c_int, ctypes.c_void_p]
    cuda.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
    def check(code): assert code == 0, code
    def made(function, *arguments):
        made = ctypes.c_void_p()
        check(function(ctypes.byref(made), *arguments))
        return made.value
    TO_DEVICE, TO_HOST = 1, 2
    class Stream:
        def __init__(self): self.handle = made(cuda.cudaStreamCreateWithFlags, 1)
        def finish(self): check(cuda.cudaStreamSynchronize(self.handle))
    class Pinned:
        def __init__(self, count, dtype):
            size = numpy.dtype(dtype).itemsize * count
            self.address = made(cuda.cudaHostAlloc, ctypes.c_size_t(size), 0)
            memory = (ctypes.c_byte * size).from_address(self.address)
            self.array = numpy.frombuffer(memory, dtype)
    class OnDevice:
        def __init__(self, count, stream, dtype=numpy.float32):
            self.shape, self.dtype, self.stream = (count,), numpy.dtype(dtype), stream
            self.size = count * self.dtype.itemsize
            self.address = made(cuda.cudaMalloc, ctypes.c_size_t(self.size))
            self.kept = []  # what is copied later
            self.exported = []
        def write(self, values):
            pinned = Pinned(self.shape[0], self.dtype)
            pinned.array[:] = values
            self.kept.append(pinned)
            check(cuda.cudaMemcpyAsync(self.address, pinned.address, self.size, TO_DEVICE,
                                       self.stream.handle))
            return self
        def read(self):
            pinned = Pinned(self.shape[0], self.dtype)
            check(cuda.cudaMemcpyAsync(pinned.address, self.address, self.size, TO_HOST,
                                       self.stream.handle))
            self.stream.finish()
            return pinned.array.copy()
        def __dlpack_device__(self): return (2, 0)
        def __dlpack__(self, stream=None):
            assert stream == self.stream.handle, stream
            managed, shape = dlpack._Managed(), (ctypes.c_int64 * 1)(*self.shape)
            managed.tensor = dlpack._Tensor(self.address, 2, 0, 1, 2, 8 * self.dtype.itemsize, 1,
                                            shape, None, 0)
            managed.deleter = dlpack._DELETER(lambda pointer: self.exported.remove(one))
            one = (managed, shape)
            self.exported.append(one)
            return dlpack._python.PyCapsule_New(ctypes.addressof(managed), b"dltensor",
                                                dlpack._DESTRUCTOR())
    def fails(kind, words, call):
        try:
            call()
        except kind as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError("nothing was raised: " + words)
    me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
    stream = Stream()
"""

# One of two members; the other one's tables are in the host's memory.
ORDERED = """
    w = OnDevice(4, stream).write([8, 8, 8, 8])
    late = me.table("w", w, stream=stream.handle)
    counts = me.table("counts", numpy.zeros(1, numpy.float32))
    update = OnDevice(4, stream)
    for clock in me.clocks(20):
        # Nothing is waited for: the update exists when the stream has come to it, and is written
        # over right after the place at which it is copied.
        update.write([clock, 1, 0, -1])
        me.push(late, update)
        update.write([numpy.nan] * 4)
        me.push(counts, numpy.ones(1, numpy.float32))
        me.pull(late); me.pull(counts)
        print(w.read().tolist(), counts.value.tolist())
    assert not update.exported, "an update is released when it has been copied"
    assert len(w.exported) == 1, "values are kept while the member is there"
    me.finish()
    assert not w.exported
"""
OTHER = """
    import sys, numpy, tautline
    me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
    w = me.table("w", numpy.full(4, 8, numpy.float32))
    counts = me.table("counts", numpy.zeros(1, numpy.float32))
    for clock in me.clocks(20):
        me.push(w, numpy.array([clock, 1, 0, -1], numpy.float32))
        me.push(counts, numpy.ones(1, numpy.float32))
        me.pull(w); me.pull(counts)
        print(w.value.tolist(), counts.value.tolist())
    me.finish()
"""

REWRITTEN = """
    w = OnDevice(2, stream).write([1, 2])
    table = me.table("w", w, stream=stream.handle)
    stream.finish()
    w.write([5, 6])
    me.open()
    print(w.read().tolist())
    me.push(table, OnDevice(2, stream).write([0, 0])); me.pull(table)
    print(me.snapshot(table).tolist())
    me.end_clock()
    me.finish()
"""

# As a C program may: the library's own close, while another thread waits in its pull.
CLOSED = """
    import threading, time
    from tautline import _library
    w = OnDevice(2, stream).write([1, 2])
    table = me.table("w", w, stream=stream.handle)
    me.open()
    me.push(table, OnDevice(2, stream).write([1, 1]))
    _library.lib.tautline_set_patience(0)  # without end
    handle, me._handle = me._handle, ctypes.c_void_p()
    codes = []
    def pull():
        codes.append(_library.lib.tautline_pull(handle, table._number, None))
    waits = threading.Thread(target=pull, daemon=True)
    waits.start()
    time.sleep(0.5)
    assert not codes, "the other member has not pushed, so this waits"
    _library.lib.tautline_close(handle)
    waits.join(10)
    try:
        _library.check(codes[0])
    except tautline.TautlineError as error:
        print(type(error).__name__)
"""
PRESENT = """
    import sys, numpy, tautline
    me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
    me.table("w", numpy.zeros(2, numpy.float32))
    me.open()
    sys.stdin.read()
"""

WRONG = """
    host = me.table("host", numpy.zeros(2, numpy.float32))
    class Claims:
        # Memory of the host, of which it says that it is a device's.
        def __init__(self, array): self.array = array
        def __dlpack_device__(self): return (2, 0)
        def __dlpack__(self, stream=None):
            device = OnDevice(self.array.size, stream=self)
            device.address = self.array.ctypes.data
            return device.__dlpack__(stream)
        handle = property(lambda self: 1)
    fails(tautline.InvalidError, "is memory of the host, not of CUDA device 0",
          lambda: me.table("claims", Claims(numpy.zeros(2, numpy.float32))))
    fails(tautline.InvalidError, "float64; the library writes float32",
          lambda: me.table("wide", OnDevice(2, stream, numpy.float64), stream=stream.handle))
    w = OnDevice(2, stream).write([1, 2])
    table = me.table("w", w, stream=stream.handle)
    update = OnDevice(2, stream).write([1, 1])
    me.open()
    fails(tautline.InvalidError, "push what is there",
          lambda: me.push(table, numpy.ones(2, numpy.float32)))
    fails(tautline.InvalidError, "push a copy there", lambda: me.push(host, update))
    fails(tautline.InvalidError, "has shape [2], but its update has [3]",
          lambda: me.push(table, OnDevice(3, stream).write([1, 1, 1])))
    wide = OnDevice(2, stream, numpy.float64).write([4, 8])
    me.push(table, wide)
    fails(tautline.InvalidError, "pushed before", lambda: me.push(table, update))
    me.push(host, numpy.ones(2, numpy.float32)); me.pull(host)
    fails(tautline.InvalidError, '"w" was pushed and not pulled', me.end_clock)
    fails(tautline.InvalidError, '"w" was pushed and not pulled', me.leave)
    me.pull(table)
    assert w.read().tolist() == [0, 0], w.read()
    assert me.snapshot(table).tolist() == [0, 0]
    assert table.__dlpack_device__() == (2, 0)
    me.end_clock()
    print("refused all")
    me.finish()
"""

FAILS = """
    w = OnDevice(2, stream).write([1, 2])
    table = me.table("w", w, stream=stream.handle)
    update = OnDevice(2, stream)
    try:
        for clock in me.clocks(50):
            update.write([1, 1])
            me.push(table, update)
            me.pull(table)
    except tautline.TautlineError as error:
        print(type(error).__name__, error)
        me.fail(error)
    except AssertionError:
        me.fail("the program's own work")
        print("its own call failed first")
"""

MISSING = """
    fails(tautline.UnavailableError, "TAUTLINE_CUDA_MODULE is /nowhere.so: no such file",
          lambda: me.table("w", OnDevice(2, stream), stream=stream.handle))
    print("named")
"""


@unittest.skipUnless(MODULE.exists(), "this build has no device twin")
class DeviceMemory(PythonMembers):
    def setUp(self):
        super().setUp()
        self.environment |= {"TAUTLINE_CUDA_MODULE": str(MODULE),
                             "LD_LIBRARY_PATH": str(BUILD / "twin")}

    def on_device(self, code, job, seed=1, **variables):
        self.environment |= {"TAUTLINE_TWIN_SEED": str(seed)} | variables
        return self.program(BEGIN + code, self.coordinator, job, BUILD / "twin")

    def start_job(self, workers):
        self.start_cluster()
        return self.submit(workers, "mode: BSP")

    def test_values_and_updates_are_in_the_order_of_the_programs_stream(self):
        job = self.start_job(2)
        for seed in (1, 2, 3):
            if seed > 1:
                job = self.submit(2, "mode: BSP")
            member = self.on_device(ORDERED, job, seed)
            other = self.program(OTHER, self.coordinator, job)
            there, here = self.result(member), self.result(other)
            # The mean of two equal updates a clock, at a rate of a quarter.
            expected = [f"{[8 - n * (n + 1) / 8, 8 - n / 4, 8.0, 8 + n / 4]} {[-n / 4]}"
                        for n in range(1, 21)]
            self.assertEqual(here.splitlines(), expected)
            self.assertEqual(there.splitlines(), expected)

    def test_values_written_between_table_and_open_are_the_initial_ones(self):
        job = self.start_job(1)
        out = self.result(self.on_device(REWRITTEN, job))
        self.assertEqual(out.splitlines(), ["[5.0, 6.0]"] * 2)

    def test_close_ends_a_pull_of_another_thread_and_waits_for_it(self):
        job = self.start_job(2)
        other = self.program(PRESENT, self.coordinator, job, stdin=True)
        self.assertEqual(self.result(self.on_device(CLOSED, job)).strip(), "StoppedError")
        other.kill()
        other.communicate()

    def test_what_does_not_fit_a_device_is_refused_in_one_line(self):
        job = self.start_job(1)
        self.assertIn("refused all", self.result(self.on_device(WRONG, job)))

    def test_a_device_that_fails_is_named_and_the_member_leaves(self):
        job = self.start_job(1)
        member = self.on_device(FAILS, job, TAUTLINE_TWIN_FAIL="cudaMemcpyAsync 30 lost")
        out = self.result(member)
        self.assertRegex(out, "CUDA device 0: |its own call failed first")

    def test_a_module_that_is_not_there_is_named(self):
        job = self.start_job(1)
        member = self.on_device(MISSING, job, TAUTLINE_CUDA_MODULE="/nowhere.so")
        self.assertIn("named", self.result(member))


if __name__ == "__main__":
    unittest.main()
