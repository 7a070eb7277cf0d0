"""Labels by address for what a vLLM model runner holds after loading and after making its KV cache (abi.md 3.10)."""

from ..describe import COMPONENT, DETAIL_1, DETAIL_2, describe_addr

_VLLM = ("vllm", COMPONENT)


def tag_model_weights(runner):
    """Label the weights: of LoRA, of the drafter, then of the model. What several share has the first label."""
    seen = set()
    model = getattr(runner, "model", None)
    for tensor in _lora_tensors(model):
        _label(tensor, seen, _VLLM, ("weights", DETAIL_1), ("lora", DETAIL_2))
    for tensor in _tensors(getattr(getattr(runner, "drafter", None), "model", None)):
        _label(tensor, seen, _VLLM, ("weights", DETAIL_1), ("drafter", DETAIL_2))
    for tensor in _tensors(model):
        _label(tensor, seen, _VLLM, ("weights", DETAIL_1))


def tag_kv_cache(runner, kv_cache_config=None, *unused):
    """Label the KV cache of each layer, with the kind that its specification names."""
    kinds = _layer_kinds(runner, kv_cache_config)
    seen = set()
    caches = getattr(runner, "kv_caches", None)
    items = caches.items() if isinstance(caches, dict) else enumerate(caches or ())
    names = list(kinds)
    for key, cache in items:
        name = key if isinstance(key, str) else (names[key] if key < len(names) else None)
        kind = kinds.get(name)
        labels = [_VLLM, ("kv_cache", DETAIL_1)] + ([(kind, DETAIL_2)] if kind else [])
        for tensor in _flatten(cache):
            _label(tensor, seen, *labels)


def _layer_kinds(runner, config):
    """Layer name -> attn, mamba or hidden_state, by the class of its specification."""
    specs = {}
    ask = getattr(runner, "_get_layer_kv_cache_specs", None)
    if callable(ask):
        specs = ask(config) or {}
    else:
        for group in getattr(config, "kv_cache_groups", None) or ():
            for name in group.layer_names:
                specs[name] = group.kv_cache_spec
    return {name: _kind(type(spec).__name__) for name, spec in specs.items()}


def _kind(class_name):
    lower = class_name.lower()
    if "mamba" in lower:
        return "mamba"
    return "hidden_state" if "hidden" in lower else "attn"


def _tensors(model):
    for name in ("parameters", "buffers"):
        listed = getattr(model, name, None)
        if callable(listed):
            yield from listed()


def _lora_tensors(model):
    """LoRA layers keep their matrices in attributes lora_a..., lora_b..., dictionaries or tuples of tensors."""
    modules = getattr(model, "modules", None)
    for module in modules() if callable(modules) else ():
        for name, value in vars(module).items():
            if name.startswith(("lora_a", "lora_b")):
                yield from _flatten(value)


def _flatten(value):
    if hasattr(value, "data_ptr"):
        yield value
    elif isinstance(value, dict):
        for element in value.values():
            yield from _flatten(element)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _flatten(element)


def _label(tensor, seen, *labels):
    address = tensor.data_ptr()
    if address and address not in seen:
        seen.add(address)
        describe_addr(address, list(labels))
