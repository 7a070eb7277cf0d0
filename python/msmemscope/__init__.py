"""Memory of Ascend NPUs from inside the program: what is recorded, and what it is for.

Everything works without torch and without an NPU, up to the calls that need one and say so.
"""

from . import describe
from .analyzer import analyze, check_inefficient, check_leaks, get_analyzer_config, list_analyzers
from .control import config, start, step, stop
from .hijacker import cleanup_framework_hooks, init_framework_hooks, memscope_hijack_manager
from .record_function import RecordFunction
from .sanitizer import enable_npu_sanitizer
from .take_snapshot import TakeSnapshot, take_snapshot
from .tracer import tracer
from .watcher import watcher

__all__ = [
    "RecordFunction",
    "TakeSnapshot",
    "analyze",
    "check_inefficient",
    "check_leaks",
    "cleanup_framework_hooks",
    "config",
    "describe",
    "enable_npu_sanitizer",
    "get_analyzer_config",
    "init_framework_hooks",
    "list_analyzers",
    "memscope_hijack_manager",
    "start",
    "step",
    "stop",
    "take_snapshot",
    "tracer",
    "watcher",
]
