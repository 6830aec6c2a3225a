"""The rules of the layout: namespace packages, relative symlinks, one direction of imports."""

import ast
import subprocess
import sys
from pathlib import Path

CODE = ("pipelines", "curators", "selectors", "verifiers", "engines", "flows")

#: What each folder may import from its neighbours. `pipelines` is the spine and may use the
#: public doors of every kind; nothing below it may reach up except for the shared vocabulary.
ALLOWED = {
    "verifiers": {"curate.pipelines.errors"},
    "engines": {"curate.pipelines.errors"},
    "selectors": {"curate.pipelines.errors", "curate.pipelines.pool", "curate.pipelines.step"},
}


def test_no_code_folder_is_a_regular_package(root: Path) -> None:
    for folder in CODE:
        assert not list((root / folder).rglob("__init__.py")), folder


def test_every_code_folder_is_linked_relatively_into_the_package(root: Path) -> None:
    for folder in (*CODE, "data_cards"):
        link = root / "curate" / folder
        assert link.is_symlink(), folder
        assert str(link.readlink()) == f"../{folder}"


def test_the_standard_librarys_selectors_is_not_shadowed_from_the_root(root: Path) -> None:
    code = "import selectors; print(selectors.DefaultSelector.__name__)"
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "Selector" in run.stdout


def test_imports_point_one_way(root: Path) -> None:
    wrong = []
    for folder, allowed in ALLOWED.items():
        for path in (root / folder).glob("*.py"):
            for module in _imports(path):
                inside = f"{module}.".startswith(f"curate.{folder}.")
                if module.startswith("curate.") and not inside and module not in allowed:
                    wrong.append(f"{folder}/{path.name} imports {module}")
    assert not wrong


def test_help_imports_none_of_the_heavy_libraries() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from curate.cli import app; "
        "assert CliRunner().invoke(app, ['build', '--help']).exit_code == 0; "
        "print([m for m in ('torch', 'transformers', 'polars', 'prefect', 'sympy') "
        "if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_no_file_outgrows_two_ideas(root: Path) -> None:
    long = {
        f"{folder}/{path.name}": lines
        for folder in CODE
        for path in (root / folder).glob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long


def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found
