"""config, start, stop, step: the options, the errors, and the in-process mode."""

import json
import os
import re
import unittest

from harness import Case

ALLOCATE = """
t = torch.empty(1000, device="npu:0")
"""


class Config(Case):
    def raises(self, call, kind, words):
        run = self.run_script(
            f"""
            try:
                msmemscope.{call}
            except {kind} as e:
                print(type(e).__name__ + ":", e)
            """
        )
        self.assertTrue(run.out.startswith(kind + ":"), run.out)
        for word in words:
            self.assertIn(word, run.out)

    def test_positional(self):
        self.raises('config("events")', "TypeError", ["positional"])

    def test_values_are_strings(self):
        self.raises("config(events=3)", "TypeError", ["'events'", "string", "int"])
        self.raises("config(analysis=[1])", "TypeError", ["'analysis'"])

    def test_unknown_key(self):
        self.raises('config(event="alloc")', "ValueError", ["'event'", "output_path"])

    def test_bad_values(self):
        for text, words in (
            ('events="alloc,bogus"', ["events", "bogus", "alloc", "traceback"]),
            ('events="none,alloc"', ["none"]),
            ('events="none,traceback"', ["none"]),
            ('analysis="leak"', ["analysis", "leak"]),
            ('device="npu:99"', ["npu:99"]),
            ('format="xml"', ["xml", "csv"]),
            ('level="deep"', ["deep"]),
            (r'output_path="a\x01b"', ["output"]),
            (r'events="a\0b"', ["NUL"]),
        ):
            with self.subTest(text):
                self.raises(f"config({text})", "ValueError", words)

    def test_a_refused_call_changes_nothing(self):
        run = self.run_script(
            ALLOCATE
            + """
msmemscope.config(output_path="out", events="alloc,free")
try:
    msmemscope.config(device="x")
except ValueError:
    pass
msmemscope.start()
u = torch.empty(1000, device="npu:0")
msmemscope.stop()
"""
        )
        rows = [r for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]
        self.assertEqual(["shadow" in r["Attr"] for r in rows], [True, False])

    def test_defaults_and_once(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out", device="npu:1", call_stack="")
            msmemscope.config(output_path="other")
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            """,
            status=None,
        )
        if "call-stack" in run.err:
            self.skipTest("call stacks are not there yet")
        self.assertEqual(run.status, 0, run.err)
        self.assertIn("can only be set once", run.err)
        self.assertEqual(len(run.rows()) > 0, True)
        with open(os.path.join(run.projects()[0], "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertTrue(config["collectAllNpu"], "the second call starts from the defaults")
        self.assertEqual(config["collectMode"], 1)

    def test_old_names_and_lists(self):
        run = self.run_script(
            """
            msmemscope.config(output="out", data_format="csv", analysis=["leaks"])
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            """
        )
        self.assertIn("--output is deprecated", run.err)
        self.assertEqual(len(run.projects()), 1)

    def test_without_arguments(self):
        run = self.run_script(
            """
            msmemscope.config()
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            """
        )
        self.assertEqual(len(run.projects("memscopeDumpResults")), 1)


class InProcess(Case):
    def test_several_ranges(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            before = torch.empty(250, device="npu:0")
            msmemscope.start()
            first = torch.empty(500, device="npu:0")
            msmemscope.stop()
            between = torch.empty(750, device="npu:0")
            msmemscope.start()
            second = torch.empty(1000, device="npu:0")
            msmemscope.step()
            msmemscope.step()
            msmemscope.stop()
            msmemscope.step()
            """
        )
        self.assertEqual(len(run.projects()), 1)
        rows = [r for r in run.rows() if r["Event Type"] != "HAL"]
        tensors = [r["Attr"]["size"] for r in rows if r["Event"] == "MALLOC" and "shadow" not in r["Attr"]]
        self.assertEqual(tensors, ["2048", "4096"])
        steps = [r for r in rows if r["Event"] == "SYSTEM" and r["Event Type"] == "STEP"]
        self.assertEqual([(r["Name"], r["Device Id"], r["Ptr"]) for r in steps], [("1", "0", "N/A"), ("2", "0", "N/A")])
        self.assertEqual([r["Event Type"] for r in rows if r["Event"] == "SYSTEM"].count("START_TRACE"), 2)
        self.assertEqual(run.out.count("Info: Start tracing."), 2)
        self.assertEqual(run.out.count("Info: Stop tracing."), 2)
        self.assertNotIn("rror", run.err)

    def test_stop_leaves_whole_files(self):
        run = self.run_script(
            """
            import glob, os
            msmemscope.config(output_path="out")
            msmemscope.start()
            ts = [torch.empty(1000, device="npu:0") for _ in range(500)]
            msmemscope.stop()
            (path,) = glob.glob("out/*/device_0/dump/memscope_dump_*.csv")
            print("now", open(path).read().count("MALLOC,PTA"), open(path).read().endswith("\\n"))
            os._exit(3)
            """,
            status=3,
        )
        self.assertIn("now 500 True", run.out)

    def test_report_and_files_at_a_normal_exit_through_a_pipe(self):
        run = self.run_script(
            """
            msmemscope.config(output_path="out")
            msmemscope.start()
            leaked = []
            for step in range(3):
                i = mstx.range_start("step start", None)
                leaked.append(torch.empty(1000, device="npu:0"))
                mstx.range_end(i)
            """,
            after="| tee log",
        )
        self.assertIn("Detected memory leaks on device 0", run.out)
        self.assertIn("Fflush temporary cache events to file!", run.out)
        self.assertFalse(os.path.exists(os.path.join(run.projects()[0], "spool")))

    def test_nothing_started_leaves_nothing(self):
        run = self.run_script(ALLOCATE)
        self.assertEqual((run.out, run.err), ("", ""))
        self.assertEqual(sorted(os.listdir(self.directory)), ["script.py"])

    def test_an_idle_process_starts_no_collector(self):
        run = self.run_script(
            """
            import os, subprocess
            print("collectors", subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True).stdout)
            """,
            prelude="",
        )
        self.assertIn("collectors b''", run.out)

    def test_killed(self):
        run = self.run_script(
            """
            import os, signal
            msmemscope.config(output_path="out")
            msmemscope.start()
            ts = [torch.empty(1000, device="npu:0") for _ in range(100)]
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            status=-9,
        )
        self.wait_for_files(run)
        rows = run.rows()
        self.assertEqual(len([r for r in rows if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]), 100)

    def wait_for_files(self, run, count=1):
        """The collector finishes alone."""
        import time

        for _ in range(600):
            projects = run.projects()
            if len(projects) >= count and not any(os.path.exists(os.path.join(p, "spool")) for p in projects):
                return
            time.sleep(0.05)
        self.fail(f"the files of {run.projects()} are not finished")

    def test_wait_sees_no_child(self):
        run = self.run_script(
            """
            import os, signal
            signalled = []
            signal.signal(signal.SIGCHLD, lambda *a: signalled.append(a))
            msmemscope.config(output_path="out")
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            try:
                print("waited", os.waitpid(-1, 0))
            except ChildProcessError:
                print("no child", signalled)
            """
        )
        self.assertIn("no child []", run.out)

    def test_endings(self):
        begin = """
            import os, signal, sys
            msmemscope.config(output_path="out")
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            """
        for end, status in (
            ("os._exit(5)", 5),
            ("sys.exit(4)", 4),
            ("raise ValueError('mine')", 1),
            ("os.kill(os.getpid(), signal.SIGINT)", -2),
            ("os.kill(os.getpid(), signal.SIGTERM)", -15),
        ):
            with self.subTest(end):
                self.setUp()
                run = self.run_script(begin + end, status=status)
                self.wait_for_files(run)
                self.assertEqual([r["Event"] for r in run.rows() if r["Event Type"] == "PTA"], ["MALLOC", "FREE"])
                self.assertNotIn("msmemscope/", run.err, "no traceback of ours")
                self.doCleanups()

    def test_children(self):
        script = """
            import multiprocessing, os, sys
            def work(n):
                msmemscope.config(output_path="out")
                msmemscope.start()
                ts = [torch.empty(1000, device="npu:0") for _ in range(n)]
                msmemscope.stop()
            if __name__ == "__main__":
                context = multiprocessing.get_context("METHOD")
                children = [context.Process(target=work, args=(10 + i,)) for i in range(3)]
                for c in children: c.start()
                for c in children: c.join()
                print([c.exitcode for c in children])
            """
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.setUp()
                run = self.run_script(script.replace("METHOD", method))
                self.assertIn("[0, 0, 0]", run.out)
                self.wait_for_files(run, 3)
                counts = sorted(
                    sum(
                        1
                        for r in run.rows()
                        if r["Process Id"] == pid and r["Event"] == "MALLOC" and r["Event Type"] == "PTA"
                    )
                    for pid in {r["Process Id"] for r in run.rows()}
                )
                self.assertEqual(counts, [10, 11, 12])
                self.doCleanups()

    def test_a_forked_child_goes_on_as_its_parent(self):
        run = self.run_script(
            """
            import os
            msmemscope.config(output_path="out", events="alloc,free")
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            pid = os.fork()
            u = torch.empty(500 if pid else 250, device="npu:0")
            if pid:
                os.waitpid(pid, 0)
            else:
                os._exit(0)
            """
        )
        self.assertEqual(len(run.projects()), 2)
        sizes = sorted(r["Attr"]["size"] for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA")
        self.assertEqual(sizes, ["1024", "2048", "4096"])

    def test_eight_workers(self):
        run = self.run_script(
            """
            import os, subprocess, sys
            if len(sys.argv) == 1:
                workers = [subprocess.Popen([sys.executable, __file__, str(i)]) for i in range(8)]
                print([w.wait() for w in workers])
                sys.exit()
            msmemscope.config(output_path="out")
            msmemscope.start()
            ts = [torch.empty(1000, device="npu:0") for _ in range(20)]
            msmemscope.stop()
            """
        )
        self.assertIn("[0, 0, 0, 0, 0, 0, 0, 0]", run.out)
        self.assertEqual(len(run.projects()), 8)
        self.assertEqual(len([r for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]), 160)


class UnderTheLauncher(Case):
    def test_the_same_files(self):
        script = """
            msmemscope.config(events="alloc,free", output_path="other")
            msmemscope.start()
            t = torch.empty(1000, device="npu:0")
            msmemscope.stop()
            print("stopped")
            """
        run = self.run_script(script, launcher="--collect-mode=deferred --output-path=out")
        self.assertIn("can only be set once", run.err, "the command line has set it")
        stays = os.path.join(os.path.realpath(run.directory), "out")
        self.assertIn(f'[msmemscope] Warn: output_path stays {stays}; "other" is not used.', run.err)
        self.assertEqual([r["Event"] for r in run.rows() if r["Event Type"] == "PTA"], ["MALLOC", "FREE"])
        self.assertIn("stopped", run.out)

    def test_wrong_values_that_would_be_dropped(self):
        run = self.run_script(
            """
            for wrong in {"format": "xml"}, {"output_path": "a?b"}, {"watch": ","}:
                try:
                    msmemscope.config(**wrong)
                except ValueError as e:
                    print("refused:", e)
            """,
            launcher="--output-path=out",
        )
        for words in ('--format does not know "xml"', "a?b", "--watch=,"):
            self.assertRegex(run.out, "refused: .*" + re.escape(words))


class HostHeap(Case):
    SCRIPT = """
        import msmemscope
        msmemscope.config(analysis=["host-leaks"], block_size_threshold="1000000")
        kept = []
        for step in range(4):
            if step == 1:
                msmemscope.start()
            kept.append(bytearray(5000000))
        msmemscope.stop()
        msmemscope.step()
        """

    def reports(self, run, output):
        self.assertIn("window 1: 0 suspected leak(s), 15000003 bytes unfreed in 3 block(s)", run.out)
        self.assertEqual(run.err, "")
        (project,) = run.projects(output)
        return os.listdir(os.path.join(project, "host_leak"))

    def test_window_after_load_api_env(self):
        run = self.run_script(self.SCRIPT, prelude="", preload="host")
        self.assertIn("leak_overview_1.txt", self.reports(run, "memscopeDumpResults"))

    def test_window_under_the_launcher(self):
        options = "--analysis=host-leaks --collect-mode=deferred --output-path=out"
        self.assertIn(
            "leak_overview_1.txt", self.reports(self.run_script(self.SCRIPT, launcher=options, prelude=""), "out")
        )

    def test_refusals(self):
        run = self.run_script(
            """
            import msmemscope
            def refused(call, text, kind=RuntimeError):
                try:
                    call()
                except kind as e:
                    assert text in str(e), e
                    return
                raise AssertionError(text)
            refused(msmemscope.stop, "")
            refused(lambda: msmemscope.config(events="alloc"), "does not record")
            bad = {"sample_rate": "0", "block_size_threshold": "1k", "host_leak_mode": "all", "level": "9"}
            for key, value in bad.items():
                option = "--" + key.replace("_", "-")
                refused(lambda: msmemscope.config(analysis="host-leaks", **{key: value}), option, ValueError)
            msmemscope.config(analysis="host-leaks", sample_rate="3")
            refused(lambda: msmemscope.config(analysis="host-leaks", sample_rate="x"), "--sample-rate", ValueError)
            msmemscope.start()  # by the options that were taken
            refused(msmemscope.start, "a window is open")
            msmemscope.config(analysis="host-leaks", block_size_threshold="1000000")
            kept = [bytearray(1000) for _ in range(1000)]
            msmemscope.stop()
            try:
                msmemscope.config(analysis="host-leaks,leaks")
            except ValueError as e:
                print(e)
            """,
            prelude="",
            preload="host",
        )
        self.assertEqual(run.err.count("a window on the host heap is open: config() has changed nothing"), 1)
        self.assertEqual(run.err.count("--sample-rate=3 becomes 4"), 1)
        self.assertEqual(run.err.count("\n"), 2)
        self.assertIn("cannot be combined", run.out)
        self.assertRegex(run.out, r"window 1: 0 suspected leak\(s\), \d{6,} bytes unfreed", "small blocks count still")


class NoAgent(Case):
    def test_calls_say_so(self):
        run = self.run_script(
            """
            import msmemscope
            import msmemscope.describe as describe
            for call in (
                lambda: msmemscope.config(events="alloc"),
                msmemscope.start,
                msmemscope.stop,
                lambda: msmemscope.take_snapshot(),
                lambda: msmemscope.watcher.watch(1, length=1, name="x"),
                lambda: msmemscope.init_framework_hooks("pytorch", "2.6", "fsdp1", "decompose"),
                msmemscope.enable_npu_sanitizer,
            ):
                try:
                    call()
                    print("nothing raised", call)
                except RuntimeError as e:
                    assert "--load-api-env" in str(e), e
            msmemscope.step()
            with describe.describer(owner="x"), msmemscope.RecordFunction("y"):
                print("annotations do nothing")
            """,
            prelude="",
            preload=False,
        )
        self.assertEqual(run.out, "annotations do nothing\n")
        self.assertEqual(run.err, "")


if __name__ == "__main__":
    unittest.main()
