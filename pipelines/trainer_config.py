"""What to hand each trainer beside the data, so that it keeps the curriculum's order.

Trainers that can be told not to shuffle get the ordered files and that setting; those that shuffle
whatever they are given get one run per stage (see ``trainer_staged``). The texts are fixed: only
names this package gives to its own files, and whole numbers, are put into them, never data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from curate.pipelines.trainer_staged import OPEN_INSTRUCT, OPENRLHF, SKYRL

#: What a chat template may add to a prompt, in tokens.
_TEMPLATE_TOKENS = 256
#: Prompts in a batch where the recipe names no number.
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Layout:
    """What was written for one trainer.

    Args:
        train: ordered training files, relative to the format's folder.
        validation: ordered validation files; empty when nothing was held out.
        stages: training files of each stage, in order.
        longest_chars: characters of the longest prompt, system message included.
        longest_bytes: the same in UTF-8 bytes.
        batch: prompts in a training batch, when the rows were put into blocks of so many.
    """

    train: Sequence[str]
    validation: Sequence[str]
    stages: Sequence[Sequence[str]]
    longest_chars: int
    longest_bytes: int
    batch: int | None

    @property
    def max_prompt_tokens(self) -> int:
        """A limit no prompt exceeds under a byte-level tokenizer: one token a byte at most."""
        return -(-(self.longest_bytes + _TEMPLATE_TOKENS) // 64) * 64


def config_files(trainer: str, layout: Layout) -> dict[str, str]:
    """Files to write into a format's folder: name → text."""
    return {name: render(layout) for name, render in _FILES[trainer].items()}


def _fill(text: str) -> Callable[[Layout], str]:
    """A text whose ``@NAME@`` marks are filled from a layout."""

    def render(layout: Layout) -> str:
        values = {
            "TRAIN": layout.train,
            "VALIDATION": layout.validation or layout.train,
        }
        filled = text
        for name, files in values.items():
            filled = filled.replace(f"@{name}_LINES@", _lines(files))
            filled = filled.replace(f"@{name}_LIST@", ",".join(f"$HERE/{file}" for file in files))
            filled = filled.replace(f"@{name}_YAML@", _yaml(files))
        for name, number in {
            "MAX_PROMPT": layout.max_prompt_tokens,
            "LONGEST_CHARS": layout.longest_chars,
            "LONGEST_BYTES": layout.longest_bytes,
            "BATCH": layout.batch or _BATCH,
        }.items():
            filled = filled.replace(f"@{name}@", str(number))
        stages = "\n".join(f'  "{" ".join(files)}"' for files in layout.stages)
        kind = layout.train[0].rpartition(".")[2]
        loader = {"jsonl": "json"}.get(kind, kind)
        return filled.replace("@STAGES@", stages).replace("@LOADER@", loader)

    return render


def _lines(files: Sequence[str]) -> str:
    return "\n".join(f'    "{file}",' for file in files)


def _yaml(files: Sequence[str]) -> str:
    return "\n".join(f"    - data_path: {file}" for file in files)


_TRL = '''\
"""GRPO with TRL on this folder, in curriculum order: python trl_train.py MODEL."""

import sys
from pathlib import Path

from curate.verifiers.rewards import trl_reward
from datasets import Dataset, load_dataset

HERE = Path(__file__).resolve().parent
FILES = [
@TRAIN_LINES@
]
GENERATIONS = 8
#: Longest prompt: @LONGEST_CHARS@ characters, @LONGEST_BYTES@ bytes.
SETTINGS = {
    "output_dir": "trl-output",
    "shuffle_dataset": False,  # TRL shuffles unless told not to
    "num_generations": GENERATIONS,
    # On one process this makes a batch of @BATCH@ prompts; divide the second by their number.
    "per_device_train_batch_size": GENERATIONS,
    "gradient_accumulation_steps": @BATCH@,
}


def rows() -> Dataset:
    """The training rows, in curriculum order."""
    files = [str(HERE / name) for name in FILES]
    return load_dataset("@LOADER@", data_files=files, split="train")


def main(model: str) -> None:
    """Train ``model``."""
    from trl import GRPOConfig, GRPOTrainer

    GRPOTrainer(
        model=model, args=GRPOConfig(**SETTINGS), train_dataset=rows(), reward_funcs=trl_reward
    ).train()


if __name__ == "__main__":
    main(sys.argv[1])
'''

_VERL = """\
#!/usr/bin/env bash
# PPO/GRPO with verl on this folder, in curriculum order: MODEL=… bash verl.sh [more settings]
#
# data.shuffle: verl shuffles unless told not to.
# data.max_prompt_length: the longest prompt has @LONGEST_CHARS@ characters (@LONGEST_BYTES@ bytes).
# verl's default of 512 tokens stops the run at the first longer one. The limit here is safe for
# byte-level tokenizers; lower it once you have counted tokens. filter_overlong_prompts drops what
# is still too long, which shifts the batches after it.
# Newer versions also know the reward as reward.custom_reward_function.*.
set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
python3 -m verl.trainer.main_ppo \\
  algorithm.adv_estimator=grpo \\
  data.train_files="[@TRAIN_LIST@]" \\
  data.val_files="[@VALIDATION_LIST@]" \\
  data.shuffle=False \\
  data.train_batch_size=@BATCH@ \\
  data.max_prompt_length=@MAX_PROMPT@ \\
  data.filter_overlong_prompts=True \\
  custom_reward_function.path="$HERE/reward.py" \\
  custom_reward_function.name=compute_score \\
  actor_rollout_ref.model.path="$MODEL" \\
  "$@"
"""

