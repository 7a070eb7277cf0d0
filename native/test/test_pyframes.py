"""Compares the frames that native/pyframes reads with what Python itself says. Usage: test_pyframes.py PROBE_LIBRARY

Runs under every interpreter from 3.8 on; native/test/pyframes.sh finds those of the machine.
"""

import ctypes
import functools
import importlib
import os
import subprocess
import sys
import threading
import types
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
free = ctypes.CDLL(LIBRARY)  # gives the GIL back during a call
held = ctypes.PyDLL(LIBRARY)
held.probe_problem.restype = ctypes.c_char_p
free.probe_cost.restype = ctypes.c_double
held.probe_line.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
TEXT_MAX = 511  # bytes: MS_PY_TEXT less the terminator


def setUpModule():
    held.probe_stack(0, None, 0)  # looks for the interpreter


def frames_of(frame):
    out = []
    while frame:
        out.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back
    return out


def both(library=free, most=1000):
    """(frames by the probe, frames by Python) of the caller's caller and further out."""
    buffer = ctypes.create_string_buffer(1 << 20)
    count = library.probe_stack(most, buffer, len(buffer))
    lines = buffer.value.decode().splitlines()
    assert count == len(lines), (count, lines[-1:], held.probe_problem())
    return lines[1:], frames_of(sys._getframe(1))


class Frames(unittest.TestCase):
    def same(self, pair):
        self.assertEqual(pair[0], pair[1][: len(pair[0])])
        self.assertEqual(len(pair[0]), len(pair[1]))

    def test_with_and_without_the_gil(self):
        self.same(both(free))
        self.same(both(held))

    def test_kinds_of_code(self):
        class Body:
            pair = both()

            def method(self):
                return both()

            def __getattr__(self, name):
                return both()

        def generator():
            yield both()
            yield both()

        async def coroutine():
            return both()

        self.same(Body.pair)
        self.same(Body().method())
        self.same(Body().missing)
        for pair in generator():
            self.same(pair)
        try:
            coroutine().send(None)
        except StopIteration as end:
            self.same(end.value)
        self.same((lambda: both())())
        self.same([both() for _ in range(2)][1])
        self.same(next(both() for _ in range(2)))
        self.same(functools.partial(both, free)())
        self.same(eval("both()"))

    def test_through_c_and_back(self):
        pairs = []
        sorted([2, 1], key=lambda x: pairs.append(both()) or x)
        list(map(lambda x: pairs.append(both()), [1]))
        callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: pairs.append(both()) or 0)
        callback()
        self.assertEqual(len(pairs), 4)
        for pair in pairs:
            self.same(pair)

    def test_lines_of_long_statements(self):
        self.same(
            (
                lambda: (
                    0,
                    both(),
                )[1]
            )()
        )
        for attempt in range(2):
            try:
                if attempt:
                    raise ValueError
            except ValueError:
                with open(os.devnull):
                    self.same(both(free))
            finally:
                self.same(both())

    def test_names_that_are_not_ascii(self):
        for name in ("größe", "Ωmega_д", "变量", "𝒳x", "f" * 3000, "变" * 1000):
            scope = {"both": both}
            source = "\n" * 70000 + f"def {name}():\n  return both()"
            exec(compile(source, f"/tmp/{name}.py", "exec"), scope)
            mine, python = next(v for k, v in scope.items() if isinstance(v, types.FunctionType) and k != "both")()
            if len(name) < 100:
                self.assertEqual(mine, python)
                continue
            function = mine[0].split(": ")[1]
            self.assertTrue(name.endswith(function))
            self.assertLessEqual(TEXT_MAX - 4, len(function.encode()) + 3)
            self.assertLessEqual(len(function.encode()), TEXT_MAX)

    def test_depth(self):
        def down(n):
            return down(n - 1) if n else both(free, 20)

        mine, python = down(100)
        self.assertEqual(mine, python[:19])

    def test_other_threads(self):
        def run(depth, library, pairs):
            if depth:
                run(depth - 1, library, pairs)
            else:
                pairs.append(both(library))

        for library in (free, held):
            pairs = []
            threads = [threading.Thread(target=run, args=(n * 7, library, pairs)) for n in range(6)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(len(pairs), 6)
            for pair in pairs:
                self.same(pair)

    def test_every_line_of_the_library(self):
        """Line tables, instruction by instruction, over code that people have written."""
        todo, lines = [], 0
        for name in ("argparse", "typing", "inspect", "subprocess", "decimal", "_pydecimal", "dataclasses", "tarfile"):
            module = importlib.import_module(name)
            with open(module.__file__, encoding="utf-8") as source:
                todo.append(compile(source.read(), module.__file__, "exec"))
        for code in todo:
            todo.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
            if hasattr(code, "co_lines"):
                expected = {}
                for start, end, line in code.co_lines():
                    for offset in range(start, end, 2):
                        expected[offset] = code.co_firstlineno if line is None else line
            else:
                import dis

                expected, line, starts = {}, code.co_firstlineno, dict(dis.findlinestarts(code))
                for offset in range(0, len(code.co_code), 2):
                    line = starts.get(offset, line)
                    expected[offset] = line
            for offset, line in expected.items():
                lines += 1
                self.assertEqual(held.probe_line(id(code), offset, 0), line, (code, offset))
            last = max(expected)
            self.assertEqual(held.probe_line(id(code), last, 1), expected[last])
        self.assertGreater(lines, 50000)

    def test_identity(self):
        """Code objects that follow each other at one address are told apart."""
        seen = {}
        for i in range(200):
            scope = {"probe": free.probe_identity}
            exec(compile("def f():\n  return probe()", f"cell-{i:04}", "exec"), scope)
            seen.setdefault(id(scope["f"].__code__), []).append(scope["f"]())
            scope.clear()  # the function with it: its address is free again
        self.assertTrue(any(len(identities) > 1 for identities in seen.values()))
        for identities in seen.values():
            for one, next_one in zip(identities, identities[1:]):
                self.assertNotEqual(one, next_one)

    def test_daemons_at_the_end(self):
        """Threads that walk without the GIL while the interpreter ends."""
        script = (
            "import ctypes, sys, threading, time\n"
            "probe = ctypes.CDLL(sys.argv[1])\n"
            "text = ctypes.create_string_buffer(100000)\n"
            "probe.probe_stack(10, text, 100000)\n"
            "def deep(n): return deep(n - 1) if n else probe.probe_forever()\n"
            "for i in range(6): threading.Thread(target=deep, args=(i * 20,), daemon=True).start()\n"
            "time.sleep(0.02)\n"
        )
        for _ in range(int(os.environ.get("PYFRAMES_ENDS", "5"))):
            done = subprocess.run([sys.executable, "-c", script, LIBRARY], stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_cost(self):
        def down(n, library):
            return down(n - 1, library) if n else library.probe_cost(20, 20000)

        costs = [down(30, free)]
        held.probe_cost.restype = ctypes.c_double
        costs.append(down(30, held))
        out = []
        thread = threading.Thread(target=lambda: out.append(free.probe_cost(20, 1000)))
        thread.start()
        thread.join()
        print(
            f"python {sys.version_info[0]}.{sys.version_info[1]}: 20 frames without the GIL {costs[0]:.0f} ns, "
            f"with it {costs[1]:.0f} ns; another thread {out[0]:.0f} ns"
        )


if __name__ == "__main__":
    unittest.main()
