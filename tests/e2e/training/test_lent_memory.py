"""Memory that programs lend to libtautline.so: buffers with a release, and tensors of DLPack from
NumPy and PyTorch, as tables and as updates."""

from training.python_members import PythonMembers

# What the programs below share: a member with table "w" of four values, and buffers that count.
BEGIN = """
    import ctypes, sys, numpy, tautline
    from tautline import _library, dlpack
    lib = _library.lib
    me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
    class Buffer(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64),
                    ("element", ctypes.c_int), ("release", ctypes.c_void_p),
                    ("context", ctypes.c_void_p)]
    released = []
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def release(context):
        released.append(context)
    def lent(array, element, number):
        return Buffer(array.ctypes.data, array.size, element,
                      ctypes.cast(release, ctypes.c_void_p), number)
    class Only:
        # An array of another library: all that it has is DLPack.
        def __init__(self, array): self.array = array
        def __dlpack__(self, **words): return self.array.__dlpack__(**words)
        def __dlpack_device__(self): return self.array.__dlpack_device__()
    def fails(words, call):
        try:
            call()
        except tautline.InvalidError as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError("nothing was raised: " + words)
"""


TENSORS = """
    make, same = {"numpy": (numpy.asarray, numpy.from_dlpack)}.get(sys.argv[3], (None, None))
    if make is None:
        import torch
        make, same = torch.tensor, torch.from_dlpack
    initial = make(numpy.array([[8, 8], [8, 8]], numpy.float32))
    w = me.table("w", Only(initial))
    me.open()
    # In and out without a copy: three names of one memory.
    out = same(w)
    assert w.value.shape == (2, 2) and w.value.dtype == numpy.float32
    initial[0, 0] = 5
    assert w.value[0, 0] == 5 and out[0, 0] == 5
    initial[0, 0] = 8
    update = make(numpy.array([[1, 2], [3, 4]], numpy.float32))
    for clock in me.clocks(3):
        me.push(w, Only(update)); me.pull(w)
    assert (w.value == [[5, 2], [-1, -4]]).all() and (numpy.asarray(out) == w.value).all(), w.value
    # What is no float32 is converted where it is an update, and refused where it is a table.
    for kind in (numpy.float64, numpy.float16):
        me.push(w, Only(make(numpy.ones((2, 2), kind)))); me.pull(w); me.end_clock()
    assert (w.value == [[3, 0], [-3, -6]]).all(), w.value
    wrong = make(numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    fails("has shape [2, 2], but its update has [2, 3]", lambda: me.push(w, Only(wrong)))
    fails("not those of C order", lambda: me.push(w, Only(wrong.T)))
    fails("element type int", lambda: me.push(w, Only(make(numpy.ones((2, 2), numpy.int32)))))
    me.push(w, Only(update)); me.pull(w); me.end_clock()
    kept = w.value
    me.finish()
    del me, w, initial
    assert (kept == [[2, -2], [-6, -10]]).all() and float(out[1, 1]) == -10, kept
    print("all")
    """


