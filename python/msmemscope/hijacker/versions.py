"""Version keys of the map, and the versions that are installed."""

import sys

_DISTRIBUTIONS = {"pytorch": "torch", "vllm_ascend": "vllm_ascend", "verl": "verl", "mindspeed_llm": "mindspeed_llm"}


def matches(key, version):
    """Whether a version, like "2.6.1", is one of a key: "2.6", "2.6+", "2.6-2.9" (with every 2.9.x), "*".

    A text that is no version matches only "*".
    """
    parsed = _parse(version)
    if key == "*":
        return True
    if not parsed:
        return False
    if key.endswith("+"):
        return parsed >= _parse(key[:-1])
    if "-" in key:
        low, high = (_parse(part) for part in key.split("-", 1))
        return low <= parsed and parsed[: len(high)] <= high
    return parsed == _parse(key)


def is_range(key):
    """Whether a key names more than one version."""
    return key == "*" or key.endswith("+") or "-" in key


def installed(framework):
    """The version of the framework that is installed, "" when none is."""
    name = _DISTRIBUTIONS[framework]
    loaded = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # pragma: no cover
        return ""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _parse(text):
    numbers = []
    for part in str(text).split("+")[0].split("."):
        digits = ""
        for c in part:
            if not c.isdigit():
                break
            digits += c
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
