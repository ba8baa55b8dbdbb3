"""Compiling, caching and threads: what every kernel relies on, tried with small kernels of its own."""

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types
from numba.core import errors
from numba.extending import intrinsic

from tinygrad_tf.kernels import _cache, _compile, _threads
from tinygrad_tf.kernels._compile import get_num_threads, kernel, parallel, set_num_threads
from tinygrad_tf.kernels._part import parallel_part, part

ROOT = Path(__file__).parents[1]
can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
this_thread = types.ExternalFunction("pthread_self", types.uintp())


@parallel
def count_visits(index, visits):
    visits[index] += 1


@parallel
def sum_parts(index, size, x, sums):
    total = x.dtype.type(0)
    for i in range(index * size, min((index + 1) * size, x.size)):
        total += x[i] * x[i]
    sums[index] = total


@parallel
def count_visits_twice(index, visits):
    count_visits(visits.shape[1], visits[index])


@parallel
def note_thread(index, rounds, seen, results):
    x = 1.0
    for _ in range(rounds):
        x = np.sqrt(x + index)
    seen[index], results[index] = this_thread(), x


@parallel
def take_long(index, rounds, results):
    x = 1.0
    for i in range(rounds[index]):
        x = np.sqrt(x + i)
    results[index] = x


@intrinsic
def where_references_are_counted(typing, array):
    def emit(context, builder, signature, args):
        counter = context.make_array(signature.args[0])(context, builder, args[0]).meminfo
        return builder.ptrtoint(counter, context.get_value_type(types.int64))

    return types.int64(array), emit


@parallel
def note_counters(index, lent, counters):
    own = np.empty(1)
    counters[index, 0], counters[index, 1] = where_references_are_counted(lent), where_references_are_counted(own)


@parallel
def do_nothing(index):
    pass


@parallel
def refuse_negative(index, x):
    if x[index] < 0:
        raise ValueError("a negative number")
    x[index] += 1


@pytest.fixture(autouse=True)
def keep_num_threads():
    before = get_num_threads()
    yield
    set_num_threads(before)


def visits_of(count):
    visits = np.zeros(count, np.int64)
    count_visits(count, visits)
    return visits


PARTS = ("__init__.py", "_memory.py", "_compile.py", "_cache.py", "_threads.py", "_pool.py", "_atomics.py")


def run_python(code, timeout=300, **environment):
    """Run a program in a process of its own; None removes a variable. Returns what it printed, and its stderr."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    variables = {name: value for name, value in variables.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code)],
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.strip(), done.stderr.strip()


# --- Threads ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 300), st.sampled_from([1, 2, 3, 5]))
def test_every_block_runs_exactly_once(count, num_threads):
    if num_threads != get_num_threads():
        set_num_threads(num_threads)
    assert (visits_of(count) == 1).all()


@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_loop_runs_on_as_many_threads_as_are_set(num_threads):
    set_num_threads(num_threads)
    everyone: set[int] = set()
    for _ in range(200):  # other processes may keep a worker off its core for a while
        seen = np.zeros(64, np.uintp)
        note_thread(64, 20_000, seen, np.empty(64))
        everyone.update(seen.tolist())
        if len(everyone) == num_threads:
            break
    assert len(everyone) == num_threads
    assert threading.get_ident() in everyone


def test_results_are_the_same_bits_for_any_number_of_threads():
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    results = []
    for num_threads in (1, 2, 3):
        set_num_threads(num_threads)
        sums = np.zeros(98, np.float32)
        sum_parts(98, 1024, x, sums)
        results.append(sums.tobytes())
    assert len(set(results)) == 1
    np.testing.assert_allclose(sums.sum(), np.square(x, dtype=np.float64).sum(), rtol=1e-5)


def test_loop_inside_a_block():
    for shape in ((5, 7), (1, 9), (9, 1), (40, 40)):
        visits = np.zeros(shape, np.int64)
        count_visits_twice(len(visits), visits)
        assert (visits == 1).all()


def test_blocks_count_no_references_to_what_is_lent_to_them():
    counters = np.ones((2, 2), np.int64)
    note_counters(2, np.ones(3), counters)
    assert (counters[:, 0] == 0).all()
    assert (counters[:, 1] != 0).all()


@pytest.mark.skipif(_cache.config.DISABLE_JIT, reason="needs the compiler")
def test_a_part_counts_no_references_and_so_cannot_make_arrays():
    @part()
    def make_array(x):
        x[0] = np.ones(3).sum()

    @kernel
    def calls_it(x):
        make_array(x)

    with pytest.raises(errors.NumbaError, match="Only accept returning of array passed into the function as argument"):
        calls_it(np.zeros(1))


@parallel_part
def square_or_refuse(index, add, x):
    if x[index] < 0:
        raise ValueError("a negative number")
    x[index] = x[index] * x[index] + add


@kernel
def square_all(x):
    square_or_refuse(x.size, 0, x)
    square_or_refuse(x.size, 1.5, x)
    return x.sum()


def test_a_loop_that_is_part_of_a_kernel():
    """It runs every block, on several threads, once for each kind of argument, and its errors are the kernel's."""
    for count in (0, 1, 20, 1000):
        x = np.arange(float(count))
        want = np.arange(float(count)) ** 4 + 1.5
        assert square_all(x) == pytest.approx(want.sum())
        assert np.array_equal(x, want)
    x = np.ones(50)
    x[30] = -2
    with pytest.raises(ValueError, match="a negative number"):
        square_all(x)
    assert x[:30].tolist() == [1] * 30
    with pytest.raises(TypeError, match="a parallel block takes"):
        parallel_part(lambda index, x=1: None)


