"""Labels on weights, gradients and optimizer states, put on when an optimizer has made a step (contract 5.5)."""

from . import _agent
from .describe import DETAIL_1, describe_addr

_handle = None


def switch(on):
    """Install the hook, or take it away."""
    global _handle
    if on and _handle is None:
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:  # an old torch
            return
        _handle = register_optimizer_step_post_hook(_after_step)
        _agent.say("Info", "Enable optimizer step hook.", line="[msmemscope]: Enable optimizer step hook.")
    elif not on and _handle is not None:
        _handle.remove()
        _handle = None


def _after_step(optimizer, *unused):
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            _label(parameter, "weight")
            _label(parameter.grad, "gradient")
            state = optimizer.state.get(parameter)
            if isinstance(state, dict):
                for value in state.values():
                    _label(value, "optimizer_state")


def _label(tensor, label):
    tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
    if hasattr(tensor, "data_ptr") and "npu" in str(tensor.device):
        address = tensor.data_ptr()
        if address:
            describe_addr(address, [(label, DETAIL_1)])
