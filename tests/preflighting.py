"""What tests of the preflight ask of a folder and of findings."""

from pathlib import Path

from curate.pipelines.findings import Finding


def tree(folder: Path) -> dict[str, tuple[bytes | None, int, int]]:
    """Content, mode and time of change of everything under a folder."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else None, path.stat().st_mode,
            path.stat().st_mtime_ns,
        )
        for path in [folder, *folder.rglob("*")]
    }  # fmt: skip


def failures(found: dict[str, Finding]) -> set[str]:
    return {finding.name for finding in found.values() if finding.state == "failed"}
