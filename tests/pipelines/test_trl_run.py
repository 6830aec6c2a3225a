"""Two real GRPO steps with TRL on our shards: its batches are ours, its rewards our verdicts."""

import runpy
from pathlib import Path

import pytest

from curate.pipelines.order import Order
from curate.pipelines.shard import Shard

TINY = Path(__file__).resolve().parents[2] / "engines" / "tiny"


@pytest.mark.slow
def test_trl_trains_on_our_shards_in_our_order(make_pool, context, tmp_path) -> None:
    trl = pytest.importorskip("trl")
    ctx = context()
    domains = ["sums", "others"] * 8
    questions = [f"What is {i} + {i + 1}?" for i in range(16)]
    pool = Order(by="random").run(make_pool(16, domain=domains, question=questions), ctx).kept
    Shard(formats=("trl",), validation=0, batch=4).run(pool, ctx)
    script = runpy.run_path(str(ctx.artifact / "shards/trl/trl_train.py"))
    assert script["SETTINGS"]["shuffle_dataset"] is False
    assert script["SETTINGS"]["gradient_accumulation_steps"] == 4
    rows = script["rows"]()
    seen: list[str] = []
    given: list[float | None] = []

    def reward(prompts, completions, **columns):
        found = script["trl_reward"](completions, **columns)
        seen.extend(columns["prompt_id"])
        given.extend(found)
        return found

    settings = {**script["SETTINGS"], "output_dir": str(tmp_path / "out"), "num_generations": 4,
                "per_device_train_batch_size": 4}  # fmt: skip
    more = {"max_steps": 2, "max_completion_length": 48, "use_cpu": True, "bf16": False,
            "report_to": [], "save_strategy": "no", "disable_tqdm": True}  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=str(TINY),
        args=trl.GRPOConfig(**settings, **more),
        train_dataset=rows,
        reward_funcs=reward,
    )
    trainer.train()
    assert trainer.state.global_step == 2
    assert seen == [key for key in rows["prompt_id"][:8] for _ in range(4)]
    assert set(given) <= {0.0, 1.0}
    assert 0 < sum(given) < len(given)  # the policy is right about some of the sums
