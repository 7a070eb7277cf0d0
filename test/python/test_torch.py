"""What is collected from torch: operators and accesses, optimizer steps, tensors of the host."""

import os
import unittest

from harness import ROOT, Case


def operators(run):
    """(event type, name) of each OP_LAUNCH row."""
    return [(r["Event Type"], r["Name"].rpartition("aten.")[2]) for r in run.rows() if r["Event"] == "OP_LAUNCH"]


def accesses(run):
    """(kind, operator) of each ACCESS row."""
    return [(r["Event Type"], r["Name"].rpartition("aten.")[2]) for r in run.rows() if r["Event"] == "ACCESS"]


class Aten(Case):
    def collect(self, script, events="alloc,free,launch,access", **more):
        return self.run_script(
            f"""
import os
msmemscope.config(output_path="out", events="{events}")
a, b = torch.empty(2, 3, device="npu:0"), torch.empty(3, 4, device="npu:0")
msmemscope.start()
{script}
msmemscope.stop()
c = torch.add(a, a)
""",
            **more,
        )

    def test_operators(self):
        run = self.collect("c = torch.add(a, a)\nd = torch.matmul(a, b)")
        self.assertEqual(
            operators(run),
            [
                ("ATEN_START", "add.Tensor"),
                ("ATEN_END", "add.Tensor"),
                ("ATEN_START", "mm.default"),
                ("ATEN_END", "mm.default"),
            ],
        )
        row = next(r for r in run.rows() if r["Event"] == "OP_LAUNCH")
        self.assertEqual(row["Name"], "torch._ops.aten.add.Tensor")
        self.assertEqual((row["Device Id"], row["Ptr"], row["Attr"]), ("0", "N/A", {}))

    def test_a_forked_child_has_no_card(self):
        run = self.collect("if not os.fork():\n    torch.add(a, a)\n    os._exit(0)\nos.wait()\ntorch.matmul(a, b)")
        self.assertEqual(operators(run), [("ATEN_START", "mm.default"), ("ATEN_END", "mm.default")])

    def test_accesses(self):
        run = self.collect("d = torch.matmul(a, b)")
        rows = [r for r in run.rows() if r["Event"] == "ACCESS"]
        self.assertEqual([r["Event Type"] for r in rows], ["READ", "READ", "WRITE"])
        first = rows[0]
        self.assertEqual(
            list(first["Attr"].items())[2:],
            [("size", "24"), ("type", "PTA"), ("dtype", "torch.float32"), ("shape", "torch.Size([2,3])")],
        )
        malloc = [r for r in run.rows() if r["Event"] == "MALLOC" and r["Ptr"] == rows[2]["Ptr"]][-1]
        self.assertEqual(malloc["Attr"]["allocation_id"], rows[2]["Attr"]["allocation_id"])

    def test_what_touches_and_what_does_not(self):
        for script, expected in (
            ("a.add_(a)", [("WRITE", "add_.Tensor"), ("READ", "add_.Tensor")]),
            ("v = a.view(6)", []),
            ("v = torch.split(a, 1)", []),
            ("e = torch.empty(4, device='npu:0')", []),
            ("e = torch.empty_like(a)", []),
            ("z = torch.zeros(4, device='npu:0')", [("WRITE", "zeros.default")]),
            ("o = torch.ones_like(a)", [("WRITE", "ones_like.default")]),
            ("n = a.new_zeros(3)", [("WRITE", "new_zeros.default")]),
            ("s = torch.cat([a, a])", [("READ", "cat.default")] * 2 + [("WRITE", "cat.default")]),
            ("torch._foreach_add_([a, b], 1)", [("WRITE", "_foreach_add_.Scalar")] * 2),
            ("h = a.cpu()", [("READ", "_to_copy.default")]),
            ("c = torch.add(torch.empty(3), torch.empty(3))", []),
            ("z = torch.zeros(0, device='npu:0')", []),
            (
                "torch.ops['aten::mm.out'](a, b, out=torch.empty(2, 4, device='npu:0'))",
                [("READ", "mm.out"), ("READ", "mm.out"), ("WRITE", "mm.out")],
            ),
        ):
            with self.subTest(script):
                self.setUp()
                self.assertEqual(accesses(self.collect(script)), expected)
                self.doCleanups()

    def test_fake_tensors(self):
        run = self.collect(
            """
class FakeTensor(torch.Tensor):
    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
f = FakeTensor(a._storage, a.shape, a.dtype, a.device)
c = torch.add(f, f)
class Odd(FakeTensor): pass
Odd.__name__ = "Odd"
"""
        )
        self.assertEqual(accesses(run), [("WRITE", "add.Tensor")])

    def test_events(self):
        run = self.collect("c = torch.add(a, a)", events="alloc,free,launch")
        self.assertEqual((len(operators(run)), accesses(run)), (2, []))
        self.setUp()
        run = self.collect("c = torch.add(a, a)", events="access")
        self.assertEqual((operators(run), len(accesses(run))), ([], 3))

    def test_level_kernel_has_no_operators(self):
        run = self.run_script(
            """
            try:
                msmemscope.config(output_path="out", level="kernel")
            except ValueError as e:
                print("refused", e)
                raise SystemExit
            msmemscope.start()
            c = torch.randn(3, device="npu:0")
            """
        )
        if "not in this version" in run.out:
            self.skipTest("level kernel is not there yet")
        self.assertEqual(operators(run), [])

    def test_errors_and_modes_of_the_program(self):
        run = self.collect(
            """
from torch.utils._python_dispatch import TorchDispatchMode
class Mine(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
try:
    torch.matmul(a, None)
except AttributeError:
    print("the program's own error")
mine = Mine()
mine.__enter__()
c = torch.add(a, a)
msmemscope.stop()
mine.__exit__(None, None, None)
c = torch.add(a, a)
msmemscope.start()
c = torch.add(a, a)
"""
        )
        self.assertIn("the program's own error", run.out)
        self.assertEqual([name for kind, name in operators(run) if kind == "ATEN_END"].count("add.Tensor"), 2)

    def test_torch_that_comes_late(self):
        run = self.run_script(
            """
            import msmemscope
            msmemscope.config(output_path="out")
            msmemscope.start()
            import torch
            import torch_npu
            c = torch.randn(3, device="npu:0")
            """,
            prelude="",
        )
        self.assertEqual(operators(run), [("ATEN_START", "randn.default"), ("ATEN_END", "randn.default")])

    def test_old_torch(self):
        run = self.run_script(
            """
            import torch
            torch.__version__ = "2.2.0"
            import torch_npu, msmemscope
            msmemscope.config(output_path="out")
            for _ in range(2):
                msmemscope.start()
                c = torch.randn(3, device="npu:0")
                msmemscope.stop()
            """,
            prelude="",
        )
        self.assertEqual(run.out.count("doesn't support aten collection"), 1)
        self.assertEqual(operators(run), [])

    def test_no_tensor_is_kept(self):
        run = self.collect(
            """
import gc, weakref
gc.disable()
refs = []
for step in range(50):
    x = torch.randn(4, 4, device="npu:0")
    y = torch.add(x, x)
    y.add_(x)
    z = torch.cat([x, y]).view(32)
    msmemscope.step()
    refs += [weakref.ref(t) for t in (x, y, z)]
    del x, y, z
print("alive", sum(r() is not None for r in refs), "of", len(refs))
"""
        )
        self.assertIn("alive 0 of 150", run.out)


