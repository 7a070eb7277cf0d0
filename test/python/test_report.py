"""What a program reports of itself: snapshots, labels, ranges and the trace of functions, the sanitizer, watching."""

import contextlib
import glob
import os
import re
import sqlite3
import unittest

from harness import Case

BEGIN = """
msmemscope.config(output_path="out")
msmemscope.start()
"""


class Snapshot(Case):
    def test_rows(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            a = torch.empty(1 << 18, device="npu:0")
            b = torch.empty(1 << 18, device="npu:0")
            del b
            msmemscope.take_snapshot(name="mine")
            msmemscope.take_snapshot(0, name="number")
            msmemscope.take_snapshot([1, 0], name="list")
            msmemscope.take_snapshot((0,), name="tuple")
            msmemscope.take_snapshot(1, name="not the current one")
            """
        )
        rows = [r for r in run.rows() if r["Event"] == "SNAPSHOT"]
        self.assertEqual([r["Name"] for r in rows], ["mine", "number", "list", "tuple"])
        row = rows[0]
        self.assertEqual((row["Event Type"], row["Device Id"], row["Ptr"]), ("SNAPSHOT", "0", "N/A"))
        self.assertEqual(
            list(row["Attr"]),
            [
                "total_mem",
                "free_mem",
                "reserved",
                "peak_reserved",
                "allocated",
                "peak_allocated",
                "device_utilization",
                "pt_utilization",
            ],
        )
        attr = row["Attr"]
        self.assertEqual(attr["allocated"], str(1 << 20))
        self.assertEqual(attr["peak_allocated"], str(2 << 20))
        self.assertEqual(int(attr["total_mem"]), 64 << 30)
        self.assertEqual(attr["pt_utilization"], f"{(1 << 20) / int(attr['reserved']):.6f}")
        used = (int(attr["total_mem"]) - int(attr["free_mem"])) / int(attr["total_mem"])
        self.assertEqual(attr["device_utilization"], f"{used:.6f}")

    def test_none_is_every_device_of_the_process(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            a = torch.empty(10, device="npu:1")
            msmemscope.take_snapshot()
            """
        )
        self.assertEqual(sorted(r["Device Id"] for r in run.rows() if r["Event"] == "SNAPSHOT"), ["0", "1"])

    def test_bad_masks_and_names(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            torch.npu.set_device(0)
            for mask in ("0", 1.5, [0, "x"], True):
                msmemscope.take_snapshot(mask, name="current")
            for call in (msmemscope.take_snapshot, msmemscope.TakeSnapshot):
                try:
                    call(name=3)
                except TypeError as e:
                    print(e)
            """
        )
        self.assertEqual(run.out.count("[msmemscope]: Invalid device mask, using current device!"), 4)
        self.assertEqual(len([r for r in run.rows() if r["Event"] == "SNAPSHOT"]), 4)
        self.assertEqual(run.out.count("must be a string, not int"), 2)

    def test_around(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            with msmemscope.TakeSnapshot(name="load"):
                a = torch.empty(10, device="npu:0")
            @msmemscope.TakeSnapshot(None, "call")
            def call():
                return 5
            assert call() == 5
            with msmemscope.TakeSnapshot():
                pass
            """
        )
        self.assertEqual(
            [r["Name"] for r in run.rows() if r["Event"] == "SNAPSHOT"],
            ["load Start", "load End", "call Start", "call End", "Memory Snapshot Start", "Memory Snapshot End"],
        )

    def test_without_torch(self):
        run = self.run_script(
            """
            import sys
            import msmemscope
            sys.modules["torch_npu"] = None
            try:
                msmemscope.take_snapshot()
            except ImportError as e:
                print(e)
            """,
            prelude="",
        )
        self.assertIn("torch_npu", run.out)


