"""Optimizers: states that appear with the first step, and hooks behind every step."""

from .. import _ops

_post_hooks = {}


class _Handle:
    def __init__(self, key):
        self._key = key

    def remove(self):
        _post_hooks.pop(self._key, None)


def register_optimizer_step_post_hook(hook):
    """hook(optimizer, args, kwargs) after each step of any optimizer."""
    key = object()
    _post_hooks[key] = hook
    return _Handle(key)


class Optimizer:
    """The base: groups of parameters, and a state for each."""

    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters)}]
        self.state = {}

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p)
        for hook in list(_post_hooks.values()):
            hook(self, (), {})

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None


class Adam(Optimizer):
    """Two states for each parameter."""

    def _update(self, p):
        if p not in self.state:
            self.state[p] = {
                "step": 0,
                "exp_avg": _ops.call("aten::ones_like", p),
                "exp_avg_sq": _ops.call("aten::ones_like", p),
            }
        self.state[p]["step"] += 1
        p.add_(p.grad)
