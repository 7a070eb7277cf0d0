"""The wheel: installed with pip into a new environment, it records, answers, and goes away."""

import glob
import os
import subprocess
import sys
import unittest

from harness import BUILD, PYTHON, ROOT, Case


class Wheel(Case):
    def sh(self, command, **more):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.environment(PYTHONPATH=os.path.join(ROOT, "test", "python", "standin"), **more),
            capture_output=True,
            timeout=300,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(b"WARNING: /", done.stderr)
        return done.stdout.decode()

    def test_install(self):
        wheel = self.sh(f"{sys.executable} {ROOT}/tools/wheel.py {BUILD} dist").strip()
        self.sh(f"{PYTHON} -m venv env && env/bin/python -m pip install --no-index --quiet {wheel}")
        self.assertIn("msmemscope", self.sh("env/bin/msmemscope --version"))
        script = os.path.join(self.directory, "script.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(
                "import torch, torch_npu, msmemscope\n"
                'msmemscope.config(output_path="out", events="alloc,free")\n'
                "msmemscope.start()\n"
                't = torch.empty(10, device="npu:0")\n'
                "msmemscope.stop()\n"
                "from msmemscope import _program\n"
                'print(_program.ask("stats", "out")[0], msmemscope.__file__)\n'
            )
        out = self.sh(f"source env/bin/msmemscope --load-api-env >/dev/null && env/bin/python {script}")
        self.assertIn(f"0 {self.directory}/env/lib", out)
        self.sh(f"env/bin/msmemscope --output-path=launched env/bin/python {script}")
        for output in ("out", "launched"):
            self.assertEqual(len(glob.glob(f"{self.directory}/{output}/*/device_0/dump/*.csv")), 1, output)
        self.sh("env/bin/python -m pip uninstall --quiet --yes msmemscope")
        self.assertEqual(glob.glob(f"{self.directory}/env/bin/msmem*"), [])


if __name__ == "__main__":
    unittest.main()