BUFFERS = """
    values = numpy.full(4, 8, numpy.float32)
    table = ctypes.c_uint32()
    shape = (ctypes.c_int64 * 1)(4)
    def add(buffer):
        return lib.tautline_add_buffer(me._handle, b"w", shape, 1, 0, ctypes.byref(buffer),
                                       ctypes.byref(table))
    def push(buffer):
        return lib.tautline_push_buffer(me._handle, table, ctypes.byref(buffer))
    # What fails stays the caller's.
    assert add(lent(numpy.ones(4), 1, 1)) == 1
    assert b"float64 is for updates" in lib.tautline_error(), lib.tautline_error()
    assert add(lent(numpy.ones(3, numpy.float32), 0, 2)) == 1
    assert b"has 4 values, but its buffer has 3" in lib.tautline_error(), lib.tautline_error()
    _library.check(add(lent(values, 0, 3)))
    me.open()
    assert push(lent(numpy.ones(3, numpy.float32), 0, 4)) == 1
    assert b"has 4 values, but its update has 3" in lib.tautline_error(), lib.tautline_error()
    assert push(lent(numpy.ones(3, numpy.float64), 1, 5)) == 1
    assert b"has 4 values, but its update has 3" in lib.tautline_error(), lib.tautline_error()
    assert push(lent(numpy.ones(4, numpy.float32), 9, 6)) == 1
    assert b"element type 9 is unknown" in lib.tautline_error(), lib.tautline_error()
    assert released == []
    # Numbers of every type: each update is 1, 2, 3, 4.
    ones = numpy.arange(1, 5)
    updates = [ones.astype(numpy.float32), ones.astype(numpy.float64), ones.astype(numpy.float16),
               (ones.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)]
    for clock, (element, update) in enumerate(enumerate(updates), 1):
        _library.check(push(lent(update, element, 10 + element)))
        assert element == 0 or released[-1] == 10 + element, released
        me._wait(lib.tautline_pull, table, None)
        me.end_clock()
        assert (values == 8 - clock * ones).all(), (element, values)
    # A table's own values, of which a read may write while they are sent.
    _library.check(push(lent(values, 0, 20)))
    assert released[-1] == 20
    me._wait(lib.tautline_pull, table, None)
    assert (values == 0).all(), values
    me.end_clock()
    me.finish()
    print(sorted(released), values)
    """


OUTLIVES = """
    import gc, weakref
    make, same = {"numpy": (numpy.asarray, numpy.from_dlpack)}.get(sys.argv[3], (None, None))
    if make is None:
        import torch
        make, same = torch.tensor, torch.from_dlpack
    initial = make(numpy.full(1 << 16, 8, numpy.float32))
    kept = weakref.ref(initial)
    w = me.table("w", initial)
    out = same(w)
    me.push(w, numpy.ones(1 << 16)); me.pull(w); me.end_clock()
    me.finish()
    del me, w, initial
    gc.collect()
    others = [make(numpy.zeros(1 << 16, numpy.float32)) for _ in range(16)]
    assert float(out[0]) == 7 and float(out[-1]) == 7, out
    if sys.argv[3] == "numpy":
        assert kept() is not None
        del out
        gc.collect()
        assert kept() is None, "nothing of the library keeps it"
    print("all")
    """


GRADIENTS = """
    first, second = (me.table(name, numpy.zeros(4, numpy.float32)) for name in "ab")
    me.open()
    memory = ctypes.POINTER(ctypes.c_float)()
    def handed_out():
        _library.check(lib.tautline_gradient(me._handle, first._number, 0, ctypes.byref(memory)))
        return ctypes.addressof(memory.contents)
    lib.tautline_gradient.restype = ctypes.c_int
    lib.tautline_gradient.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int,
                                      ctypes.c_void_p]
    place = handed_out()
    memory[:4]
    for i in range(4): memory[i] = i
    # What is refused, and an update of other memory, leave it alone.
    doubles = numpy.full(3, 9.0)
    assert lib.tautline_push(me._handle, first._number, 1, doubles.ctypes.data, 3) == 1
    assert memory[:4] == [0, 1, 2, 3], memory[:4]
    me.push(first, numpy.ones(4)); me.push(second, numpy.ones(4))
    assert handed_out() == place and memory[:4] == [0, 1, 2, 3], memory[:4]
    doubles = numpy.full(4, 9.0)
    assert lib.tautline_push(me._handle, first._number, 1, doubles.ctypes.data, 4) == 1
    assert b"pushed at clock 1 before" in lib.tautline_error(), lib.tautline_error()
    assert memory[:4] == [0, 1, 2, 3], memory[:4]
    me.pull(first); me.pull(second); me.end_clock()
    _library.check(lib.tautline_push(me._handle, first._number, 1, doubles.ctypes.data, 4))
    me.push(second, numpy.zeros(4)); me.pull(first); me.pull(second); me.end_clock()
    assert memory[:4] == [0, 1, 2, 3], memory[:4]
    _library.check(lib.tautline_push(me._handle, first._number, 0, place, 4))
    me.push(second, numpy.zeros(4)); me.pull(first); me.pull(second); me.end_clock()
    me.finish()
    print(first.value, second.value)
    """


