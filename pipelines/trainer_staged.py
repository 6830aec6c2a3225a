"""Runs, one a stage, for trainers that shuffle whatever they are given.

OpenRLHF, open-instruct and SkyRL shuffle their training data and cannot be told not to. Easy still
comes before hard when every stage is a run of its own over that stage's file, started from the
weights that the stage before it left. Marks in the texts are filled by ``trainer_config``.
"""

_STAGED = """\
#!/usr/bin/env bash
# @TRAINER@ on this folder, one run a stage: MODEL=… [OUT=…] bash @SCRIPT@ [more settings]
#
# @TRAINER@ shuffles its data and cannot be told not to, so each stage is a run of its own that
# starts from the weights of the one before. A stage that is done is not run again.
# The longest prompt has @LONGEST_CHARS@ characters (@LONGEST_BYTES@ bytes).
set -euo pipefail
HERE="$(cd "$(dirname "$0")" && pwd)"
OUT="$(realpath -m "${OUT:-@FOLDER@}")"
export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"
cd "$HERE"
STAGES=(
@STAGES@
)
model="$MODEL"
for stage in "${!STAGES[@]}"; do
  read -ra files <<< "${STAGES[$stage]}"
  out="$OUT/stage-$stage"
  if [ ! -e "$out/done" ]; then
    mkdir -p "$out"
@RUN@
    touch "$out/done"
  fi
@NEXT@
done
echo "trained model: $model"
"""


def _staged(trainer: str, script: str, folder: str, run: str, next_model: str) -> str:
    marks = {"TRAINER": trainer, "SCRIPT": script, "FOLDER": folder, "RUN": run, "NEXT": next_model}
    text = _STAGED
    for name, value in marks.items():
        text = text.replace(f"@{name}@", value.rstrip("\n"))
    return text


_OPENRLHF_RUN = """\
    python3 -m openrlhf.cli.train_ppo_ray \\
      --actor.model_name_or_path "$model" \\
      --reward.remote_url "$HERE/reward.py" \\
      --data.prompt_dataset "$(IFS=,; echo "${files[*]}")" \\
      --data.input_key prompt \\
      --data.label_key label \\
      --data.apply_chat_template \\
      --rollout.batch_size @BATCH@ \\
      --train.num_episodes 1 \\
      --ckpt.output_dir "$out" \\
      --ckpt.path "$out/ckpt" \\
      "$@"
"""

_OPEN_INSTRUCT_RUN = """\
    mixer=()
    for file in "${files[@]}"; do mixer+=("$HERE/$file" 1.0); done
    python3 open_instruct_run.py \\
      --model_name_or_path "$model" \\
      --dataset_mixer_list "${mixer[@]}" \\
      --dataset_mixer_list_splits train \\
      --apply_verifiable_reward true \\
      --max_prompt_token_length @MAX_PROMPT@ \\
      --num_unique_prompts_rollout @BATCH@ \\
      --num_epochs 1 \\
      --output_dir "$out" \\
      "$@"
"""

_SKYRL_RUN = """\
    python3 skyrl_run.py \\
      data.train_data="[$(printf "'$HERE/%s'," "${files[@]}")]" \\
      data.val_data="['$HERE/${files[0]}']" \\
      environment.env_class=curate \\
      trainer.algorithm.advantage_estimator=grpo \\
      trainer.policy.model.path="$model" \\
      trainer.train_batch_size=@BATCH@ \\
      trainer.max_prompt_length=@MAX_PROMPT@ \\
      trainer.epochs=1 \\
      trainer.eval_interval=-1 \\
      trainer.resume_mode=latest \\
      trainer.hf_save_interval=1000000 \\
      trainer.ckpt_path="$out/ckpt" \\
      trainer.export_path="$out/export" \\
      "$@"
"""

_SKYRL_NEXT = """\
  # SkyRL exports the model at the end of a run, in a folder named for the step.
  model="$(find "$out/export" -type d -name policy | sort -V | tail -n 1)"
"""

_OPENRLHF_REWARD = '''\
"""The reward OpenRLHF loads from this file."""

from curate.verifiers.rewards import reward_func

__all__ = ["reward_func"]
'''

_OPEN_INSTRUCT_VERIFIER = '''\
"""A verifier that open-instruct finds under the name in the rows' ``dataset`` column."""

from curate.verifiers.rewards import open_instruct_score
from open_instruct.ground_truth_utils import VerificationResult, VerifierFunction


class CurateVerifier(VerifierFunction):
    """Scores of 1 and 0."""

    def __init__(self, verifier_config=None):
        super().__init__("curate", verifier_config=verifier_config, weight=1.0)

    def __call__(self, tokenized_prediction, prediction, label, query=None, rollout_state=None):
        """Judge one response."""
        return VerificationResult(score=open_instruct_score(prediction, label))
'''

_OPEN_INSTRUCT_ENTRY = '''\
"""Make open-instruct know the verifier in curate_verifier.py, then run its GRPO."""

import runpy

import curate_verifier  # noqa: F401 (defining the class is what registers it)

runpy.run_module("open_instruct.grpo_fast", run_name="__main__")
'''

_SKYRL_ENV = '''\
"""A SkyRL environment that judges with curate's verifiers, in one turn."""

from curate.verifiers.rewards import skyrl_reward
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput


class CurateEnv(BaseTextEnv):
    """Rewards of 1 and 0."""

    def __init__(self, env_config=None, extras=None):
        super().__init__()
        self.extras = extras

    def step(self, action):
        """Judge the response."""
        reward = skyrl_reward(action, self.extras)
        return BaseTextEnvStepOutput(observations=[], reward=reward, done=True, metadata={})
'''

_SKYRL_ENTRY = '''\
"""Train with SkyRL, with the environment in skyrl_env.py registered."""

import sys

import ray
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp, validate_cfg
from skyrl.train.utils import initialize_ray
from skyrl_gym.envs import register


@ray.remote(num_cpus=1)
def train(config):
    """Run the experiment where the workers see the environment."""
    register(id="curate", entry_point="skyrl_env:CurateEnv")
    BasePPOExp(config).run()


if __name__ == "__main__":
    settings = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(settings)
    initialize_ray(settings)
    ray.get(train.remote(settings))
'''

_SAVED_IN_OUT = '  model="$out"\n'

OPENRLHF = {
    "openrlhf.sh": _staged(
        "OpenRLHF", "openrlhf.sh", "openrlhf-output", _OPENRLHF_RUN, _SAVED_IN_OUT
    ),
    "reward.py": _OPENRLHF_REWARD,
}
OPEN_INSTRUCT = {
    "open_instruct.sh": _staged(
        "open-instruct",
        "open_instruct.sh",
        "open-instruct-output",
        _OPEN_INSTRUCT_RUN,
        _SAVED_IN_OUT,
    ),
    "open_instruct_run.py": _OPEN_INSTRUCT_ENTRY,
    "curate_verifier.py": _OPEN_INSTRUCT_VERIFIER,
}
SKYRL = {
    "skyrl.sh": _staged("SkyRL", "skyrl.sh", "skyrl-output", _SKYRL_RUN, _SKYRL_NEXT),
    "skyrl_run.py": _SKYRL_ENTRY,
    "skyrl_env.py": _SKYRL_ENV,
}