@pytest.mark.skipif(_cache.config.DISABLE_JIT, reason="needs the compiler")
def test_constants_are_numbers_to_a_kernel_that_is_called():
    @kernel
    def inner(x, times, negative):
        return -x * times if negative else x * times

    @kernel
    def outer(x, n):
        return inner(x, 2, False), inner(x, 3, True), inner(x, n, n > 1)

    assert outer(5, 7) == (10, -15, -35)
    assert inner.signatures == [(types.int64, types.int64, types.boolean)]


def test_caller_waits_for_a_long_last_block():
    set_num_threads(2)
    rounds = np.array([20_000, 400_000])
    for _ in range(50):
        results = np.zeros(2)
        take_long(2, rounds, results)
        assert (results > 1).all()


def test_loop_without_arguments():
    for count in (0, 1, 2, 100):
        do_nothing(count)


def test_several_python_threads_at_once():
    wrong = []

    def call():
        for count in range(200):
            if not (visits_of(count) == 1).all():
                wrong.append(count)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        set_num_threads(2)  # restarts the workers under way
        set_num_threads(3)
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_nested_loop_while_the_workers_are_stopped():
    visits = np.zeros((20_000, 2), np.int64)
    count_visits_twice(len(visits), visits)
    stop = threading.Event()

    def call():
        while not stop.is_set():
            count_visits_twice(len(visits), visits)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    for pause in np.random.default_rng(0).uniform(0, 0.01, 60):
        set_num_threads(3)
        time.sleep(pause)
    stop.set()
    thread.join(120)
    assert not thread.is_alive()
    assert (visits == visits[0, 0]).all()


def test_many_short_loops():
    set_num_threads(2)
    visits = np.zeros(2, np.int64)
    for _ in range(100_000):
        count_visits(2, visits)
    assert (visits == 100_000).all()


def test_workers_sleep_and_wake():
    set_num_threads(3)
    visits = np.zeros(40, np.int64)
    pauses = np.random.default_rng(0).choice([0.0, 1e-5, 4e-5, 1e-4, 2e-3], 500)
    for pause in pauses:
        count_visits(40, visits)
        end = time.perf_counter() + pause
        while time.perf_counter() < end:
            time.sleep(0 if pause < 1e-3 else pause)
    assert (visits == len(pauses)).all()


def test_idle_workers_burn_no_time():
    set_num_threads(4)
    visits_of(40)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_error_in_a_block_is_raised_where_the_loop_was_started():
    for count, bad in ((20, 7), (1, 0), (20, 19)):
        x = np.zeros(count)
        x[bad] = -1
        with pytest.raises(ValueError, match="a negative number"):
            refuse_negative(count, x)
        others = np.delete(x, bad)
        assert (others == 1).all()
    x = np.zeros(20)
    refuse_negative(20, x)
    assert (x == 1).all()


@pytest.mark.parametrize("number", [0, -1, 1.5, "2", None, 10**6])
def test_num_threads_must_be_a_count(number):
    with pytest.raises(ValueError, match="num_threads must be an integer from 1 to 1024, got"):
        set_num_threads(number)


