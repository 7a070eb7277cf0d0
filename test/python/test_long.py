"""What shows only after a while: memory of the module itself, locks between threads; and process 1 of a container.

With SOAK set in the environment the threads run for a minute.
"""

import os
import subprocess
import unittest

from harness import Case


class AfterAWhile(Case):
    def test_ten_thousand_steps(self):
        run = self.run_script(
            """
            import gc, resource, weakref
            import msmemscope.describe as describe
            msmemscope.config(output_path="out", events="alloc,free", call_stack="python:20", analysis="none")
            torch.npu.set_device(0)
            msmemscope.start()
            class Holder: pass
            def rss():
                gc.collect()
                with open("/proc/self/smaps_rollup") as file:
                    return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
            living = weakref.WeakSet()  # one entry for each tensor that lives, whatever keeps it
            def step(i):
                with describe.describer(owner="step"), msmemscope.RecordFunction("step"):
                    t = torch.empty(100, device="npu:0")
                    describe.describer(t, owner="tensor")
                    living.add(t)
                    assert len(living) <= 2, len(living)
                msmemscope.step()
            for i in range(2000):
                step(i)
            before = rss()
            for i in range(10000):
                step(i)
            print("grown", rss() - before, "kB; alive", len(living))
            """
        )
        grown, alive = run.out.split("grown ")[1].split("; alive ")
        self.assertLessEqual(int(grown.split()[0]), 1024, run.out)
        self.assertTrue(alive.startswith("0\n"), run.out)

    def test_threads_under_python_stacks(self):
        seconds = 60 if os.environ.get("SOAK") else 5
        run = self.run_script(
            f"""
            import ctypes, sys, threading, time
            msmemscope.config(output_path="out", events="alloc,free,traceback", call_stack="python:20", analysis="none")
            torch.npu.set_device(0)
            end = time.monotonic() + {seconds}
            lock = threading.Lock()  # of the pool: torch_npu's is held while it reports
            counts = [0] * 64
            def work(i):
                while time.monotonic() < end:
                    with lock:
                        t = torch.empty(100 + i, device="npu:0")
                    time.sleep(0)
                    with lock:
                        del t
                    counts[i] += 1
            holds_gil = ctypes.PyDLL(None).usleep  # a C function that keeps the GIL
            def hold():
                while time.monotonic() < end:
                    holds_gil(1000)
                    with lock:
                        t = torch.empty(50, device="npu:0")
                        del t
            msmemscope.start()
            threads = [threading.Thread(target=work, args=(i,)) for i in range(64)] + [threading.Thread(target=hold)]
            for t in threads: t.start()
            for t in threads: t.join()
            msmemscope.stop()
            print("each thread", min(counts) > 0)
            """
        )
        self.assertIn("each thread True", run.out)
        rows = [r for r in run.rows() if r["Event Type"] == "PTA"]
        self.assertEqual(sum(r["Event"] == "MALLOC" for r in rows), sum(r["Event"] == "FREE" for r in rows))


class FirstProcess(Case):
    def test_files_are_complete_when_the_container_ends(self):
        try:
            subprocess.run(["unshare", "--fork", "--pid", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no process namespaces here")
        run = self.run_script(
            """
            import os, subprocess, sys
            if len(sys.argv) == 1:
                command = ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, __file__, "inside"]
                sys.exit(subprocess.call(command))
            print("process", os.getpid(), flush=True)
            msmemscope.config(output_path="out")
            msmemscope.start()
            ts = [torch.empty(1000, device="npu:0") for _ in range(3000)]
            """
        )
        self.assertIn("process 1\n", run.out)
        self.assertIn("Fflush temporary cache events to file!", run.out)
        self.assertFalse(os.path.exists(os.path.join(run.projects()[0], "spool")))
        rows = [r for r in run.rows() if r["Event Type"] == "PTA"]
        self.assertEqual(sum(r["Event"] == "FREE" for r in rows), 3000)


if __name__ == "__main__":
    unittest.main()
