"""Which functions are hooked (abi.md 3.10): framework -> version key -> component -> type -> entries.

A version key is one version, ``X+`` for X and later, ``A-B`` for A to B with all patch releases of B, or ``*``.
"""

from collections import namedtuple

from ..describe import COMPONENT, DETAIL_1, PROCESS
from . import taggers

DECOMPOSE, SNAPSHOT = "decompose", "snapshot"

# labels: (label, level) while the function runs; tagger: called with the function's object after it.
Label = namedtuple("Label", "module owner function labels tagger")
# Snapshots when it is entered and left.
Snapshot = namedtuple("Snapshot", "module owner function")


def _labels(module, target, *labels):
    owner, _, function = target.rpartition(".")
    return Label(module, owner, function, labels, None)


def _tag(module, target, tagger):
    owner, _, function = target.rpartition(".")
    return Label(module, owner, function, (), tagger)


def _snapshots(module, *targets):
    return [Snapshot(module, *(target.rpartition(".")[::2])) for target in targets]


_VLLM_RUNNER, _VLLM_WORKER = "vllm_ascend.worker.model_runner_v1", "vllm_ascend.worker.worker"
_vllm = ("vllm", COMPONENT)

_VLLM_DECOMPOSE = [
    _labels(_VLLM_RUNNER, "NPUModelRunner.profile_run", _vllm, ("profile", PROCESS)),
    _labels(_VLLM_RUNNER, "NPUModelRunner.execute_model", _vllm, ("serve", PROCESS)),
    _labels(_VLLM_WORKER, "NPUWorker.compile_or_warm_up_model", _vllm, ("warmup", PROCESS)),
    _labels(_VLLM_RUNNER, "NPUModelRunner.capture_model", ("graph_pool", DETAIL_1)),
    _tag(_VLLM_RUNNER, "NPUModelRunner.load_model", taggers.tag_model_weights),
    _tag(_VLLM_RUNNER, "NPUModelRunner.initialize_kv_cache_tensors", taggers.tag_kv_cache),
]

_VLLM_SNAPSHOT = _snapshots(
    _VLLM_RUNNER,
    "NPUModelRunner.load_model",
    "NPUModelRunner.profile_run",
    "NPUModelRunner.initialize_kv_cache",
    "NPUModelRunner.execute_model",
    "NPUModelRunner.capture_model",
) + _snapshots(_VLLM_WORKER, "NPUWorker.compile_or_warm_up_model")

_FSDP1 = "torch.distributed.fsdp."
_fsdp1 = ("fsdp1", COMPONENT)

_FSDP1_DECOMPOSE = [
    _labels(
        _FSDP1 + "fully_sharded_data_parallel", "FullyShardedDataParallel.forward", _fsdp1, ("activation", PROCESS)
    ),
    _labels(_FSDP1 + "_runtime_utils", "_pre_backward_hook", _fsdp1, ("backward", PROCESS)),
    _labels(_FSDP1 + "_runtime_utils", "_post_backward_hook", _fsdp1, ("backward", PROCESS)),
    _labels(
        _FSDP1 + "_flat_param",
        "FlatParamHandle._init_flat_param_and_metadata",
        _fsdp1,
        ("sharded_weight", DETAIL_1),
    ),
    _labels(
        _FSDP1 + "_flat_param",
        "FlatParamHandle._alloc_padded_unsharded_flat_param",
        _fsdp1,
        ("all_gather", DETAIL_1),
    ),
    _labels(_FSDP1 + "_runtime_utils", "_reduce_grad", _fsdp1, ("gradient", DETAIL_1)),
]

_FSDP2 = "torch.distributed.fsdp._fully_shard."
_fsdp2 = ("fsdp2", COMPONENT)

