"""The hooks into frameworks, against modules with the real import paths and names (abi.md 3.10)."""

import os
import unittest

from harness import Case

_RUNNER, _WORKER = "vllm_ascend.worker.model_runner_v1", "vllm_ascend.worker.worker"
_FSDP, _FSDP2 = "torch.distributed.fsdp.", "torch.distributed.fsdp._fully_shard."

# framework, version, component -> (module, function, owner of what it allocates)
LABELS = {
    ("vllm_ascend", "11.0", "worker"): [
        (_RUNNER, "NPUModelRunner.profile_run", "PTA@vllm@profile"),
        (_RUNNER, "NPUModelRunner.execute_model", "PTA@vllm@serve"),
        (_RUNNER, "NPUModelRunner.capture_model", "PTA@graph_pool"),
        (_WORKER, "NPUWorker.compile_or_warm_up_model", "PTA@vllm@warmup"),
    ],
    ("pytorch", "2.7", "fsdp1"): [
        (_FSDP + "fully_sharded_data_parallel", "FullyShardedDataParallel.forward", "PTA@fsdp1@activation"),
        (_FSDP + "_runtime_utils", "_pre_backward_hook", "PTA@fsdp1@backward"),
        (_FSDP + "_runtime_utils", "_post_backward_hook", "PTA@fsdp1@backward"),
        (_FSDP + "_runtime_utils", "_reduce_grad", "PTA@fsdp1@gradient"),
        (_FSDP + "_flat_param", "FlatParamHandle._init_flat_param_and_metadata", "PTA@fsdp1@sharded_weight"),
        (_FSDP + "_flat_param", "FlatParamHandle._alloc_padded_unsharded_flat_param", "PTA@fsdp1@all_gather"),
    ],
    ("pytorch", "2.9.1", "fsdp2"): [
        (_FSDP2 + "_fsdp_state", "FSDPState._pre_forward", "PTA@fsdp2@activation"),
        (_FSDP2 + "_fsdp_state", "FSDPState._post_forward", "PTA@fsdp2@activation"),
        (_FSDP2 + "_fsdp_state", "FSDPState._pre_backward", "PTA@fsdp2@backward"),
        (_FSDP2 + "_fsdp_param_group", "FSDPParamGroup.post_backward", "PTA@fsdp2@backward"),
        (_FSDP2 + "_fsdp_param", "FSDPParam._init_sharded_param", "PTA@fsdp2@sharded_weight"),
        (_FSDP2 + "_fsdp_param", "FSDPParam.init_all_gather_outputs", "PTA@fsdp2@all_gather_output"),
        (_FSDP2 + "_fsdp_collectives", "foreach_all_gather", "PTA@fsdp2@all_gather_output"),
        (_FSDP2 + "_fsdp_param_group", "foreach_all_gather", "PTA@fsdp2@all_gather_output"),
        (_FSDP2 + "_fsdp_collectives", "foreach_reduce", "PTA@fsdp2@gradient"),
        (_FSDP2 + "_fsdp_param_group", "foreach_reduce", "PTA@fsdp2@gradient"),
    ],
    ("pytorch", "2.10.0", "fsdp2"): [
        (_FSDP2 + "_fsdp_state", "FSDPState._pre_forward", "PTA@fsdp2@activation"),
        (_FSDP2 + "_fsdp_param_group", "FSDPParamGroup.post_backward", "PTA@fsdp2@backward"),
        (_FSDP2 + "_fsdp_param", "FSDPParam._init_sharded_param", "PTA@fsdp2@sharded_weight"),
        (_FSDP2 + "_fsdp_param", "FSDPParam.init_all_gather_outputs", "PTA@fsdp2@all_gather_output"),
        (_FSDP2 + "_fsdp_collectives", "DefaultAllGather.allocate", "PTA@fsdp2@all_gather_output"),
        (_FSDP2 + "_fsdp_collectives", "DefaultReduceScatter.allocate", "PTA@fsdp2@gradient"),
        (_FSDP2 + "_fsdp_collectives", "foreach_all_gather", "PTA"),
    ],
}

