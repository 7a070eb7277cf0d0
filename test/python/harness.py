"""Runs scripts the way users do and reads what they leave: every test of the module goes through here."""

import csv
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MSMEMSCOPE_BUILD", os.path.join(ROOT, "build"))
PYTHON = os.environ.get("TEST_PYTHON") or sys.executable
TIMEOUT_S = 120

PRELUDE = """
import torch
import torch_npu
import mstx
import msmemscope
"""


class Run:
    """One run of a script: what it said, how it ended, where its files are."""

    def __init__(self, status, out, err, directory):
        self.status, self.out, self.err, self.directory = status, out, err, directory

    def projects(self, output="out"):
        """The directories of the processes, oldest first."""
        return sorted(glob.glob(os.path.join(self.directory, output, "msmemscope_*_ascend")), key=os.path.getmtime)

    def rows(self, output="out"):
        """The rows of all dumps, as dictionaries; Attr is taken apart into one, too."""
        rows = []
        for project in self.projects(output):
            for path in sorted(glob.glob(os.path.join(project, "device_*", "dump", "memscope_dump_*.csv"))):
                with open(path, newline="", encoding="utf-8") as file:
                    for row in csv.DictReader(file):
                        row["Attr"] = attributes(row["Attr"])
                        rows.append(row)
        return rows

    def log(self, output="out"):
        """The lines of the logs."""
        lines = []
        for project in self.projects(output):
            for path in glob.glob(os.path.join(project, "msmemscope_logs", "*.log")):
                with open(path, encoding="utf-8") as file:
                    lines += file.read().splitlines()
        return lines

    def traces(self, output="out"):
        """The rows of all Python traces."""
        rows = []
        for project in self.projects(output):
            for path in sorted(glob.glob(os.path.join(project, "device_*", "dump", "python_trace_*.csv"))):
                with open(path, newline="", encoding="utf-8") as file:
                    rows += list(csv.DictReader(file))
        return rows


def attributes(text):
    """ "{a:1,b:x,y}" as a dictionary; a value ends at the last comma before the next colon."""
    return dict(re.findall(r"([a-z_]+):((?:[^:]|:(?=[^,]*$))*?)(?:,(?=[a-z_]+:)|$)", text.strip("{}")))


def as_in_a_terminal():
    """Undoes what a shell does to its background jobs: an ignored SIGINT would be inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Case(unittest.TestCase):
    """A test that runs scripts."""

    def setUp(self):
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.directory = self._directory.name

    def environment(self, **more):
        """The environment of a script, before --load-api-env."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("MSMEMSCOPE", "LD_"))}
        environment.update(
            PYTHONPATH=os.pathsep.join(
                [os.path.join(BUILD, "python"), os.path.join(ROOT, "test", "python", "standin")]
            ),
            PYTHONDONTWRITEBYTECODE="1",
            ASCEND_HOME_PATH=os.path.join(BUILD, "vnpu"),
            STANDIN_TRAIN=os.path.join(ROOT, "examples", "train.py"),
        )
        environment.update(more)
        return environment

    def run_script(self, script, launcher=None, prelude=PRELUDE, status=0, preload=True, after="", **more):
        """Run a script in a directory of its own: after --load-api-env, or under the launcher with these options.

        `preload` may be the value of --load-api-env.
        `after` is shell text behind the command, like a pipe.
        """
        path = os.path.join(self.directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(prelude + textwrap.dedent(script))
        front = os.path.join(BUILD, "bin", "msmemscope")
        if launcher is not None:
            command = f"{front} {launcher} {PYTHON} {path}"
        elif preload:
            what = "npu" if preload is True else preload
            command = f"source {front} --load-api-env={what} >/dev/null && {PYTHON} {path} {after}"
        else:
            command = f"{PYTHON} {path} {after}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.environment(**more),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            preexec_fn=as_in_a_terminal,
        )
        run = Run(done.returncode, done.stdout.decode(), done.stderr.decode(), self.directory)
        if status is not None and run.status != status:
            self.fail(f"status {run.status}, not {status}\n{run.out}\n{run.err}")
        return run
