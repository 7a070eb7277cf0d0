"""The Go program that answers questions about dumps: in the tree around this package, or where a wheel has put it."""

import os
import shutil
import site
import subprocess
import sys

_NAME = "msmemscope.bin"


def path():
    """The program.

    Raises:
        FileNotFoundError: it is not there.
    """
    around = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for prefix in (around, sys.prefix, site.getuserbase()):
        program = os.path.join(prefix, "bin", _NAME)
        if os.access(program, os.X_OK):
            return program
    found = shutil.which(_NAME)
    if found is None:
        raise FileNotFoundError(f"{_NAME} is neither around the Python package nor in PATH")
    return found


def ask(*words):
    """Run ``msmemscope dump words...`` and return (status, standard output, standard error)."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(
        [path(), "dump"] + list(words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
