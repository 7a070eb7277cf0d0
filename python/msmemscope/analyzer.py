"""Offline analyses of a dump: the names, and the checks of the arguments. ``msmemscope dump`` does the work."""

import errno
import inspect
import os
import stat
import sys

from . import _program

_MOST_PATH = 4096  # characters
_MOST_BYTES = 8 << 30
_TYPES = ("early_allocation", "late_deallocation", "temporary_idleness")


class LeaksConfig:
    """What to look for: HAL memory allocated between two marks and not freed by the third.

    Args:
        input_path: a CSV file.
        mstx_info: the text of the marks.
        start_index: the number, from 0, of the first of the three marks.
    """

    def __init__(self, input_path, mstx_info, start_index):
        self.input_path, self.mstx_info, self.start_index = input_path, mstx_info, start_index


class InefficientConfig:
    """What to look for: memory that is allocated too early, freed too late or idle.

    Args:
        input_path: a CSV file or a database; the findings are written into it.
        mem_size: only blocks of this size or more, bytes.
        inefficient_type: one or a list of early_allocation, late_deallocation, temporary_idleness; None is all.
        idle_threshold: operators between two accesses of an idle block.
    """

    def __init__(self, input_path, mem_size=0, inefficient_type=None, idle_threshold=3000):
        self.input_path, self.mem_size = input_path, mem_size
        self.inefficient_type, self.idle_threshold = inefficient_type, idle_threshold


class LeaksAnalyzer:
    """Prints the leaks that a LeaksConfig describes."""

    def analyze(self, config):
        """Raises TypeError or ValueError for an argument; for the file also FileNotFoundError or PermissionError."""
        if not isinstance(config.mstx_info, str):
            raise TypeError("mstx_info must be a string")
        if not config.mstx_info.strip():
            raise ValueError("mstx_info must not be empty or blank")
        if not _is_count(config.start_index):
            raise ValueError("start_index must be a non-negative integer")
        path = _check_file(config.input_path, (".csv",), os.R_OK)
        _ask("check-leaks", "--mstx-info=" + config.mstx_info, f"--start-index={config.start_index}", path)


class InefficientAnalyzer:
    """Writes what an InefficientConfig finds into the file."""

    def analyze(self, config):
        """Raises ValueError for an argument, FileNotFoundError, PermissionError or ValueError for the file."""
        if not _is_count(config.mem_size):
            raise ValueError("Memory size must be a non-negative integer")
        types = list(_TYPES) if config.inefficient_type is None else config.inefficient_type
        types = [types] if isinstance(types, str) else types
        if not isinstance(types, (list, tuple)) or not types or not all(isinstance(t, str) and t for t in types):
            raise ValueError("Inefficient type must be a non-empty list or a single valid string")
        for t in types:
            if t not in _TYPES:
                raise ValueError(f"Invalid inefficient type: {t}, valid values are {list(_TYPES)}")
        if not _is_count(config.idle_threshold) or config.idle_threshold == 0:
            raise ValueError("Idle threshold must be a positive integer")
        path = _check_file(config.input_path, (".csv", ".db"), os.R_OK | os.W_OK)
        _ask(
            "check-inefficient",
            f"--mem-size={config.mem_size}",
            "--inefficient-type=" + ",".join(types),
            f"--idle-threshold={config.idle_threshold}",
            path,
        )


_ANALYZERS = {"leaks": (LeaksAnalyzer, LeaksConfig), "inefficient": (InefficientAnalyzer, InefficientConfig)}


def list_analyzers():
    """The names that analyze() takes."""
    return list(_ANALYZERS)


def get_analyzer_config(analyzer_type):
    """The class that holds an analyzer's arguments, and their names.

    Raises:
        ValueError: there is no such analyzer.
    """
    config = _of(analyzer_type)[1]
    return {"config_class": config, "parameters": list(inspect.signature(config).parameters)}


def analyze(analyzer_type, **kwargs):
    """Run an analyzer with the arguments of its config class.

    Raises:
        ValueError: there is no such analyzer; or what the analyzer raises.
        TypeError: an argument is missing or unknown.
    """
    analyzer, config = _of(analyzer_type)
    analyzer().analyze(config(**kwargs))


def check_leaks(input_path, mstx_info, start_index):
    """Print the HAL memory allocated between marks A and B and not freed by C, three mstx marks with one text.

    Args:
        input_path: a CSV file.
        mstx_info: the text of the marks.
        start_index: the number, from 0, of mark A among those with the text.

    Raises:
        TypeError: mstx_info is no string.
        ValueError: another argument, or the file's name, is not accepted, or the file is no dump.
        FileNotFoundError, PermissionError: the file is not there, or cannot be read.
    """
    LeaksAnalyzer().analyze(LeaksConfig(input_path, mstx_info, start_index))


def check_inefficient(input_path, mem_size=0, inefficient_type=None, idle_threshold=3000):
    """Mark what is allocated too early, freed too late or left idle: inefficient_type in MALLOC rows of the file.

    The dump needs rows of ACCESS and OP_LAUNCH: events="alloc,free,launch,access".

    Args:
        input_path: a CSV file or a database; the findings are written into it.
        mem_size: only blocks of this size or more, bytes.
        inefficient_type: one or a list of early_allocation, late_deallocation, temporary_idleness; None is all.
        idle_threshold: operators between two accesses of an idle block.

    Raises:
        ValueError: an argument, or the file's name, is not accepted, or the file is no dump.
        FileNotFoundError, PermissionError: the file is not there, or cannot be read and written.
    """
    InefficientAnalyzer().analyze(InefficientConfig(input_path, mem_size, inefficient_type, idle_threshold))


def _of(analyzer_type):
    try:
        return _ANALYZERS[analyzer_type]
    except (KeyError, TypeError):
        raise ValueError(f"Unknown analyzer type: {analyzer_type}. Available types are {list(_ANALYZERS)}") from None


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_file(path, suffixes, access):
    path = os.fspath(path)
    if len(path) > _MOST_PATH:
        raise ValueError(f"the path has {len(path)} characters; at most {_MOST_PATH} are accepted")
    if not path.endswith(suffixes):
        raise ValueError(
            "Unsupported file type: {}. Only files ending with {} are supported.".format(
                os.path.splitext(path)[1], " or ".join(suffixes)
            )
        )
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise FileNotFoundError(f"File not found: {path} or not a regular file")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"Read permission denied: {path}")
    if access & os.W_OK and not os.access(path, os.W_OK):
        raise PermissionError(f"Write permission denied: {path}")
    if info.st_size > _MOST_BYTES:
        raise ValueError(f"the file has {info.st_size} bytes; at most 8 GiB are accepted")
    return path if os.path.isabs(path) else os.path.join(".", path)


def _ask(*words):
    status, out, complaints = _program.ask(*words)
    sys.stdout.write(out)
    if status != 0:
        raise ValueError(complaints.strip() or f"msmemscope dump has failed with status {status}")
    sys.stderr.write(complaints)