def test_num_threads_by_environment(monkeypatch):
    for text, expected in (("3", 3), (" 2 ", 2), ("", _threads.usable_cores())):
        monkeypatch.setenv("TINYGRAD_TF_NUM_THREADS", text)
        assert _threads._initial_threads() == expected
    for text in ("many", "0", "-1", "1.5"):
        monkeypatch.setenv("TINYGRAD_TF_NUM_THREADS", text)
        with pytest.raises(ValueError, match=r"TINYGRAD_TF_NUM_THREADS must be an integer from 1 to 1024, got"):
            _threads._initial_threads()
    code = "from tinygrad_tf.kernels._compile import get_num_threads; print(get_num_threads())"
    assert run_python(code, TINYGRAD_TF_NUM_THREADS="3")[0] == "3"


@pytest.mark.parametrize(
    ("setting", "printed"),
    [("0", "False"), (" 1 ", str(sys.platform.startswith("linux"))), ("no", "must be 0 or 1, got 'no'")],
)
def test_freed_memory_is_kept_unless_refused(setting, printed):
    code = """
        import tinygrad_tf  # which changes nothing yet
        try:
            from tinygrad_tf.kernels._compile import keep_freed_memory
            print(keep_freed_memory())
        except ValueError as error:
            print(error)
    """
    assert printed in run_python(code, TINYGRAD_TF_KEEP_MEMORY=setting)[0]


def test_blocks_take_plain_arguments_only():
    for block in (lambda: None, lambda index, *args: None, lambda index, x=1: None, lambda *, index: None):
        with pytest.raises(TypeError, match="a parallel block takes"):
            parallel(block)


FORK_PROGRAM = """
    import ctypes, os, threading, time, warnings
    import numpy as np
    from tinygrad_tf.kernels._compile import parallel, set_num_threads
    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of any fork where there are threads

    @parallel
    def count_visits(index, visits):
        visits[index] += 1

    def works(times=20):
        for count in range(times):
            visits = np.zeros(count, np.int64)
            count_visits(count, visits)
            if not (visits == 1).all():
                return False
        return True

    def child(body, fork=os.fork):
        number = fork()
        if number == 0:
            try:
                os._exit(0 if body() else 1)
            finally:
                os._exit(2)
        return os.waitpid(number, 0)[1]

    set_num_threads(3)
"""


@can_fork
def test_fork_after_use():
    body = """
    assert works()
    for awake in (True, False):
        assert child(works) == 0 and works()
        assert child(lambda: child(works) == 0 and works()) == 0
        if awake:
            time.sleep(0.01)
    stop = False

    def call():
        while not stop:
            works()

    busy = threading.Thread(target=call)
    busy.start()
    for _ in range(10):
        assert child(works) == 0
        assert works()
    stop = True
    busy.join()
    print("fine")
    """
    assert run_python(FORK_PROGRAM + body) == ("fine", "")


@can_fork
def test_fork_that_python_does_not_see():
    body = """
    import sys
    for awake in (True, False, True, False):
        assert works()
        if not awake:
            time.sleep(0.01)
        assert child(lambda: works() and set_num_threads(2) is None and works(), ctypes.CDLL(None).fork) == 0
    assert works()
    print("fine")
    """
    assert run_python(FORK_PROGRAM + body) == ("fine", "")


def test_process_ends_at_once_after_use():
    use = """
    import threading
    import numpy as np
    from tinygrad_tf.kernels._compile import parallel, set_num_threads

    @parallel
    def count_visits(index, visits):
        visits[index] += 1

    set_num_threads(3)
    count_visits(50, np.zeros(50))
    """
    forever = """
    def call():
        while True:
            count_visits(50, np.zeros(50))

    threading.Thread(target=call, daemon=True).start()
    """
    later = """
    import atexit

    def call():
        visits = np.zeros(50)
        count_visits(50, visits)
        assert (visits == 1).all()

    atexit.register(call)
    atexit._run_exitfuncs()
    call()
    """
    for program in (use, use + forever, use + later):
        assert run_python(program) == ("", "")


def test_interrupt_is_not_lost():
    body = """
    import os, signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without it
    start = _threads.pool._start
    _threads.pool._start = lambda: (os.kill(os.getpid(), signal.SIGINT), start())[1]
    visits = np.zeros(9)
    try:
        count_visits(9, visits)
        for _ in range(10_000):
            time.sleep(0.001)
    except KeyboardInterrupt:
        print("interrupted", visits.sum())
    """
    program = FORK_PROGRAM.replace("import parallel", "import _threads, parallel") + body
    if sys.platform != "win32":
        assert run_python(program) == ("interrupted 9.0", "")


# --- The cache --------------------------------------------------------------------------------------------------------


