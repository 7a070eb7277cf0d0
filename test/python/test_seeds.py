"""The examples of the analysis guide and of the collection guide, as written there, and the rows that they promise.

What stands for the reader's own code ("...", train2()) is filled in, and output paths that nobody here may write are
moved into the scratch directory; nothing else is changed.
"""

import contextlib
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import unittest

from harness import BUILD, PYTHON, ROOT, Case, Run

DEFAULT = "memscopeDumpResults"

# A training step of the reader: steps as mstx ranges, a tensor for each, one operator of two tensors, an optimizer.
TRAIN = """
import sys
import torch
import torch_npu
import mstx
torch.npu.set_device(0)
model = torch.nn.Linear(64, 64).to("npu:0")
optimizer = torch.optim.Adam(model.parameters())
kept = []
for step in range(5):
    r = mstx.range_start("step start", None)
    x = torch.randn(8, 64, device="npu:0")
    out = model(x)
    model.weight.grad = torch.ones_like(model.weight)
    optimizer.step()
    if "leak" in sys.argv:
        kept.append(torch.empty(1 << 18, device="npu:0"))
    mstx.range_end(r)
print("trained")
"""


def mallocs(run, pool="PTA"):
    return [r for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == pool]


class Seeds(Case):
    def shell(self, command):
        """Run commands in the scratch directory, where `python` and `msmemscope` mean those under test."""
        bin_ = os.path.join(self.directory, "bin")
        if not os.path.exists(bin_):
            os.mkdir(bin_)
            os.symlink(os.path.realpath(PYTHON), os.path.join(bin_, "python"))
            for name, text in (("train.py", TRAIN), ("train.sh", "python train.py\n")):
                with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
                    file.write(text)
        path = os.pathsep.join([bin_, os.path.join(BUILD, "bin"), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.directory,
            env=self.environment(PATH=path),
            capture_output=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout.decode() + done.stderr.decode())
        return done.stdout.decode()

    # The analysis guide.

    def test_online_leaks(self):
        out = self.shell("msmemscope python train.py leak")
        self.assertIn("Detected memory leaks on device 0", out)
        self.assertIn("Direct Pytorch Caching memory pool leak of 1.000000 Mb(s)", out)
        self.assertIn("Gap Analysis of Device 0", out)

    def test_offline_leaks(self):
        run = self.run_script(
            """
            torch.npu.set_device(0)
            mstx.mark("test", None)
            kept = torch.empty(1 << 22, device="npu:0")
            mstx.mark("test", None)
            mstx.mark("test", None)
            """,
            launcher="--output-path=out",
        )
        os.mkdir(os.path.join(self.directory, "user"))
        (dump,) = glob.glob(os.path.join(run.projects()[0], "device_0", "dump", "*.csv"))
        shutil.copy(dump, os.path.join(self.directory, "user", "memscope.csv"))
        run = self.run_script(
            """
import msmemscope
msmemscope.check_leaks(input_path="user/memscope.csv",mstx_info="test",start_index=0)
""",
            prelude="",
            preload=False,
        )
        self.assertRegex(run.out, r"Direct Hal memory leak of \d+\.\d+ Mb\(s\) at 0x[0-9a-f]{16} in Index \d+\.")

    def test_host_leaks(self):
        self.shell(
            "msmemscope --analysis=host-leaks --block-size-threshold=1024 --sample-rate=1 --output-path=./output "
            "python ./train.py"
        )
        overviews = glob.glob(os.path.join(self.directory, "output", "*", "host_leak", "leak_overview_1.txt"))
        self.assertEqual(len(overviews), 1)

    def test_host_leaks_from_python(self):
        run = self.run_script(
            """
import msmemscope
# 配置使能: analysis中包含host-leaks为开窗前提(host_leak_mode等参数调整需在窗口关闭后进行)
msmemscope.config(analysis=["host-leaks"], host_leak_mode="summary", block_size_threshold="1024")
msmemscope.start()          # 开窗: 开始检测区间
kept = [bytearray(100000) for step in range(7)]  # ... 训练若干step ...
msmemscope.stop()           # 关窗: 结束检测区间,闭窗聚合输出报告
""",
            prelude="",
            preload="host",
        )
        (project,) = run.projects(DEFAULT)
        (overview,) = glob.glob(os.path.join(project, "host_leak", "leak_overview_*.txt"))
        self.assertEqual(os.path.basename(overview), "leak_overview_1.txt")
        with open(overview, encoding="utf-8") as file:
            self.assertRegex(file.read(), r"Total Unfreed")

    def test_host_leaks_without_its_library(self):
        run = self.run_script(
            """
import msmemscope
try:
    msmemscope.config(analysis=["host-leaks"], host_leak_mode="summary", block_size_threshold="1024")
except ValueError as e:
    print("ValueError", e)
"""
        )
        self.assertIn("ValueError", run.out)
        self.assertIn("--load-api-env=host", run.out)

    def test_comparison(self):
        self.shell(
            """
            export TASK_QUEUE_ENABLE=0
            msmemscope --output-path=path1 python train.py --steps=2 --level=kernel
            msmemscope --output-path=path2 python train.py --steps=3 --level=kernel
            msmemscope --output-path=op1 python train.py --steps=2 --level=op
            msmemscope --output-path=op2 python train.py --steps=3 --level=op
            msmemscope --compare --input-path=op1,op2 --level=op
            """
        )
        for name in ("path1", "path2"):
            self.assertTrue(self.finished(name).rows())
        (result,) = glob.glob(os.path.join(self.directory, "memscopeDumpResults", "compare", "memory_compare_*.csv"))
        with open(result, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[0], ",,,Base,Compare")
        self.assertIn("OP_LAUNCH,torch._ops.aten.mm.default,0,", "\n".join(lines))

    WATCHED = """
import torch
import torch_npu
import msmemscope

torch.npu.synchronize()
test_tensor = torch.randn(2,3).to('npu:0')        # 请根据实际情况自行创建或选择需要监测的Tensor
msmemscope.watcher.watch({0}, name="test", dump_nums=2)
c = torch.add(test_tensor, test_tensor)
test_tensor.add_(c)
c = torch.add(test_tensor, test_tensor)
torch.npu.synchronize()
msmemscope.watcher.remove({1})
c = torch.add(test_tensor, test_tensor)
"""

    def watched(self, script, options, bytes_):
        with open(os.path.join(self.directory, "app.py"), "w", encoding="utf-8") as file:
            file.write(script)
        self.shell(f"export ASCEND_LAUNCH_BLOCKING=1\nmsmemscope python app.py {options}")
        directory = os.path.join(self.directory, "memscopeDumpResults", "watch_dump")
        if options.endswith("full-content"):
            names = sorted(os.listdir(directory))
            for name in names:
                self.assertEqual(os.path.getsize(os.path.join(directory, name)), bytes_)
        else:
            (table,) = glob.glob(os.path.join(directory, "watch_dump_data_check_sum_0_*.csv"))
            with open(table, encoding="utf-8") as file:
                rows = [line.strip().split(",") for line in file]
            self.assertEqual(rows[0], ["Tensor info", "Check data sum"])
            for row in rows[1:]:
                self.assertRegex(row[1], "^[0-9a-f]{16}$")
            names = [row[0] for row in rows[1:]]
        names = [re.sub(r"^0_\d+[/_]", "", name) for name in names]
        name = "torch._ops.aten.add.Tensor_1-test_0_"
        self.assertEqual(sorted(names), [name + "after.bin", name + "before.bin"])  # dump_nums=2

    def test_watch_a_tensor(self):
        self.watched(self.WATCHED.format("test_tensor", "test_tensor"), "--watch=,token0/layer0/module0/op1", 24)

    def test_watch_an_address(self):
        words = ("test_tensor.data_ptr(), length=1000", "test_tensor.data_ptr(), length=1000")
        options = "--watch=token0/layer0/module0/op0,token0/layer0/module0/op1,full-content"
        self.watched(self.WATCHED.format(*words), options, 1000)

    def test_labels(self):
        run = self.run_script(
            """
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.start()
import msmemscope.describe as describe

@describe.describer(owner="test1")
def train1():
    global a
    a = torch.empty(10, device="npu:0")
train1()

import msmemscope.describe as describe

def train2():
    global b
    b = torch.empty(10, device="npu:0")
with describe.describer(owner="test2"):
    train2()

def train3():
    global c
    c = torch.empty(10, device="npu:0")
import msmemscope.describe as describe

describe.describer(owner="test3").__enter__()
train3()
describe.describer(owner="test3").__exit__()

import msmemscope.describe as describe

t = torch.randn(10,10).to('npu:0')
describe.describer(t, owner="test4")
""",
        )
        owners = [r["Attr"]["owner"] for r in mallocs(run)]
        self.assertEqual(owners, ["PTA@test1", "PTA@test2", "PTA@test3", "PTA@ops@test4"])

    def test_training_is_taken_apart(self):
        self.shell("msmemscope --events=alloc,free --analysis=decompose python train.py")
        run = self.finished()
        owners = {r["Attr"]["owner"] for r in mallocs(run)}
        for owner in ("PTA@weight@ops", "PTA@gradient@ops", "PTA@optimizer_state@ops"):
            self.assertIn(owner, owners)

    def finished(self, output=DEFAULT):
        """What runs of the shell have left below an output path, as a Run."""
        run = Run(0, "", "", self.directory)
        rows = run.rows(output)
        self.assertTrue(rows)
        run.rows = lambda: rows
        return run

    def test_inefficient(self):
        self.shell("msmemscope python train.py --analysis=inefficient")
        kinds = {r["Attr"].get("inefficient_type") for r in mallocs(self.finished())} - {None}
        self.assertTrue(kinds)

    def test_out_of_memory(self):
        with open(os.path.join(self.directory, "huge.py"), "w", encoding="utf-8") as file:
            file.write(TRAIN + "try:\n    torch.empty(1 << 40, device='npu:0')\n")
            file.write("except SystemExit as e:  # of the stand-in\n    print(e)\n")
        for command, most in (
            ("msmemscope --analysis=oom python huge.py", 10),
            ("msmemscope --analysis=oom:50 python huge.py", 50),
            ("msmemscope --analysis=oom:30,leaks python huge.py", 30),
            ("msmemscope python huge.py --analysis=oom:2", 2),
        ):
            with self.subTest(command):
                self.shell("rm -rf memscopeDumpResults\n" + command)
                kinds = [r["Event Type"] for r in self.finished().rows() if r["Event"] == "OOM_DETAIL"]
                self.assertIn("OOM_TRIGGER", kinds)
                self.assertTrue(0 < kinds.count("OOM_RECENT_ALLOC") <= most, kinds)
                self.assertTrue(0 < kinds.count("OOM_TOP_ALLOC") <= most, kinds)

    def vllm(self):
        os.makedirs(os.path.join(self.directory, "vllm_ascend", "worker"))
        with open(
            os.path.join(self.directory, "vllm_ascend", "worker", "model_runner_v1.py"), "w", encoding="utf-8"
        ) as file:
            file.write(
                "import torch\n"
                "class NPUModelRunner:\n"
                "    def execute_model(self):\n"
                "        self.out = torch.empty(8, device='npu:0')\n"
            )

    SERVE = """
sys.path.insert(0, ".")
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner
runner = NPUModelRunner()
runner.execute_model()
"""

    def in_database(self, question):
        (path,) = glob.glob(
            os.path.join(self.directory, "wlz_data_test", "*", "device_0", "dump", "memscope_dump_*.db")
        )
        with contextlib.closing(sqlite3.connect(path)) as db:
            return [row[0] for row in db.execute(question)]

    def test_one_click_decompose(self):
        self.vllm()
        self.run_script(
            f"""
import sys
import torch, torch_npu
import msmemscope
msmemscope.config(
events="alloc,free",
format="db",
analysis="decompose",
output_path="wlz_data_test"
)
msmemscope.start()
{self.SERVE}
msmemscope.stop()
""",
            prelude="",
        )
        attrs = self.in_database("SELECT Attr FROM memscope_dump WHERE Event = 'MALLOC' AND \"Event Type\" = 'PTA'")
        self.assertEqual(len(attrs), 1)
        self.assertIn('"owner":"PTA@vllm@serve"', attrs[0])

    def test_one_click_snapshots(self):
        self.vllm()
        self.run_script(
            f"""
import sys
import torch, torch_npu
import msmemscope
msmemscope.config(
events="alloc,free",
format="db",
output_path="wlz_data_test"
)
msmemscope.cleanup_framework_hooks()
msmemscope.init_framework_hooks("vllm_ascend","11.0","worker","snapshot")
msmemscope.start()
{self.SERVE}
msmemscope.stop()
""",
            prelude="",
        )
        names = self.in_database("SELECT Name FROM memscope_dump WHERE Event = 'SNAPSHOT' ORDER BY ID")
        where = "vllm_ascend.worker.model_runner_v1@NPUModelRunner@execute_model"
        self.assertEqual(names, [where + "@Start", where + "@End"])

    SANITIZER = """
import torch
import torch_npu
import mstx
import msmemscope


def run_my_custom_op(tensor_a, tensor_b, tensor_c):
    \"\"\"自定义算子：读取 a、b，写入 c\"\"\"
    a_size = tensor_a.numel() * tensor_a.element_size()
    b_size = tensor_b.numel() * tensor_b.element_size()
    c_size = tensor_c.numel() * tensor_c.element_size()

    # 一次 mstx.mark() 调用上报全部读写信息，第二个参数为执行打点的stream
    mstx.mark(
        f"sanitizer-op: name=my_ext.my_fused_op;"
        f"read=a:{tensor_a.data_ptr()}:{a_size},"
        f"b:{tensor_b.data_ptr()}:{b_size};"
        f"write=c:{tensor_c.data_ptr()}:{c_size}",
        torch_npu.npu.current_stream().npu_stream
    )

    # 实际自定义算子的执行逻辑
    # ...


def test():
    # 通过 msMemScope 使能 NPU Sanitizer
    msmemscope.enable_npu_sanitizer()

    device = torch.device('npu:0')
    torch.npu.set_device(device)

    tensor_a = torch.randn(1024).to(device)
    tensor_b = torch.randn(512).to(device)
    tensor_c = torch.empty(2048).to(device)

    run_my_custom_op(tensor_a, tensor_b, tensor_c)

    print("Test finished.")


if __name__ == "__main__":
    test()
"""

    def test_sanitizer_marks(self):
        launched = """
    from torch_npu.npu import _sanitizer
    ((stream, reads, writes, outputs, operator, aliases, storages),) = _sanitizer.launches
    print(operator, stream, sorted(map(tuple, aliases.values())), len(reads), len(writes))
"""
        for launcher in (None, "--output-path=out"):
            with self.subTest(launcher):
                run = self.run_script(self.SANITIZER + launched, prelude="", launcher=launcher)
                self.assertIn("Test finished.\nmy_ext.my_fused_op 1234 [('a',), ('b',), ('c',)] 2 1\n", run.out)
                self.assertEqual(run.err, "")

    SANITIZER_C = """
#include "mstx/ms_tools_ext.h"

void my_fused_op(float* a, int na, float* b, int nb, float* c, int nc,
                 aclrtStream stream) {
    char buf[512];

    // 一次 mstxMarkA() 调用，上报全部读写信息
    snprintf(buf, sizeof(buf),
        "sanitizer-op: name=my_ext.my_fused_op;"
        "read=a:%p:%zu,b:%p:%zu;"
        "write=c:%p:%zu",
        (void*)a, na * sizeof(float),
        (void*)b, nb * sizeof(float),
        (void*)c, nc * sizeof(float));
    mstxMarkA(buf, stream);

    // 执行 kernel
    launch_my_kernel(a, b, c, na, nb, nc);
}
"""

    def test_sanitizer_marks_from_c(self):
        if shutil.which("gcc") is None:
            self.skipTest("no gcc here")
        source = os.path.join(self.directory, "op.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(
                '#include <stdio.h>\n#include "acl/acl.h"\n'
                "static void launch_my_kernel(float *a, float *b, float *c, int na, int nb, int nc)\n"
                "{ *c = *a + *b + na + nb + nc; }\n" + self.SANITIZER_C
            )
        libraries = os.path.join(BUILD, "vnpu", "lib64")
        command = ["gcc", "-shared", "-fPIC", "-I" + os.path.join(ROOT, "vnpu", "include"), source, "-o"]
        command += [
            os.path.join(self.directory, "op.so"),
            "-L" + libraries,
            "-lms_tools_ext",
            "-Wl,-rpath," + libraries,
        ]
        subprocess.run(command, check=True)
        run = self.run_script(
            """
            import ctypes
            msmemscope.enable_npu_sanitizer()
            a, b, c = ((ctypes.c_float * n)() for n in (4, 2, 8))
            ctypes.CDLL("./op.so").my_fused_op(a, 4, b, 2, c, 8, ctypes.c_void_p(7))
            from torch_npu.npu import _sanitizer
            ((stream, reads, writes, outputs, operator, aliases, storages),) = _sanitizer.launches
            assert reads == {ctypes.addressof(a), ctypes.addressof(b)}, reads
            assert writes == {ctypes.addressof(c)}, writes
            print(operator, stream, c[0])
            """
        )
        self.assertIn("my_ext.my_fused_op 7 14.0\n", run.out)
        self.assertEqual(run.err, "")

    # The collection guide.

    def test_command_lines_of_the_collection_guide(self):
        for command, check in (
            (
                "msmemscope --analysis=oom:50 --call-stack=python:10,c:20 --events=alloc,free bash train.sh",
                lambda rows: all(
                    "train.py" in r["Call Stack(Python)"]
                    for r in rows
                    if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"
                ),
            ),
            (
                "msmemscope --analysis=leaks --events=alloc,free --call-stack=python:10 bash train.sh",
                lambda rows: all(r["Event"] not in ("OP_LAUNCH", "ACCESS") for r in rows),
            ),
            (
                "msmemscope --analysis=decompose --events=alloc,free --output-path=memscopeDumpResults bash train.sh",
                lambda rows: all("owner" in r["Attr"] for r in rows if r["Event"] == "MALLOC"),
            ),
            (
                "msmemscope --steps=5 --level=kernel --events=alloc,free bash train.sh",
                lambda rows: [r["Event Type"] for r in rows if r["Event"] == "MSTX"] == ["Range_start", "Range_end"],
            ),
        ):
            with self.subTest(command):
                self.shell("rm -rf memscopeDumpResults\n" + command)
                self.assertTrue(check(self.finished().rows()))

    def test_one_click_of_the_collection_guide(self):
        self.vllm()
        run = self.run_script(
            f"""
import sys
import torch, torch_npu
import msmemscope
msmemscope.config(events="alloc,free", data_format="csv", output="out")  # csv 默认；仅需可视化时改 db
msmemscope.cleanup_framework_hooks()                                       # 清空历史注册
msmemscope.init_framework_hooks("vllm_ascend", "11.0", "worker", "snapshot")  # 框架/版本/组件/功能
msmemscope.start()
{self.SERVE}
msmemscope.stop()
""",
            prelude="",
        )
        self.assertEqual(len([r for r in run.rows() if r["Event"] == "SNAPSHOT"]), 2)
        self.assertIn("'output' is deprecated", run.err.replace("--output", "'output'"))
        with open(os.path.join(run.projects()[0], "config.json"), encoding="utf-8") as file:
            self.assertIn('"dataFormat": 0', file.read())


if __name__ == "__main__":
    unittest.main()
