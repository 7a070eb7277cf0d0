"""The offline analyses from Python: arguments, errors, and what they print."""

import csv
import os
import sys
import unittest
from contextlib import redirect_stdout
from io import StringIO

from harness import BUILD, Case

sys.path.insert(0, os.path.join(BUILD, "python"))
import msmemscope  # noqa: E402

HEADER = (
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
)
N_A = ",12,12,0,N/A,,,\n"


def hal(number, event, ptr, size):
    return f'{number},{event},HAL,N/A,{number},12,12,0,{ptr},"{{allocation_id:{number},addr:{ptr},size:{size}}}",,\n'


def mark(number):
    return f'{number},MSTX,Mark,"test",{number}{N_A}'


class Offline(Case):
    def write(self, text, name="dump.csv"):
        path = os.path.join(self.directory, name)
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.write(HEADER + text)
        os.chmod(path, 0o640)
        return path

    def leaky(self):
        return self.write(
            mark(2)
            + hal(3, "MALLOC", "0x0000000000002000", 2097152)
            + hal(4, "MALLOC", "0x0000000000003000", 2815669)
            + mark(5)
            + hal(6, "MALLOC", "0x0000000000004000", 4096)
            + hal(7, "FREE", "0x0000000000003000", 2815669)
            + mark(8)
            + hal(9, "FREE", "0x0000000000002000", 2097152)
        )

    def output(self, function, *args, **kwargs):
        out = StringIO()
        with redirect_stdout(out):
            self.assertIsNone(function(*args, **kwargs))
        return out.getvalue()

    def test_names(self):
        self.assertEqual(msmemscope.list_analyzers(), ["leaks", "inefficient"])
        leaks = msmemscope.get_analyzer_config("leaks")
        self.assertEqual(leaks["parameters"], ["input_path", "mstx_info", "start_index"])
        self.assertEqual(leaks["config_class"].__name__, "LeaksConfig")
        inefficient = msmemscope.get_analyzer_config("inefficient")
        self.assertEqual(inefficient["parameters"], ["input_path", "mem_size", "inefficient_type", "idle_threshold"])
        for call in (msmemscope.get_analyzer_config, msmemscope.analyze):
            with self.assertRaisesRegex(ValueError, "Unknown analyzer type: x. Available types are"):
                call("x")
        with self.assertRaises(TypeError):
            msmemscope.analyze("leaks", input_path="x")

    def test_leaks(self):
        path = self.leaky()
        for call in (
            lambda: msmemscope.check_leaks(input_path=path, mstx_info="test", start_index=0),
            lambda: msmemscope.analyze("leaks", input_path=path, mstx_info="test", start_index=0),
        ):
            text = self.output(call)
            self.assertIn("Direct Hal memory leak of 2.0 Mb(s) at 0x0000000000002000 in Index 3.", text)
            self.assertIn("====== ERROR: Detected memory leaks on device 0 ======", text)
            self.assertEqual(text.count("Direct Hal"), 1)

    def test_leaks_errors(self):
        path = self.leaky()
        check = msmemscope.check_leaks
        for error, args in (
            (TypeError, (path, 3, 0)),
            (ValueError, (path, " ", 0)),
            (ValueError, (path, "test", -1)),
            (ValueError, (path, "test", "0")),
            (ValueError, (path, "test", True)),
            (ValueError, (path + ".txt", "test", 0)),
            (ValueError, ("x" * 5000 + ".csv", "test", 0)),
            (FileNotFoundError, (path.replace("dump", "none"), "test", 0)),
        ):
            with self.subTest(args), self.assertRaises(error):
                check(*args)
        os.mkdir(os.path.join(self.directory, "d.csv"))
        with self.assertRaises(FileNotFoundError):
            check(os.path.join(self.directory, "d.csv"), "test", 0)
        large = self.write("", "large.csv")
        os.truncate(large, 9 << 30)  # without any blocks on the disk
        with self.assertRaisesRegex(ValueError, "at most 8 GiB are accepted"):
            check(large, "test", 0)

    def test_inefficient(self):
        def row(number, event, kind, ptr, block):
            attr = f'"{{allocation_id:{block},addr:{ptr},size:1024}}"' if block else ""
            if event == "ACCESS":
                attr = f'"{{allocation_id:{block},addr:{ptr},size:1024,type:PTA}}"'
            return f"{number},{event},{kind},op,{number},12,12,0,{ptr or 'N/A'},{attr},,\n"

        one, two, three = (f"0x{n:016x}" for n in (0x10, 0x20, 0x30))
        path = self.write(
            row(1, "OP_LAUNCH", "ATEN_START", "", 0)
            + row(2, "MALLOC", "PTA", one, 1)
            + row(3, "MALLOC", "PTA", two, 2)
            + row(4, "OP_LAUNCH", "ATEN_END", "", 0)
            + row(5, "FREE", "PTA", two, 2)
            + row(6, "OP_LAUNCH", "ATEN_START", "", 0)
            + row(7, "ACCESS", "READ", one, 1)
            + row(8, "OP_LAUNCH", "ATEN_END", "", 0)
            + row(9, "MALLOC", "PTA", three, 3)
            + row(10, "FREE", "PTA", one, 1)
        )
        text = self.output(msmemscope.check_inefficient, path)
        self.assertIn("INFO: CSV file read successfully", text)
        with open(path, newline="", encoding="utf-8") as file:
            found = {r["ID"]: r["Attr"] for r in csv.DictReader(file) if "inefficient_type" in r["Attr"]}
        self.assertEqual(list(found), ["2"])
        self.assertIn("inefficient_type:early_allocation,late_deallocation", found["2"])
        self.output(msmemscope.check_inefficient, path, 0, "late_deallocation", 10)
        with open(path, encoding="utf-8") as file:
            self.assertNotIn("early_allocation", file.read())

    def test_inefficient_errors(self):
        path = self.leaky()
        for words, kwargs in (
            ("Memory size", {"mem_size": -1}),
            ("Memory size", {"mem_size": "1"}),
            ("non-empty list", {"inefficient_type": []}),
            ("non-empty list", {"inefficient_type": 3}),
            ("Invalid inefficient type: x", {"inefficient_type": "x"}),
            ("Idle threshold", {"idle_threshold": 0}),
            ("Unsupported file type", {"input_path": path + ".txt"}),
        ):
            with self.subTest(kwargs), self.assertRaisesRegex(ValueError, words):
                msmemscope.check_inefficient(**dict({"input_path": path}, **kwargs))

    def test_what_the_program_refuses(self):
        path = self.leaky()
        link = os.path.join(self.directory, "link.csv")
        os.symlink(path, link)
        with self.assertRaisesRegex(ValueError, "link"):
            msmemscope.check_leaks(link, "test", 0)


if __name__ == "__main__":
    unittest.main()
