"""What a build is called where runs of many builds are listed."""

from pathlib import Path
from typing import cast

import httpx

from curate.pipelines.spec import BuildSpec
from curate.pipelines.step import Metric


def run_name(spec: BuildSpec) -> str:
    """Recipe and build directory.

    >>> run_name(BuildSpec(source="rows.jsonl", out=Path("builds/demo"), recipe="my/mine.yaml"))
    'mine-demo'
    """
    name = f"{Path(spec.recipe).stem}-{spec.out.resolve().name}"
    return "".join(c if c.isprintable() else " " for c in name)[:200]


def run_tags(spec: BuildSpec) -> list[str]:
    """Recipe and policy, as ``name:value``.

    >>> run_tags(BuildSpec(source="rows.jsonl", out=Path("b"), recipe="qa", policy="models/m1"))
    ['recipe:qa', 'policy:models/m1']
    """
    found = [f"recipe:{Path(spec.recipe).stem}"]
    if spec.policy is not None:
        found.append(f"policy:{without_login(spec.policy)}")
    return ["".join(c if c.isprintable() else " " for c in tag)[:200] for tag in found]


def shown(spec: BuildSpec) -> dict[str, Metric]:
    """What was asked for, as JSON, without user and password in any address."""

    def clean(value: Metric) -> Metric:
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items()}
        if isinstance(value, list):
            return [clean(each) for each in value]
        return without_login(value) if isinstance(value, str) else value

    return cast("dict[str, Metric]", clean(spec.model_dump(mode="json")))


def without_login(address: str) -> str:
    """A URL without user and password; anything else as it is.

    >>> without_login("http://me:secret@host:8000/v1#m"), without_login("org/model")
    ('http://host:8000/v1#m', 'org/model')
    """
    if "://" not in address:
        return address
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        return "(no address)"
    return str(url.copy_with(username=None, password=None)) if url.userinfo else address