_OPTIMIZERS = "megatron.core.optimizer.optimizer"
SNAPSHOTS = {
    ("vllm_ascend", "11.0", "worker"): [
        (_RUNNER, "NPUModelRunner.load_model"),
        (_RUNNER, "NPUModelRunner.profile_run"),
        (_RUNNER, "NPUModelRunner.initialize_kv_cache"),
        (_RUNNER, "NPUModelRunner.execute_model"),
        (_RUNNER, "NPUModelRunner.capture_model"),
        (_WORKER, "NPUWorker.compile_or_warm_up_model"),
    ],
    ("verl", "0.7.0", "TaskRunner"): [
        ("verl.trainer.main_ppo", "TaskRunner." + name)
        for name in (
            "add_actor_rollout_worker",
            "add_critic_worker",
            "add_reward_model_worker",
            "add_ref_policy_worker",
            "run",
        )
    ],
    ("mindspeed_llm", "0.12.1", "training"): [
        ("mindspeed_llm.training.training", "train"),
        ("mindspeed_llm.training.training", "train_step"),
        ("megatron.training.training", "setup_model_and_optimizer"),
        ("megatron.training.training", "get_model"),
        ("megatron.core.optimizer", "get_megatron_optimizer"),
        ("mindspeed_llm.core.models.gpt.gpt_model", "GPTModel.forward"),
        ("mindspeed_llm.core.models.gpt.gpt_model", "GPTModel.compute_language_model_loss"),
        ("megatron.core.transformer.transformer_block", "TransformerBlock.forward"),
        ("megatron.core.transformer.transformer_layer", "TransformerLayer.forward"),
        ("megatron.core.transformer.attention", "SelfAttention.forward"),
        ("megatron.core.transformer.mlp", "MLP.forward"),
        ("megatron.core.transformer.moe.moe_layer", "MoELayer.forward"),
        ("megatron.core.transformer.moe.router", "TopKRouter.forward"),
        ("megatron.core.pipeline_parallel.schedules", "backward_step"),
        ("mindspeed_llm.core.pipeline_parallel.dualpipe.gpt_model", "gpt_model_backward"),
        ("megatron.core.tensor_parallel.cross_entropy", "vocab_parallel_cross_entropy"),
        (_OPTIMIZERS, "MegatronOptimizer.step"),
        (_OPTIMIZERS, "MixedPrecisionOptimizer.step"),
        (_OPTIMIZERS, "Float16OptimizerWithFloat16Params.step"),
        (_OPTIMIZERS, "FP32Optimizer.step"),
        (_OPTIMIZERS, "ChainedOptimizer.step"),
        ("megatron.core.optimizer.distrib_optimizer", "DistributedOptimizer.step_with_ready_grads"),
    ],
}

_ALLOCATE = 'kept.append(torch.empty(8, device="npu:0"))'