_FSDP2_COMMON = [
    _labels(_FSDP2 + "_fsdp_state", "FSDPState._pre_forward", _fsdp2, ("activation", PROCESS)),
    _labels(_FSDP2 + "_fsdp_state", "FSDPState._post_forward", _fsdp2, ("activation", PROCESS)),
    _labels(_FSDP2 + "_fsdp_state", "FSDPState._pre_backward", _fsdp2, ("backward", PROCESS)),
    _labels(_FSDP2 + "_fsdp_param_group", "FSDPParamGroup.post_backward", _fsdp2, ("backward", PROCESS)),
    _labels(_FSDP2 + "_fsdp_param", "FSDPParam._init_sharded_param", _fsdp2, ("sharded_weight", DETAIL_1)),
    _labels(_FSDP2 + "_fsdp_param", "FSDPParam.init_all_gather_outputs", _fsdp2, ("all_gather_output", DETAIL_1)),
]

_FSDP2_TO_2_9 = _FSDP2_COMMON + [
    _labels(_FSDP2 + module, function, _fsdp2, (label, DETAIL_1))
    for function, label in (("foreach_all_gather", "all_gather_output"), ("foreach_reduce", "gradient"))
    for module in ("_fsdp_collectives", "_fsdp_param_group")
]

_FSDP2_FROM_2_10 = _FSDP2_COMMON + [
    _labels(_FSDP2 + "_fsdp_collectives", "DefaultAllGather.allocate", _fsdp2, ("all_gather_output", DETAIL_1)),
    _labels(_FSDP2 + "_fsdp_collectives", "DefaultReduceScatter.allocate", _fsdp2, ("gradient", DETAIL_1)),
]

_VERL_SNAPSHOT = _snapshots(
    "verl.trainer.main_ppo",
    "TaskRunner.add_actor_rollout_worker",
    "TaskRunner.add_critic_worker",
    "TaskRunner.add_reward_model_worker",
    "TaskRunner.add_ref_policy_worker",
    "TaskRunner.run",
)

_OPTIMIZERS = "megatron.core.optimizer.optimizer"

_MINDSPEED_SNAPSHOT = (
    _snapshots("mindspeed_llm.training.training", "train", "train_step")
    + _snapshots("megatron.training.training", "setup_model_and_optimizer", "get_model")
    + _snapshots("megatron.core.optimizer", "get_megatron_optimizer")
    + _snapshots("mindspeed_llm.core.models.gpt.gpt_model", "GPTModel.forward", "GPTModel.compute_language_model_loss")
    + _snapshots("megatron.core.transformer.transformer_block", "TransformerBlock.forward")
    + _snapshots("megatron.core.transformer.transformer_layer", "TransformerLayer.forward")
    + _snapshots("megatron.core.transformer.attention", "SelfAttention.forward")
    + _snapshots("megatron.core.transformer.mlp", "MLP.forward")
    + _snapshots("megatron.core.transformer.moe.moe_layer", "MoELayer.forward")
    + _snapshots("megatron.core.transformer.moe.router", "TopKRouter.forward")
    + _snapshots("megatron.core.pipeline_parallel.schedules", "backward_step")
    + _snapshots("mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model", "gpt_model_backward")
    + _snapshots("megatron.core.tensor_parallel.cross_entropy", "vocab_parallel_cross_entropy")
    + _snapshots(
        _OPTIMIZERS,
        "MegatronOptimizer.step",
        "MixedPrecisionOptimizer.step",
        "Float16OptimizerWithFloat16Params.step",
        "FP32Optimizer.step",
        "ChainedOptimizer.step",
    )
    + _snapshots("megatron.core.optimizer.distrib_optimizer", "DistributedOptimizer.step_with_ready_grads")
)

HIJACK_MAP = {
    "vllm_ascend": {"11.0": {"worker": {DECOMPOSE: _VLLM_DECOMPOSE, SNAPSHOT: _VLLM_SNAPSHOT}}},
    "pytorch": {
        "2.6+": {"fsdp1": {DECOMPOSE: _FSDP1_DECOMPOSE}},
        "2.6-2.9": {"fsdp2": {DECOMPOSE: _FSDP2_TO_2_9}},
        "2.10+": {"fsdp2": {DECOMPOSE: _FSDP2_FROM_2_10}},
    },
    "verl": {"0.7.0": {"TaskRunner": {SNAPSHOT: _VERL_SNAPSHOT}}},
    "mindspeed_llm": {"0.12.1": {"training": {SNAPSHOT: _MINDSPEED_SNAPSHOT}}},
}