class Decompose(Case):
    def test_training(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
            msmemscope.start()
            model = torch.nn.Linear(64, 64).to("npu:0")
            optimizer = torch.optim.Adam(model.parameters())
            for step in range(3):
                out = model(torch.empty(8, 64, device="npu:0"))
                model.weight.grad = torch.ones_like(model.weight)
                optimizer.step()
                optimizer.zero_grad()
                del out
            msmemscope.stop()
            optimizer.step()
            """
        )
        self.assertIn("Enable optimizer step hook.", run.out)
        owners = [r["Attr"]["owner"] for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]
        self.assertEqual(owners.count("PTA@weight@ops"), 1)
        self.assertEqual(owners.count("PTA@gradient@ops"), 3)
        self.assertEqual(owners.count("PTA@optimizer_state@ops"), 2)


class UnderTheLauncher(Case):
    """Programs that know nothing of the module."""

    PRELUDE = "import torch, torch_npu, sys\n"

    def test_operators(self):
        run = self.run_script(
            """
            torch.npu.set_device(0)
            a = torch.randn(3, device="npu:0")
            print("namespace", [n for n in globals() if "msmem" in n], [p for p in sys.path if p.endswith("../python")])
            """,
            launcher="--output-path=out",
            prelude=self.PRELUDE,
            PYTHONPATH=self.standin(),
        )
        self.assertEqual(operators(run), [("ATEN_START", "randn.default"), ("ATEN_END", "randn.default")])
        self.assertIn("namespace [] []", run.out)
        self.assertEqual(run.err, "")

    def test_labels(self):
        run = self.run_script(
            """
            torch.npu.set_device(0)
            model = torch.nn.Linear(64, 64).to("npu:0")
            optimizer = torch.optim.Adam(model.parameters())
            model.weight.grad = torch.empty_like(model.weight)
            optimizer.step()
            """,
            launcher="--output-path=out --analysis=decompose --events=alloc,free",
            prelude=self.PRELUDE,
            PYTHONPATH=self.standin(),
        )
        owners = {r["Attr"]["owner"] for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"}
        self.assertEqual(owners, {"PTA@weight@ops", "PTA@gradient@ops", "PTA@optimizer_state@ops"})

    def test_without_torch_nothing_is_imported(self):
        run = self.run_script(
            """
            import os, sys, ctypes
            path = os.path.join(os.environ["ASCEND_HOME_PATH"], "lib64", "libascendcl.so")
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            ctypes.CDLL(None).aclInit(None)
            for _ in range(1000): pass
            print("modules", [m for m in sys.modules if "msmem" in m])
            """,
            launcher="--output-path=out",
            prelude="",
            PYTHONPATH="",
        )
        self.assertIn("modules []", run.out)

    @staticmethod
    def standin():
        return os.path.join(ROOT, "test", "python", "standin")


class CpuTensors(Case):
    def test_rows(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out", device="npu,cpu")
            torch.npu.set_device(0)
            before = torch.tensor([1, 2, 3])
            msmemscope.start()
            t = torch.tensor([1, 2, 3])
            u = torch.empty(100, device="npu:0").cpu()
            v = torch.empty(100, device="npu:0").to("cpu")
            same = u.to("cpu")
            on_card = t.to("npu:0")
            del t, u, same
            msmemscope.stop()
            w = torch.tensor([1])
            """
        )
        rows = [r for r in run.rows() if r["Event Type"] == "HOST"]
        self.assertEqual([r["Device Id"] for r in rows], ["cpu"] * len(rows))
        self.assertEqual([r["Attr"]["size"] for r in rows if r["Event"] == "MALLOC"], ["12", "400", "400"])
        self.assertEqual([r["Attr"]["size"] for r in rows if r["Event"] == "FREE"], ["12", "400", "400"])
        self.assertEqual(rows[2]["Attr"]["total"], "812")


if __name__ == "__main__":
    unittest.main()