class LentMemory(PythonMembers):
    server_settings = ""

    def start_job(self):
        self.start_daemon("server", "server0", f"shards: 1 {self.server_settings} coordinator {{}}")
        self.coordinator = self.addresses("server0")["coordinator"][0]
        return self.submit(1, "mode: BSP", solver='type: "SGD" base_lr: 1')

    def run_member(self, code, job):
        return self.run_python(BEGIN + code, self.coordinator, job)

    def check_buffers(self):
        job = self.start_job()
        self.assertEqual(self.run_member(BUFFERS, job),
                         "[3, 10, 11, 12, 13, 20] [0. 0. 0. 0.]\n")

    def check_tensors(self, library):
        job = self.start_job()
        member = self.program(BEGIN + TENSORS, self.coordinator, job, library)
        self.assertEqual(self.result(member), "all\n")


    def check_outlives(self, library):
        job = self.start_job()
        member = self.program(BEGIN + OUTLIVES, self.coordinator, job, library)
        self.assertEqual(self.result(member), "all\n")


class LentMemoryTest(LentMemory):
    def test_buffers_are_released_once_and_hold_every_element_type(self):
        self.check_buffers()

    def test_tensors_of_numpy_are_tables_and_updates(self):
        self.check_tensors("numpy")

    def test_a_tensor_of_a_table_outlives_its_member_and_the_array_that_it_was_made_of(self):
        self.check_outlives("numpy")

    def test_an_interrupt_after_a_tensor_was_taken_deletes_it_once(self):
        job = self.start_job()
        self.assertEqual(self.run_member("""
    import gc, weakref
    array, number = numpy.full(4, 5, numpy.float32), ctypes.c_uint32()
    kept = weakref.ref(array)
    def interrupted(tensor, versioned):
        assert lib.tautline_add_dlpack(me._handle, b"w", 0, tensor, versioned,
                                       ctypes.byref(number)) == 0
        raise KeyboardInterrupt
    try:
        dlpack.take(Only(array), "it", interrupted)
    except KeyboardInterrupt:
        pass
    del array
    gc.collect()
    assert kept() is not None, "the library has it"
    out = dlpack.array_of(me._tensor_of(type("Table", (), {"_number": number})))
    assert (out == 5).all() and kept() is not None
    me.close()
    del out
    gc.collect()
    assert kept() is None
    # Of a call that was not made the tensor is the object's.
    array = numpy.full(4, 5, numpy.float32)
    kept = weakref.ref(array)
    try:
        me._tables, me._is_open, me._in_text = [], False, {}
        me.table("w", Only(array))
    except tautline.StoppedError:
        pass
    del array
    gc.collect()
    assert kept() is None
    print("all")
    """, job), "all\n")

    def test_memory_for_an_update_is_the_callers_until_it_is_pushed(self):
        job = self.start_job()
        self.assertEqual(self.run_member(GRADIENTS, job),
                         "[-10. -11. -12. -13.] [-1. -1. -1. -1.]\n")

    def test_a_tables_values_are_its_memory_for_good(self):
        job = self.start_job()
        self.assertEqual(self.run_member("""
    w = me.table("w", numpy.ones(4, numpy.float32))
    try:
        w.value = numpy.zeros(4, numpy.float32)
    except AttributeError:
        print(w.value)
    # A tensor that says that it is only to be read; its first library may not know to say so.
    class Still:
        def __init__(self, knows): self.knows = knows
        def __dlpack__(self, **words):
            if not self.knows and words: raise TypeError("what is max_version?")
            capsule = w.__dlpack__(max_version=words.get("max_version"))
            if words:
                pointer = ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"dltensor_versioned")
                dlpack._ManagedVersioned.from_address(pointer).flags = 1
            return capsule
        def __dlpack_device__(self): return w.__dlpack_device__()
    fails("is read-only; give a copy of it", lambda: me.table("still", Still(True)))
    me.table("v", Still(False))
    """, job), "[1. 1. 1. 1.]\n")

    def test_a_table_that_cannot_be_a_tensors_memory_is_refused(self):
        job = self.start_job()
        self.assertEqual(self.run_member("""
    fails("library writes float32", lambda: me.table("w", Only(numpy.ones(4))))
    fails("not those of C order",
          lambda: me.table("w", Only(numpy.ones((4, 4), numpy.float32)[:, ::2])))
    still = numpy.ones(4, numpy.float32)
    still.flags.writeable = False
    fails("cannot be shared", lambda: me.table("w", Only(still)))
    w = me.table("w", numpy.ones(4, numpy.float32))
    try:
        w.__dlpack__(stream=1)
    except BufferError as error:
        print(error)
    # A capsule that no library takes deletes its tensor.
    capsule = w.__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    del capsule
    """, job),
                         "table 'w' is memory of the host, and is shared as it is\n")


