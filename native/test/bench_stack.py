"""What an event costs with call stacks. Usage: msmemscope --call-stack=... python3 bench_stack.py LIBRARY"""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
library.deep_events.restype = ctypes.c_double


def down(n):
    return down(n - 1) if n else library.deep_events(30)


print(f"python {sys.version_info[0]}.{sys.version_info[1]}: {down(30):.0f} ns per event")