_VERL_REWARD = '''\
"""The reward verl loads from this file."""

from curate.verifiers.rewards import compute_score

__all__ = ["compute_score"]
'''

_NEMO_RL = """\
# Settings of NeMo-RL for this folder, in curriculum order. Run from this folder:
#   python nemo_rl_run.py NEMO_RL/examples/run_grpo.py --config nemo_rl.yaml
# after putting the path of your base settings here. NeMo-RL shuffles unless told not to.
# The longest prompt has @LONGEST_CHARS@ characters (@LONGEST_BYTES@ bytes).
defaults: NEMO_RL/examples/configs/grpo_math_1B.yaml
grpo:
  num_prompts_per_step: @BATCH@
data:
  shuffle: false
  max_input_seq_length: @MAX_PROMPT@
  train:
@TRAIN_YAML@
  validation:
@VALIDATION_YAML@
  default:
    dataset_name: ResponseDataset
    input_key: input
    output_key: output
    env_name: curate
    processor: math_hf_data_processor
    prompt_file: null
    system_prompt_file: null
env:
  curate: {}
"""

_NEMO_RL_RUN = '''\
"""Make NeMo-RL know the environment in curate_env.py, then run one of its scripts."""

import runpy
import sys

from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
from nemo_rl.environments.utils import register_env

NAME = "curate_env.CurateEnvironment"

ACTOR_ENVIRONMENT_REGISTRY[NAME] = PY_EXECUTABLES.SYSTEM
register_env("curate", NAME)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
'''

_NEMO_RL_ENV = '''\
"""A NeMo-RL environment that judges with curate's verifiers, in one turn."""

import ray
import torch
from curate.verifiers.rewards import nemo_rl_rewards
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn


@ray.remote(max_restarts=-1, max_task_retries=-1)
class CurateEnvironment(EnvironmentInterface):
    """Rewards of 1 and 0."""

    def __init__(self, config):
        self.config = config

    def step(self, message_log_batch, metadata):
        """Judge the last turn of each conversation."""
        rewards = torch.tensor(nemo_rl_rewards(message_log_batch, metadata))
        n = len(message_log_batch)
        fields = {
            "observations": [{"role": "environment", "content": ""}] * n,
            "metadata": metadata,
            "next_stop_strings": [None] * n,
            "rewards": rewards,
            "terminateds": torch.ones_like(rewards),
            "answers": [None] * n,
        }
        return EnvironmentReturn(**{key: fields[key] for key in EnvironmentReturn._fields})

    def global_post_process_and_metrics(self, batch):
        """Accuracy over a batch."""
        return batch, {"accuracy": batch["rewards"].mean().item()}
'''

_PRIME_RL = """\
# Settings of prime-rl for this folder. It reads an environment in source order: nothing to turn
# off. Install the environment first: uv pip install -e environment
# The longest prompt has @LONGEST_CHARS@ characters (@LONGEST_BYTES@ bytes).
[[orchestrator.train.env]]
id = "curate-pool"
"""

_ENVIRONMENT_PROJECT = """\
[project]
name = "curate-pool"
version = "0.1.0"
description = "A pool of verifiable prompts in curriculum order."
requires-python = ">=3.11"
dependencies = ["verifiers", "datasets", "curate-rlvr"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["curate_pool.py"]
"""

_ENVIRONMENT = '''\
"""An environment for the verifiers library over the pool in this module's parent folder."""

from pathlib import Path

import verifiers as vf
from curate.verifiers.rewards import verifiers_reward
from datasets import Dataset, load_dataset

POOL = Path(__file__).resolve().parent.parent


def load_environment(pool: str | None = None, files: str = "ordered-part-*") -> vf.Environment:
    """Single-turn prompts, rewarded 1 and 0.

    Args:
        pool: the folder that holds ``train``; needed unless this package is installed editable.
        files: which of its files to read, such as ``stage-00-part-*`` for one stage.
    """
    folder = Path(pool) if pool else POOL
    train = _rows(folder / "train", files)
    if train is None:
        raise FileNotFoundError(f"no {files} in {folder / 'train'}; pass pool=")
    return vf.SingleTurnEnv(
        dataset=train,
        eval_dataset=_rows(folder / "validation", "ordered-part-*") or train,
        rubric=vf.Rubric(funcs=[verifiers_reward]),
    )


def _rows(folder: Path, files: str) -> Dataset | None:
    for loader, kind in (("parquet", "parquet"), ("json", "jsonl")):
        found = sorted(str(path) for path in folder.glob(f"{files}.{kind}"))
        if found:
            return load_dataset(loader, data_files=found, split="train")
    return None
'''

_TEXTS: dict[str, dict[str, str]] = {
    "trl": {"trl_train.py": _TRL},
    "verl": {"verl.sh": _VERL, "reward.py": _VERL_REWARD},
    "openrlhf": OPENRLHF,
    "open-instruct": OPEN_INSTRUCT,
    "skyrl": SKYRL,
    "nemo-rl": {
        "nemo_rl.yaml": _NEMO_RL,
        "nemo_rl_run.py": _NEMO_RL_RUN,
        "curate_env.py": _NEMO_RL_ENV,
    },
    "prime-rl": {
        "prime_rl.toml": _PRIME_RL,
        "environment/pyproject.toml": _ENVIRONMENT_PROJECT,
        "environment/curate_pool.py": _ENVIRONMENT,
    },
}
_FILES = {
    trainer: {name: _fill(text) for name, text in texts.items()}
    for trainer, texts in _TEXTS.items()
}