class Frameworks(Case):
    def write_modules(self, targets):
        """Modules in which each function allocates one tensor and returns its arguments."""
        modules = {}
        for module, function in targets:
            modules.setdefault(module, []).append(function)
        for module, functions in modules.items():
            path = os.path.join(self.directory, *module.split("."))
            if module.startswith("torch."):
                path = os.path.join(self.directory, "extra", *module.split("."))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            is_package = any(other.startswith(module + ".") for other in modules)
            if is_package:
                os.makedirs(path, exist_ok=True)
                path = os.path.join(path, "__init__")
            with open(path + ".py", "w", encoding="utf-8") as file:
                file.write("import torch\nkept = []\n")
                classes = {}
                for function in functions:
                    owner, _, name = function.rpartition(".")
                    classes.setdefault(owner, []).append(name)
                for owner, names in classes.items():
                    indent = "    " if owner else ""
                    if owner:
                        file.write(f"class {owner}:\n")
                    for name in names:
                        first = "self, " if owner else ""
                        file.write(
                            f"{indent}def {name}({first}*args, **kwargs):\n"
                            f"{indent}    {_ALLOCATE}\n{indent}    return args, kwargs\n"
                        )

    PRELUDE = """
import importlib, os, sys
import torch, torch_npu, msmemscope
torch.__path__.append(os.path.join(os.getcwd(), "extra", "torch"))
sys.path.insert(0, os.getcwd())
def call(module, function):
    owner, _, name = function.rpartition(".")
    m = importlib.import_module(module)
    f = getattr(getattr(m, owner)(), name) if owner else getattr(m, name)
    assert f(1, two=2) == ((1,), {"two": 2}), f
"""

    def calls(self, targets):
        return "".join(f'call("{module}", "{function}")\n' for module, function in targets)

    def owners(self, run):
        return [r["Attr"]["owner"] for r in run.rows() if r["Event"] == "MALLOC" and r["Event Type"] == "PTA"]

    def test_labels_by_hand(self):
        for (framework, version, component), entries in LABELS.items():
            with self.subTest(framework + version + component):
                self.setUp()
                targets = [(module, function) for module, function, _ in entries]
                self.write_modules(targets)
                run = self.run_script(
                    f"""
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.init_framework_hooks("{framework}", "{version}", "{component}", "decompose")
msmemscope.start()
{self.calls(targets)}
msmemscope.cleanup_framework_hooks()
msmemscope.cleanup_framework_hooks()
{self.calls(targets[:1])}
""",
                    prelude=self.PRELUDE,
                )
                self.assertEqual(self.owners(run), [owner for _, _, owner in entries] + ["PTA"])
                self.assertIn(f"registered successfully for framework '{framework}'", run.out)
                self.assertIn("All hijack function handlers have been released", run.out)
                self.assertIn("No registered hijack handlers, nothing to release", run.out)
                self.assertNotIn("All decompose hooks registered", run.out, "manual registration comes first")
                self.assertEqual(run.err, "")
                self.doCleanups()

    def test_labels_by_themselves(self):
        entries = LABELS[("vllm_ascend", "11.0", "worker")] + LABELS[("pytorch", "2.7", "fsdp1")]
        entries += LABELS[("pytorch", "2.9.1", "fsdp2")]
        targets = [(module, function) for module, function, _ in entries]
        self.write_modules(targets)
        run = self.run_script(
            f"""
importlib.import_module("{targets[0][0]}")
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.start()
{self.calls(targets)}
msmemscope.stop()
m = importlib.import_module("{targets[0][0]}")
print("hooked", hasattr(m.NPUModelRunner.profile_run, "__wrapped__"))
""",
            prelude=self.PRELUDE,
        )
        self.assertEqual(self.owners(run), [owner for _, _, owner in entries])
        self.assertIn("All decompose hooks registered", run.out)
        self.assertIn("hooked False", run.out)

    def test_by_hand_keeps_the_others_off(self):
        by_hand = LABELS[("pytorch", "2.7", "fsdp1")][:1]
        others = LABELS[("vllm_ascend", "11.0", "worker")]
        targets = [(module, function) for module, function, _ in by_hand + others]
        self.write_modules(targets)
        run = self.run_script(
            f"""
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.init_framework_hooks("pytorch", "2.7", "fsdp1", "decompose")
msmemscope.start()
{self.calls(targets)}
""",
            prelude=self.PRELUDE,
        )
        self.assertEqual(self.owners(run), [by_hand[0][2]] + ["PTA"] * len(others))
        self.assertEqual(run.out.count("skipping auto-enable"), 1)

    def test_snapshots(self):
        for (framework, version, component), targets in SNAPSHOTS.items():
            with self.subTest(framework):
                self.setUp()
                self.write_modules(targets)
                run = self.run_script(
                    f"""
msmemscope.config(output_path="out", events="alloc,free")
msmemscope.cleanup_framework_hooks()
msmemscope.init_framework_hooks("{framework}", "{version}", "{component}", "snapshot")
msmemscope.start()
{self.calls(targets)}
msmemscope.stop()
""",
                    prelude=self.PRELUDE,
                )
                names = [r["Name"] for r in run.rows() if r["Event"] == "SNAPSHOT"]
                expected = []
                for module, function in targets:
                    where = "@".join([module] + function.split("."))
                    expected += [where + "@Start", where + "@End"]
                self.assertEqual(names, expected)
                self.doCleanups()

    def test_absent_frameworks_change_nothing(self):
        run = self.run_script(
            """
before = set(sys.modules)
msmemscope.config(output_path="out", analysis="decompose")
for words in (("verl", "0.7.0", "TaskRunner", "snapshot"), ("mindspeed_llm", "0.12.1", "training", "snapshot")):
    msmemscope.init_framework_hooks(*words)
msmemscope.start()
for name in ("verl", "vllm_ascend", "torch.distributed.fsdp", "megatron.core"):
    try:
        importlib.import_module(name)
        print("imported", name)
    except ImportError:
        pass
print("new", [n for n in set(sys.modules) - before if n.startswith(("verl", "vllm", "megatron"))])
""",
            prelude=self.PRELUDE,
        )
        self.assertIn("new []", run.out)
        self.assertNotIn("imported", run.out)
        self.assertEqual(run.err, "")

    def test_unknown_words(self):
        run = self.run_script(
            """
for words in (
    ("tensorflow", "1", "x", "decompose"),
    ("pytorch", "2.5", "fsdp1", "decompose"),
    ("pytorch", "nightly", "fsdp1", "decompose"),
    ("pytorch", "2.7", "fsdp3", "decompose"),
    ("pytorch", "2.7", "fsdp1", "snapshot"),
):
    msmemscope.init_framework_hooks(*words)
msmemscope.cleanup_framework_hooks()
""",
            prelude=self.PRELUDE,
        )
        lines = run.err.splitlines()
        self.assertEqual(len(lines), 5)
        for line, words in zip(
            lines,
            (("tensorflow", "pytorch"), ("2.5", "2.6+"), ("nightly",), ("fsdp3", "fsdp1"), ("snapshot", "decompose")),
        ):
            for word in ("[msmemscope] Error: ", "不存在") + words:
                self.assertIn(word, line)
        self.assertIn("nothing to release", run.out)

    def test_an_error_of_the_function_takes_the_labels_back(self):
        path = os.path.join(self.directory, "verl", "trainer")
        os.makedirs(os.path.join(self.directory, "vllm_ascend", "worker"))
        del path
        with open(
            os.path.join(self.directory, "vllm_ascend", "worker", "model_runner_v1.py"), "w", encoding="utf-8"
        ) as file:
            file.write("class NPUModelRunner:\n    def profile_run(self):\n        raise KeyError('mine')\n")
        run = self.run_script(
            """
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.start()
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner
try:
    NPUModelRunner().profile_run()
except KeyError as e:
    print("raised", e)
t = torch.empty(8, device="npu:0")
""",
            prelude=self.PRELUDE,
        )
        self.assertIn("raised 'mine'", run.out)
        self.assertEqual(self.owners(run), ["PTA"])

    def test_weights_and_kv_cache_of_vllm(self):
        os.makedirs(os.path.join(self.directory, "vllm_ascend", "worker"))
        with open(
            os.path.join(self.directory, "vllm_ascend", "worker", "model_runner_v1.py"), "w", encoding="utf-8"
        ) as file:
            file.write(
                """
import torch
def t(n=8):
    return torch.empty(n, device="npu:0")
class Lora(torch.nn.Module):
    def __init__(self):
        self.lora_a_stacked = (t(), t())
        self.lora_b = {"x": t()}
class Model(torch.nn.Module):
    def __init__(self):
        self.weight = torch.nn.Parameter(t())
        self.buffer = t()
        self.inner = Lora()
class Drafter:
    pass
class FullAttentionSpec: pass
class MambaSpec: pass
class HiddenStateSpec: pass
class Group:
    def __init__(self, spec, *names):
        self.kv_cache_spec, self.layer_names = spec, names
class NPUModelRunner:
    def load_model(self):
        self.model = Model()
        self.drafter = Drafter()
        self.drafter.model = Model.__new__(Model)
        self.drafter.model.weight = torch.nn.Parameter(t())
    def initialize_kv_cache_tensors(self, config):
        self.kv_caches = {"a": t(), "m": [t(), t()], "h": (t(),), "unknown": t()}
        return self.kv_caches
class Config:
    kv_cache_groups = [Group(FullAttentionSpec(), "a"), Group(MambaSpec(), "m"), Group(HiddenStateSpec(), "h")]
"""
            )
        run = self.run_script(
            """
msmemscope.config(output_path="out", events="alloc,free", analysis="decompose")
msmemscope.start()
from vllm_ascend.worker.model_runner_v1 import Config, NPUModelRunner
runner = NPUModelRunner()
runner.load_model()
assert len(runner.initialize_kv_cache_tensors(Config())) == 4
""",
            prelude=self.PRELUDE,
        )
        self.assertEqual(
            self.owners(run),
            ["PTA@vllm@weights"] * 2
            + ["PTA@vllm@weights@lora"] * 3
            + ["PTA@vllm@weights@drafter"]
            + ["PTA@vllm@kv_cache@attn"]
            + ["PTA@vllm@kv_cache@mamba"] * 2
            + ["PTA@vllm@kv_cache@hidden_state", "PTA@vllm@kv_cache"],
        )
        self.assertEqual(run.err, "")


if __name__ == "__main__":
    unittest.main()
