"""The Go program that answers questions about dumps: it comes with this package or lies in the tree around it."""

import os
import shutil
import subprocess

_HERE = os.path.dirname(os.path.abspath(__file__))


def root():
    """The directory that has bin/ and lib64/: below the package (a wheel), or around it; None when it is neither."""
    for directory in (os.path.join(_HERE, "_tool"), os.path.dirname(os.path.dirname(_HERE))):
        if os.path.exists(os.path.join(directory, "bin", "msmemscope.bin")):
            return directory
    return None


def path():
    """The program.

    Raises:
        FileNotFoundError: it is not there.
    """
    here = root()
    if here is not None:
        return os.path.join(here, "bin", "msmemscope.bin")
    found = shutil.which("msmemscope")
    if found is None:
        raise FileNotFoundError("the program msmemscope is neither beside the Python package nor in PATH")
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