class Labels(Case):
    def owners(self, script, analysis="decompose"):
        run = self.run_script(
            f"""
import msmemscope.describe as describe
msmemscope.config(output_path="out", analysis="{analysis}", events="alloc,free")
msmemscope.start()
"""
            + script,
        )
        rows = [r for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]
        return [r["Attr"].get("owner") for r in rows]

    def test_three_ways(self):
        owners = self.owners(
            """
@describe.describer(owner="test1")
def train1():
    return torch.empty(10, 10, device="npu:0")
a = train1()
with describe.describer(owner="test2"):
    b = torch.empty(10, 10, device="npu:0")
describe.describer(owner="test3").__enter__()
c = torch.empty(10, 10, device="npu:0")
describe.describer(owner="test3").__exit__()
t = torch.randn(10, 10).to("npu:0")
describe.describer(t, owner="test4")
d = torch.empty(10, 10, device="npu:0")
"""
        )
        self.assertEqual(owners, ["PTA@test1", "PTA@test2", "PTA@test3", "PTA@ops@test4", "PTA"])

    def test_nesting_and_levels(self):
        owners = self.owners(
            """
with describe.describer(owner="a"), describe.describer(owner="b"):
    x = torch.empty(10, device="npu:0")
describe.describe_label("model", describe.COMPONENT)
describe.describe_label("forward", describe.PROCESS)
y = torch.empty(10, device="npu:0")
describe.undescribe_label("forward", describe.PROCESS)
describe.undescribe_label("model", describe.COMPONENT)
z = torch.empty(10, device="npu:0")
describe.describe_addr(z.data_ptr(), [("kv", describe.DETAIL_1), ("mine", describe.USER_DEFINED_1)])
"""
        )
        self.assertEqual(owners, ["PTA@a@b", "PTA@model@forward", "PTA@kv@mine"])

    def test_errors(self):
        run = self.run_script(
            """
            import msmemscope.describe as describe
            for call in (
                lambda: describe.describer(object(), owner="x"),
                lambda: describe.describer(owner=3),
                lambda: describe.describer(owner=""),
                lambda: describe.describer(owner="x" * 129),
                lambda: describe.describer(-1, owner="x"),
                lambda: describe.describe_label("x", 5),
                lambda: describe.describe_label("x", "1"),
                lambda: describe.describe_addr(1, "x"),
                lambda: describe.describe_addr(1, [("x", 8)]),
            ):
                try:
                    call()
                    print("nothing")
                except Exception as e:
                    print(type(e).__name__)
            describe.describer(owner="x" * 128)
            """
        )
        self.assertEqual(
            run.out.split(),
            [
                "NotImplementedError",
                "TypeError",
                "ValueError",
                "ValueError",
                "ValueError",
                "ValueError",
                "TypeError",
                "TypeError",
                "ValueError",
            ],
        )


