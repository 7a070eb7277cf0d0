"""The command msmemscope of an installed package: becomes the program beside it."""

import os
import sys

from . import _program


def main():
    """Run the front script of the tool in the place of this process."""
    here = _program.root()
    if here is None:
        sys.exit("[msmemscope] Error: the installation is incomplete: there is no bin/msmemscope.bin")
    front = os.path.join(here, "bin", "msmemscope")
    os.execv(front, [front] + sys.argv[1:])


if __name__ == "__main__":
    main()