A_KERNEL = """
from tinygrad_tf.kernels._compile import kernel, parallel
from tinygrad_tf.kernels.helper import double


@parallel
def fill(index, out):
    for i in range(len(out)):
        out[i] = double(i) + 1
"""
HELPER = """
from tinygrad_tf.kernels._compile import kernel


@kernel
def double(x):
    return 2 * x


def make(step):
    @kernel
    def walk(x):
        for i in range(x % 1000):
            if x % 7 == 3:
                x += i * step
            elif x % 11 == 5:
                x ^= i + step
            for j in range(x % 5):
                x -= j * i if x % 13 == 2 else step
        return x + 1000 * step

    @kernel
    def walk_three_times(x):
        return walk(x) + walk(x + 1) + walk(x + 2)

    return walk_three_times


first, second = make(1), make(2)
"""
FILL = """
import numpy as np
from tinygrad_tf.kernels import _compile, a

_compile.on_compile(lambda: print("compiling"))
out = np.zeros(4, np.int64)
a.fill(1, out)
print(*out, _compile.compile_seconds() > 0)
"""


@pytest.fixture
def package(tmp_path):
    """A small package with the machinery of this one and two kernel files, and what runs a program with it."""
    folder = tmp_path / "tinygrad_tf" / "kernels"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for path in (ROOT / "tinygrad_tf" / "kernels").glob("_*.py"):
        if path.name in PARTS:
            shutil.copy(path, folder)
    (folder / "a.py").write_text(A_KERNEL)
    (folder / "helper.py").write_text(HELPER)

    def run(code, **environment):
        place = {"PYTHONPATH": str(tmp_path), "TINYGRAD_TF_CACHE": str(tmp_path / "cache")}
        return run_python(code, **{**place, **environment})

    run.folder, run.cache = folder, tmp_path / "cache"
    return run


def test_kernels_are_kept_and_never_stale(package):
    assert package(FILL) == ("compiling\n1 3 5 7 True", "")
    assert package(FILL) == ("1 3 5 7 False", "")
    (package.folder / "helper.py").write_text(HELPER.replace("2 * x", "3 * x"))
    assert package(FILL) == ("compiling\n1 4 7 10 True", "")
    (package.folder / "helper.py").write_text(HELPER)
    assert package(FILL) == ("1 3 5 7 False", "")