class Trace(Case):
    def test_ranges(self):
        run = self.run_script(
            BEGIN
            + """
torch.npu.set_device(0)
with msmemscope.RecordFunction("range, with a comma"):
    with msmemscope.RecordFunction("inner"):
        t = torch.empty(10, device="npu:0")
@msmemscope.RecordFunction("decorated")
def f(x):
    return x + 1
assert f(1) == 2 and f.__name__ == "f"
msmemscope.stop()
with msmemscope.RecordFunction("paused"):
    pass
"""
        )
        rows = run.traces()
        self.assertEqual([r["FuncInfo"] for r in rows], ["inner", "range, with a comma", "decorated"])
        self.assertGreaterEqual(int(rows[0]["StartTime(ns)"]), int(rows[1]["StartTime(ns)"]))
        self.assertLessEqual(int(rows[0]["EndTime(ns)"]), int(rows[1]["EndTime(ns)"]))
        (malloc,) = [r for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]
        inner = rows[0]
        self.assertTrue(int(inner["StartTime(ns)"]) < int(malloc["Timestamp(ns)"]) < int(inner["EndTime(ns)"]))
        self.assertEqual(inner["Thread Id"], malloc["Thread Id"])

    def test_range_errors(self):
        run = self.run_script(
            """
            for name in (3, "x" * 129):
                try:
                    msmemscope.RecordFunction(name)
                except (TypeError, ValueError) as e:
                    print(type(e).__name__)
            class Own(msmemscope.RecordFunction):
                pass
            with Own("own") as own:
                print(type(own).__name__)
            try:
                with msmemscope.RecordFunction("fails"):
                    raise KeyError
            except KeyError:
                print("KeyError")
            unmade = msmemscope.RecordFunction.__new__(msmemscope.RecordFunction)
            try:
                with unmade:
                    pass
            except AttributeError:  # in Python; in C its name is empty
                pass
            try:
                msmemscope.RecordFunction.__enter__(3)
            except (AttributeError, TypeError):
                print("no range")
            """
        )
        self.assertEqual(run.out.split(), ["TypeError", "ValueError", "Own", "KeyError", "no", "range"])

    def test_functions(self):
        run = self.run_script(
            """
            import threading
            def helper():
                return len([1])
            def main_function():
                helper()
                torch.nn.Linear(4, 4)(torch.randn(2, 4))
                try:
                    failing()
                except KeyError:
                    pass
            def failing():
                raise KeyError
            def in_thread():
                helper()
            msmemscope.config(output_path="out", events="alloc,free,traceback")
            torch.npu.set_device(0)
            def run():
                msmemscope.start()
                main_function()
                t = threading.Thread(target=in_thread)
                t.start()
                t.join()
                open_at_stop()
            def open_at_stop():
                msmemscope.stop()
            run()
            main_function()
            """
        )
        rows = run.traces()
        names = [re.sub(r"^.*/script.py", "script.py", r["FuncInfo"]) for r in rows]
        short = [n.rpartition(": ")[2] for n in names]
        self.assertEqual(short.count("main_function"), 1, "not after stop()")
        self.assertEqual(short.count("helper"), 2)
        self.assertEqual(short.count("in_thread"), 1)
        self.assertIn("<built-in function len>", short)
        self.assertIn("nn.Module: Linear", names)
        by = {n.rpartition(": ")[2]: r for n, r in zip(names, rows)}
        self.assertNotEqual(by["in_thread"]["Thread Id"], by["main_function"]["Thread Id"])
        for name in ("main_function", "helper", "failing", "in_thread"):
            self.assertLess(int(by[name]["StartTime(ns)"]), int(by[name]["EndTime(ns)"]))
        self.assertEqual(by["open_at_stop"]["EndTime(ns)"], "N/A")
        self.assertTrue(
            any(n.endswith("start: script.py(1): <module>") or "start: " in n for n in [r["FuncInfo"] for r in rows])
        )
        self.assertFalse([n for n in names if "msmemscope/" in n], "nothing of ours")

    def test_in_a_database(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out", format="db")
            torch.npu.set_device(0)
            msmemscope.start()
            with msmemscope.RecordFunction("range, with a comma"):
                t = torch.empty(10, device="npu:0")
            msmemscope.stop()
            """
        )
        (path,) = glob.glob(os.path.join(run.projects()[0], "device_0", "dump", "*"))
        self.assertRegex(path, r"memscope_dump_\d+\.db$")
        with contextlib.closing(sqlite3.connect(path)) as db:
            pid = db.execute('SELECT "Process Id" FROM memscope_dump LIMIT 1').fetchone()[0]
            ((name, start, end, thread, process),) = db.execute(f"SELECT * FROM python_trace_{pid}").fetchall()
        self.assertEqual((name, thread, process), ("range, with a comma", pid, pid))
        self.assertLess(int(start), int(end))
        self.assertIn(f"create dbtable python_trace_{pid} in {path}", run.out)

    def test_tracer_by_hand(self):
        run = self.run_script(
            BEGIN
            + """
import sys
torch.npu.set_device(0)
def f(): pass
def g(): pass
msmemscope.tracer.stop()
msmemscope.tracer.start()
msmemscope.tracer.start()
f()
msmemscope.tracer.stop()
g()
sys.setprofile(lambda *a: None)
msmemscope.tracer.start()
sys.setprofile(None)
"""
        )
        names = [r["FuncInfo"].rpartition(": ")[2] for r in run.traces()]
        self.assertIn("f", names)
        self.assertNotIn("g", names)
        self.assertIn("[msmemscope] Warn: The tracer is not start.", run.out)
        self.assertIn("There is already an active PythonTracer", run.out)
        self.assertIn("Another profiler is active", run.out)

    def test_below_dispatch_nothing(self):
        run = self.run_script(
            """
            from torch.utils._python_dispatch import TorchDispatchMode
            class Mode(TorchDispatchMode):
                def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                    inside()
                    return func(*args, **(kwargs or {}))
            def inside(): pass
            def outside(): pass
            msmemscope.config(output_path="out", events="alloc,free,traceback")
            torch.npu.set_device(0)
            msmemscope.start()
            with Mode():
                torch.randn(2, device="npu:0")
            outside()
            """
        )
        names = [r["FuncInfo"].rpartition(": ")[2] for r in run.traces()]
        self.assertIn("__torch_dispatch__", names)
        self.assertNotIn("inside", names)
        self.assertIn("outside", names)


class Sanitizer(Case):
    def test_marks(self):
        run = self.run_script(
            """
            from torch_npu.npu import _sanitizer
            mstx.mark("sanitizer-op: name=early;read=a:1:2", 5)
            msmemscope.enable_npu_sanitizer()
            assert _sanitizer.npu_sanitizer.enabled
            mstx.mark("sanitizer-op: name=my.op;read=a:0x10:8,b:32:4;write=a:16:8,long" + "x" * 40 + ":48:4", 7)
            mstx.mark("sanitizer-op: read=a:1:2", 7)
            mstx.mark("sanitizer-op: name=partly;read=:1:2,a:x:3,ok:5:6", 7)
            mstx.mark("sanitizer-op: name=" + "x" * 1100, 7)
            for launch in _sanitizer.launches:
                print(launch)
            try:
                mstx.mark("sanitizer-op: name=race", 7)
                for _ in range(3):
                    pass
                print("nothing raised")
            except _sanitizer.CUDASanitizerErrors as e:
                print("raised", e.errors)
            """
        )
        lines = run.out.splitlines()
        long = "long" + "x" * 27
        self.assertEqual(
            lines[0], f"(7, {{32}}, {{16, 48}}, set(), 'my.op', {{16: ['a'], 32: ['b'], 48: ['{long}']}}, set())"
        )
        self.assertEqual(lines[1], "(7, {5}, set(), set(), 'partly', {5: ['ok']}, set())")
        self.assertEqual(lines[2], "raised ['a race in race']")
        self.assertIn("a race in race", run.err)
        self.assertEqual(run.err.count("is passed over"), 2)
        self.assertIn("without name=", run.err)
        self.assertIn("at most 1024", run.err)

    def test_any_text(self):
        """Whatever a message says, the parser neither fails nor lets anything through that is not well-formed."""
        run = self.run_script(
            """
            import contextlib, io, random, re
            from msmemscope import sanitizer
            rng = random.Random(1)
            good = "sanitizer-op: name=my.op;read=a:0x10:8,b:32:4;write=a:16:8,c:0:1"
            alphabet = "a:;,=0x9-_ \\t\\0\u00e9\u6c49" + good
            for _ in range(20000):
                text = list(good)
                for _ in range(rng.randint(1, 8)):
                    at = rng.randrange(len(text) + 1)
                    text[at : at + rng.randint(0, 4)] = rng.choices(alphabet, k=rng.randint(0, 4))
                with contextlib.redirect_stderr(io.StringIO()):
                    name, reads, writes = sanitizer.parse("".join(text))
                for alias, address, size in reads + writes:
                    assert alias and len(alias.encode()) <= 31 and address >= 0 and size >= 0, text
            with contextlib.redirect_stderr(io.StringIO()):
                for item in ("a:-5:8", "a:1_0:8", "a:0b1:8", "a:1:", ":1:1", "a:1", "a:1:1:1", "a:0x:1"):
                    assert sanitizer.parse("sanitizer-op: name=x;read=" + item)[1] == [], item
            print(sanitizer.parse("sanitizer-op: name=x;read=a:0X1f:010")[1])
            """
        )
        self.assertEqual(run.out, "[('a', 31, 10)]\n")


class Log(Case):
    def test_one_log(self):
        """What the agent, the collector and the module have to say is in one log."""
        run = self.run_script(
            """
import os
os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,x"  # for the agent, not for the stack
"""
            + BEGIN
            + """
del os.environ["ASCEND_RT_VISIBLE_DEVICES"]
t = torch.empty(10, device="npu:0")
msmemscope.tracer.stop()
msmemscope.init_framework_hooks("pytorch", "2.6-2.9", "fsdp2", "decompose")
msmemscope.take_snapshot("0")
msmemscope.stop()
msmemscope.config(analysis="decompose", output_path="other")
msmemscope.start()
msmemscope.stop()
torch.__version__ = "2.2.0"
msmemscope.config()
msmemscope.start()
""",
        )
        (project,) = run.projects()
        log = "\n".join(run.log())
        self.assertIn("[WARN]  [target] The tracer is not start.", log)
        self.assertIn("[INFO]  [target] Hijack functions registered successfully", log)
        self.assertEqual(log.count("[INFO]  [target] Start tracing."), 3)
        self.assertEqual(log.count("[INFO]  [target] Stop tracing."), 2)
        self.assertIn("[INFO]  [target] Enable optimizer step hook.", log)
        self.assertIn("[WARN]  [target] Invalid device mask, using current device!", log)
        self.assertIn("can only be set once", log)
        self.assertIn("Invalid format for ASCEND_RT_VISIBLE_DEVICES:0,x", log)
        self.assertIn("Msmemscope starts executing commands", log)


class Watch(Case):
    def test_dumps(self):
        """What an operator writes is watched from its end to that of another, and what the program registers."""
        self.run_script(
            """
            a = torch.empty(16, device="npu:0")
            b = a + a
            msmemscope.watcher.watch(a, name="mine", dump_nums=2)
            c = a + a
            b.add_(a)
            msmemscope.watcher.remove(a)
            c = a + a
            """,
            launcher="--watch=torch._ops.aten.add.Tensor,torch._ops.aten.add_.Tensor",
        )
        (path,) = glob.glob(
            os.path.join(self.directory, "memscopeDumpResults", "watch_dump", "watch_dump_data_check_sum_0_*.csv")
        )
        with open(path, encoding="utf-8") as file:
            lines = [re.sub(r"^0_\d+/torch._ops.aten.", "", line.split(",")[0]) for line in file][1:]
        window = "torch._ops.aten.add.Tensor_0"
        self.assertEqual(
            lines,
            [
                f"add.Tensor_1-{window}_after.bin",
                f"add.Tensor_2-{window}_before.bin",
                "add.Tensor_2-mine_0_before.bin",
                f"add.Tensor_2-{window}_after.bin",
                "add.Tensor_2-mine_0_after.bin",
                f"add_.Tensor_1-{window}_before.bin",
                f"add_.Tensor_1-{window}_after.bin",
                f"add.Tensor_2-{window}_after.bin",  # the second window, of which it is the first dump
            ],
        )

    def test_address(self):
        """Memory by address and length: the bytes that lie there, as often as asked for."""
        self.run_script(
            """
            a, b = torch.empty(16, device="npu:0"), torch.empty(16, device="npu:0")
            msmemscope.watcher.watch(a.data_ptr(), length=24, name="head", dump_nums=3)
            msmemscope.watcher.watch(a.data_ptr() + 8, length=5, name="inside", dump_nums=-1)
            msmemscope.watcher.watch(b.data_ptr(), length=8, name="never", dump_nums=0)
            b + b
            b + b
            msmemscope.watcher.remove(a.data_ptr() + 8, length=5)
            msmemscope.watcher.remove(a.data_ptr(), length=24)
            b + b
            """,
            launcher="--watch=,never,full-content",
        )
        sizes = {}
        for path in glob.glob(os.path.join(self.directory, "memscopeDumpResults", "watch_dump", "*")):
            sizes[re.sub(r"^0_\d+_torch._ops.aten.", "", os.path.basename(path))] = os.path.getsize(path)
        expected = {}
        for number in 1, 2:
            for side in "before", "after":
                expected[f"add.Tensor_{number}-inside_0_{side}.bin"] = 5
                if (number, side) != (2, "after"):
                    expected[f"add.Tensor_{number}-head_0_{side}.bin"] = 24
        self.assertEqual(sizes, expected)

    def test_errors(self):
        run = self.run_script(
            """
            t = torch.empty(10, device="npu:0")
            w = msmemscope.watcher
            for call in (
                lambda: w.watch(t),
                lambda: w.watch(t, dump_nums=1),
                lambda: w.watch(t, name=3),
                lambda: w.watch(t, name="x" * 65),
                lambda: w.watch(name="x"),
                lambda: w.watch(t, t, name="x"),
                lambda: w.watch("t", name="x"),
                lambda: w.watch(t, name="x", length=3),
                lambda: w.watch(0, name="x", length=3),
                lambda: w.watch(1, name="x", length=0),
                lambda: w.watch(1, name="x", length="3"),
                lambda: w.watch(t, name="x", dump_nums=-2),
                lambda: w.watch(t, name="x", depth=1),
                lambda: w.remove(),
                lambda: w.remove("t"),
                lambda: w.remove(1, length=-1),
                lambda: w.remove(t, name="x"),
            ):
                try:
                    call()
                    print("nothing")
                except (TypeError, ValueError) as e:
                    print(type(e).__name__)
            """
        )
        self.assertEqual(run.out.split(), ["TypeError"] * 3 + ["ValueError"] + ["TypeError"] * 13)


if __name__ == "__main__":
    unittest.main()
