"""Registers and releases the hooks of hijack_map."""

from .. import _agent, describe
from ..take_snapshot import take_snapshot
from . import versions
from .engine import Hook
from .hijack_map import DECOMPOSE, HIJACK_MAP, Snapshot


class HijackManager:
    """The hooks that are registered, by hand or by themselves. No function is hooked twice for the same purpose."""

    def __init__(self):
        self._hooks = {}  # (type, target) -> (Hook, registered by hand)
        self.by_hand = False  # decompose hooks are the program's own business
        self.told = False

    def register(self, entries, hook_type, by_hand):
        """Register entries of the map; returns how many are new."""
        count = 0
        for entry in entries:
            hook = _hook(entry)
            key = (hook_type, hook.target)
            if key not in self._hooks:
                self._hooks[key] = (hook, by_hand)
                hook.activate()
                count += 1
        return count

    def release(self, by_hand):
        """Release what was registered by hand, or what was not; returns how many."""
        keys = [key for key, (_, manual) in self._hooks.items() if manual == by_hand]
        for key in keys:
            self._hooks.pop(key)[0].release()
        return len(keys)


def init_framework_hooks(framework, version, component, hook_type):
    """Hook the functions of a framework that matter for memory. Unknown words are told, and hook nothing.

    Args:
        framework: "vllm_ascend", "pytorch", "verl" or "mindspeed_llm".
        version: of the framework, "2.6" or "2.6.1"; a version key of the table works as well.
        component: "worker", "fsdp1", "fsdp2", "TaskRunner" or "training".
        hook_type: "decompose" or "snapshot".

    Raises:
        RuntimeError: the process is not recorded.
    """
    _agent.need()
    if hook_type == DECOMPOSE:
        memscope_hijack_manager.by_hand = True
        memscope_hijack_manager.release(by_hand=False)
    found = _look_up(framework, version, component, hook_type)
    if isinstance(found, str):
        _agent.say("Error", found)
        return
    memscope_hijack_manager.register(found, hook_type, by_hand=True)
    _agent.say(
        "Info",
        f"Hijack functions registered successfully for framework '{framework}', "
        f"version '{version}', component {component}, hook type {hook_type}",
    )


def cleanup_framework_hooks():
    """Put every hooked function back; hooks may then register themselves again."""
    memscope_hijack_manager.by_hand = memscope_hijack_manager.told = False
    count = memscope_hijack_manager.release(by_hand=True) + memscope_hijack_manager.release(by_hand=False)
    if count:
        _agent.say("Info", "All hijack function handlers have been released")
    else:
        _agent.say("Info", "No registered hijack handlers, nothing to release")


def enable_decompose_hooks():
    """What ``analysis="decompose"`` does by itself: every label of the map, for what the program imports.

    Where a framework's version is known, a range of versions that does not have it is left out; a single version of the
    map is the one that was tried, and may do for others.
    """
    manager = memscope_hijack_manager
    if manager.by_hand:
        if not manager.told:
            manager.told = True
            _agent.say("Info", "Manual call to init_framework_hooks(decompose) detected, skipping auto-enable")
        return
    count = 0
    for framework, by_version in HIJACK_MAP.items():
        version = versions.installed(framework)
        for key, by_component in by_version.items():
            if version and versions.is_range(key) and not versions.matches(key, version):
                continue
            for by_type in by_component.values():
                count += manager.register(by_type.get(DECOMPOSE, ()), DECOMPOSE, by_hand=False)
    if count:
        _agent.say("Info", f"All decompose hooks registered, {count} targets in total")


def disable_decompose_hooks():
    """Release what registered itself."""
    memscope_hijack_manager.release(by_hand=False)


def _look_up(framework, version, component, hook_type):
    """The entries, or a line that says which word is unknown."""
    if framework not in HIJACK_MAP:
        return _unknown("框架", framework, HIJACK_MAP)
    by_version = HIJACK_MAP[framework]
    keys = [version] if version in by_version else [k for k in by_version if versions.matches(k, version)]
    if not keys:
        return _unknown("版本", version, by_version)
    components = {}
    for key in keys:
        for name, by_type in by_version[key].items():
            types = components.setdefault(name, {})
            for name_of_type, entries in by_type.items():
                types.setdefault(name_of_type, []).extend(entries)
    if component not in components:
        return _unknown("组件", component, components)
    if hook_type not in components[component]:
        return _unknown("类型", hook_type, components[component])
    return components[component][hook_type]


def _unknown(what, word, accepted):
    return f"{what} '{word}' 不存在！当前支持的{what}: {list(accepted)}"


def _hook(entry):
    if isinstance(entry, Snapshot):
        name = "@".join(part for part in entry if part)
        return Hook(
            *entry,
            before=_careful(lambda: take_snapshot(name=name + "@Start"), name),
            after=_careful(lambda: take_snapshot(name=name + "@End"), name),
        )
    if entry.tagger is not None:
        tagger = _careful(entry.tagger, "@".join((entry.module, entry.owner, entry.function)))

        def tag(returned, *args, **unused):
            tagger(*args)
            return returned

        return Hook(entry.module, entry.owner, entry.function, result=tag)

    def push():
        for label, level in entry.labels:
            describe.describe_label(label, level)

    def pop():
        for label, level in reversed(entry.labels):
            describe.undescribe_label(label, level)

    return Hook(entry.module, entry.owner, entry.function, before=push, after=pop)


def _careful(work, where):
    """Work that cannot fail the program: what goes wrong is told once."""
    told = False

    def careful(*args):
        nonlocal told
        try:
            work(*args)
        except Exception as e:
            if not told:
                told = True
                _agent.say("Warn", f"the hook at {where} failed: {e}")

    return careful


memscope_hijack_manager = HijackManager()