def test_damaged_entries_are_compiled_anew(package):
    package(FILL)
    entries = list(package.cache.rglob("*.bin"))
    assert len(entries) >= 2
    for number, entry in enumerate(entries):
        content = entry.read_bytes()
        entry.write_bytes([b"", content[: len(content) // 2], bytes(len(content))][number % 3])
    assert package(FILL) == ("compiling\n1 3 5 7 True", "")
    assert package(FILL) == ("1 3 5 7 False", "")


def test_kernels_of_a_factory_are_told_apart_by_every_process(package):
    code = "from tinygrad_tf.kernels import helper, _compile; print(helper.{}(12345), end=' ')"
    show = "; print(_compile.compile_seconds() > 0)"
    alone = [package(code.format(name) + show, PYTHONHASHSEED="0")[0] for name in ("first", "second")]
    one, two = (line.split()[0] for line in alone)
    assert one != two and all(line.endswith("True") for line in alone)
    for names, expected in ((("first", "second"), f"{one} {two} False"), (("second", "first"), f"{two} {one} False")):
        both = "\n".join(code.format(name) for name in names)
        assert package(both + show, PYTHONHASHSEED="0")[0] == expected


def test_processes_may_share_a_cold_cache(package):
    results = []
    threads = [threading.Thread(target=lambda: results.append(package(FILL))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out.split("\n")[-1][:8] for out, _ in results] == ["1 3 5 7 "] * 3
    assert {err for _, err in results} == {""}
    assert package(FILL) == ("1 3 5 7 False", "")
    assert not list(package.cache.rglob("*.tmp"))


def test_cache_that_cannot_be_written(package, tmp_path):
    (tmp_path / "file").write_text("in the way")
    out, err = package(FILL, TINYGRAD_TF_CACHE=str(tmp_path / "file" / "cache"))
    assert out == "compiling\n1 3 5 7 True"
    assert err.startswith("compiled kernels cannot be kept") and err.count("\n") == 0
    assert "TINYGRAD_TF_CACHE" in err


def test_no_home(package):
    nobody = "import os.path\nos.path.expanduser = lambda path: path\n"  # what it does where no user is known
    gone = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA", "TINYGRAD_TF_CACHE"))
    assert package(nobody + FILL, **gone) == ("compiling\n1 3 5 7 True", "")


def test_kernels_of_other_files_are_not_kept(package):
    code = FILL.replace("a.fill(1, out)", "@_compile.kernel\ndef three():\n    return 3\n\nassert three() == 3")
    assert package(code)[0] == "compiling\n0 0 0 0 True"
    assert not list(package.cache.rglob("*three*"))


def test_code_is_not_kept_under_the_hash_of_an_older_source(package):
    edit = f"open({str(package.folder / 'helper.py')!r}, 'a').write('# edited')\n"
    assert package(FILL.replace("a.fill", edit + "a.fill"))[0] == "compiling\n1 3 5 7 True"
    assert not list(package.cache.rglob("a.fill*"))


def test_place_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path))
    assert _cache.cache_root() == tmp_path
    monkeypatch.setenv("TINYGRAD_TF_CACHE", "")
    monkeypatch.setattr(_cache.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert _cache.cache_root() == tmp_path / "xdg" / "tinygrad_tf"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _cache.cache_root() == tmp_path / ".cache" / "tinygrad_tf"
    monkeypatch.setattr(_cache.sys, "platform", "darwin")
    assert _cache.cache_root() == tmp_path / "Library" / "Caches" / "tinygrad_tf"


def test_hash_of_the_sources(tmp_path):
    assert _cache.source_hash(tmp_path) is None
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 1")
    seen = {_cache.source_hash(tmp_path), _cache.source_hash(tmp_path)}
    assert len(seen) == 1
    (tmp_path / "a.py").write_text("x = 2")
    seen.add(_cache.source_hash(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "c.py")
    seen.add(_cache.source_hash(tmp_path))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "d.py").touch()
    seen.add(_cache.source_hash(tmp_path))
    assert len(seen) == 4 and None not in seen


def test_old_folders_are_removed(tmp_path):
    folders = [tmp_path / f"kernels-{number:020x}" for number in range(7)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        (folder / "entry.bin").touch()
        os.utime(folder, (10**9 - age, 10**9 - age))
    others = [tmp_path / "kernels-mine", tmp_path / "notes"]
    for other in others:
        other.mkdir()
        os.utime(other, (1, 1))
    _cache._remove_old_folders(folders[-1])
    assert sorted(tmp_path.iterdir()) == sorted([*folders[: _cache.FOLDERS_KEPT], folders[-1], *others])


LEVEL = 1


@kernel
def level():
    return LEVEL


def test_fingerprint_sees_what_a_kernel_depends_on(monkeypatch):
    def make(value, call):
        def function(x):
            return call(x) + value

        return function

    plain = make(1, len)
    assert _cache.fingerprint(plain) == _cache.fingerprint(make(1, len))
    different = [plain, make(2, len), make(1, abs), make((1, 2), len), make(1, kernel(plain)), make(1, level)]
    seen = {_cache.fingerprint(function) for function in different}
    monkeypatch.setattr(sys.modules[__name__], "LEVEL", 2)
    seen.add(_cache.fingerprint(make(1, level)))
    assert len(seen) == len(different) + 1
    endless = make(1, None)
    endless.__closure__[0].cell_contents = endless
    assert _cache.fingerprint(endless)


def test_only_kernels_count_as_compiling():
    import numba

    before = _compile.compile_seconds()
    called = []
    _compile.on_compile(lambda: called.append(1))
    numba.njit(lambda x: x)(1)
    assert _compile.compile_seconds() == before and not called
    inner = kernel(lambda x: x + 1)

    @kernel
    def outer(x):
        return inner(x)

    started = time.perf_counter()
    assert outer(1) == 2 and outer(1.0) == 2
    assert 0 < _compile.compile_seconds() - before <= time.perf_counter() - started
    assert called == [1]


def test_without_the_compiler():
    code = """
        import numpy as np
        from tinygrad_tf.kernels._compile import kernel, parallel
        from tinygrad_tf.kernels._part import parallel_part
        out = np.zeros(4)
        parallel(lambda index, out: out.__setitem__(index, kernel(lambda x: 2 * x)(index)))(4, out)
        parallel_part(lambda index, out: out.__setitem__(index, out[index] + 1))(4, out)
        print(*out)
    """
    assert run_python(code, NUMBA_DISABLE_JIT="1") == ("1.0 3.0 5.0 7.0", "")


def test_profilers_are_told_the_names_of_kernels():
    """Loops are compiled from a line of source that is made up; to a profiler all of them would be one function."""
    code, block = sum_parts.py_func.__code__, sum_parts.py_func
    assert code.co_name == block.__name__ == "sum_parts"
    assert code.co_filename == __file__ and code.co_firstlineno > 30