class RemoteLentMemoryTest(LentMemory):
    """Where updates travel as bytes: what is lent is not copied at all."""
    server_settings = "shared_memory: false"

    def test_buffers_that_travel_as_bytes_are_released_once_too(self):
        self.check_buffers()

    def test_tensors_that_travel_as_bytes_are_tables_and_updates(self):
        self.check_tensors("numpy")

    def test_a_lent_update_of_a_job_with_backups_is_copied_and_released_at_once(self):
        self.start_daemon("server", "server0", "shards: 1 shared_memory: false coordinator {}")
        self.coordinator = self.addresses("server0")["coordinator"][0]
        self.start_daemon("server", "server1", "shards: 1 shared_memory: false")
        job = self.submit(1, "mode: BSP", solver='type: "SGD" base_lr: 1')
        self.assertEqual(self.run_member("""
    count = 1 << 18
    values = numpy.zeros(count, numpy.float32)
    w = me.table("w", values)
    me.open()
    update = numpy.ones(count, numpy.float32)
    for clock in me.clocks(4):
        _library.check(lib.tautline_push_buffer(me._handle, w._number,
                                                ctypes.byref(lent(update, 0, clock))))
        # It may be sent once more long after it was pulled, to the backup of a lost shard.
        assert released == list(range(1, clock + 1)), released
        update[:] = 7
        me.pull(w)
        update[:] = 1
    me.finish()
    print(values[0], values[-1])
    """, job), "-4.0 -4.0\n")

    def test_a_lent_update_is_sent_from_its_own_memory_and_released_later(self):
        job = self.start_job()
        self.assertEqual(self.run_member("""
    import time
    count = 1 << 20
    values = numpy.zeros(count, numpy.float32)
    w = me.table("w", values)
    me.open()
    update = numpy.ones(count, numpy.float32)
    for clock in me.clocks(20):
        _library.check(lib.tautline_push_buffer(me._handle, w._number,
                                                ctypes.byref(lent(update, 0, clock))))
        me.pull(w)
        end = time.monotonic() + 10
        while len(released) < clock and time.monotonic() < end: time.sleep(0.001)
    me.finish()
    assert released == list(range(1, 21)), released
    print(values[0], values[-1])
    """, job), "-20.0 -20.0\n")


class TorchLentMemoryTest(LentMemory):
    module = "torch"

    def test_tensors_of_pytorch_are_tables_and_updates(self):
        self.check_tensors("torch")

    def test_a_tensor_of_a_table_outlives_its_member_and_the_tensor_that_it_was_made_of(self):
        self.check_outlives("torch")

    def test_a_bfloat16_tensor_of_pytorch_is_an_update(self):
        job = self.start_job()
        self.assertEqual(self.run_member("""
    import torch
    w = me.table("w", torch.full((2, 2), 3.0))
    for clock in me.clocks(2):
        me.push(w, torch.full((2, 2), 1.5, dtype=torch.bfloat16)); me.pull(w)
    me.finish()
    print(w.value.tolist())
    """, job), "[[0.0, 0.0], [0.0, 0.0]]\n")
