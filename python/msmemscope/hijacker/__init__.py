"""Hooks into frameworks: labels and snapshots at the functions that matter (contract appendix B)."""

from .hijack_manager import (
    cleanup_framework_hooks,
    disable_decompose_hooks,
    enable_decompose_hooks,
    init_framework_hooks,
    memscope_hijack_manager,
)

__all__ = [
    "cleanup_framework_hooks",
    "disable_decompose_hooks",
    "enable_decompose_hooks",
    "init_framework_hooks",
    "memscope_hijack_manager",
]
