"""Recipes: YAML lists of steps with settings, checked so that errors name the path and the line.

A recipe reads::

    name: frontier
    description: one line
    steps:
      - qa
      - measure: {rollouts: {per_prompt: 8}}
      - order: {by: staged}
      - shard

and may say what it reads, each source with its own settings (see ``SourceSpec``)::

    sources:
      - {uri: gsm8k.jsonl, domain: arithmetic, weight: 2}
      - {uri: "hf:owner/name:main:train", kind: math, weight: 1}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml
from pydantic import BaseModel, ValidationError

from curate.pipelines.errors import ConfigError
from curate.pipelines.mixture import SourceSpec
from curate.pipelines.step import Step, step_class

Settings: TypeAlias = dict[str, object]
_BUILT_IN = files("curate.pipelines") / "recipes"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A checked recipe.

    Args:
        name: its word.
        description: one line.
        steps: configured steps, in order.
        sources: what it reads when nothing else is given; may be empty.
    """

    name: str
    description: str
    steps: tuple[Step, ...]
    sources: tuple[SourceSpec, ...] = ()

    def plain(self) -> dict[str, object]:
        """Every setting spelled out, as the manifest keeps it."""
        sources = [spec.model_dump(mode="json", exclude_defaults=True) for spec in self.sources]
        return {
            "name": self.name,
            "description": self.description,
            **({"sources": sources} if sources else {}),
            "steps": [{step.name: step.model_dump(mode="json")} for step in self.steps],
        }


def recipe_names() -> list[str]:
    """The built-in recipes."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in _BUILT_IN.iterdir()
        if entry.name.endswith(".yaml")
    )


def recipe_text(name: str) -> str:
    """The YAML of a built-in recipe or of a file.

    Raises:
        ConfigError: there is no such recipe, or the file can't be read.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        try:
            return Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {name}: cannot be read: {error}") from error
    if name not in recipe_names():
        raise ConfigError(
            f"unknown recipe {name!r}; built-in: {', '.join(recipe_names())} "
            "(or give a path ending in .yaml)"
        )
    return (_BUILT_IN / f"{name}.yaml").read_text(encoding="utf-8")


def load_recipe(name: str, overrides: Mapping[str, Mapping[str, object]] | None = None) -> Recipe:
    """Load and check a recipe.

    Args:
        name: a built-in name or a path ending in ``.yaml``.
        overrides: step name → settings laid over the recipe's, nested mappings merged.

    Raises:
        ConfigError: unknown step, bad setting, wrong shape; with path, line and field.
    """
    text = recipe_text(name)
    where = name if name.endswith((".yaml", ".yml")) else f"recipe {name}"
    root, document = _read(text, where)
    lines = _Lines(where, root)
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        raise ConfigError(f"{where}:1: a recipe is a mapping with name, description and steps")
    unknown = set(document) - {"name", "description", "sources", "steps"}
    if unknown:
        raise ConfigError(f"{lines.at((min(unknown),))}: unknown key {min(unknown)!r}")
    left = dict(overrides or {})
    steps = []
    for index, entry in enumerate(document["steps"]):
        word, settings = _entry(entry, lines.at(("steps", index)))
        settings = merge(settings, left.pop(word, {}))
        steps.append(_configure(word, settings, lines, index))
    if left:
        raise ConfigError(
            f"--set {min(left)}: recipe {name!r} has no such step; it has "
            + ", ".join(step.name for step in steps)
        )
    _check_line(steps, where)
    return Recipe(
        str(document.get("name", Path(name).stem)), str(document.get("description", "")),
        tuple(steps), _sources(document.get("sources"), lines),
    )  # fmt: skip


def parse_settings(assignments: Sequence[str]) -> dict[str, dict[str, object]]:
    """``--set step.field.sub=VALUE`` (VALUE is YAML) → overrides for ``load_recipe``.

    >>> parse_settings(["measure.rollouts.per_prompt=4"])
    {'measure': {'rollouts': {'per_prompt': 4}}}
    """
    result: dict[str, dict[str, object]] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        words = path.strip().split(".")
        if not equals or len(words) < 2 or not all(words):
            raise ConfigError(f"--set {assignment!r}: expected step.field=value")
        try:
            value = cast(object, yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {assignment!r}: value is not YAML") from error
        for word in reversed(words[1:]):
            value = {word: value}
        result[words[0]] = merge(result.get(words[0], {}), cast(Settings, value))
    return result


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base``, nested mappings merged; neither is changed."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            value = merge(old, value)
        merged[key] = value
    return merged


def _entry(entry: object, where: str) -> tuple[str, Settings]:
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and len(entry) == 1:
        (word, settings), *_ = entry.items()
        if isinstance(word, str) and (settings is None or isinstance(settings, dict)):
            return word, settings or {}
    raise ConfigError(f"{where}: a step is a name, or a name with a mapping of settings")


def _configure(word: str, settings: Settings, lines: "_Lines", index: int) -> Step:
    try:
        cls = step_class(word)
    except ConfigError as error:
        raise ConfigError(f"{lines.at(('steps', index))}: {error}") from None
    try:
        return cls.model_validate(settings)
    except ValidationError as error:
        raise _wrong(error, word, cls, lines, ("steps", index, word)) from None


def _sources(entries: object, lines: "_Lines") -> tuple[SourceSpec, ...]:
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise ConfigError(f"{lines.at(('sources',))}: sources is a list of URIs or mappings")
    specs = []
    for index, entry in enumerate(entries):
        try:
            specs.append(
                SourceSpec.model_validate({"uri": entry} if isinstance(entry, str) else entry)
            )
        except ValidationError as error:
            raise _wrong(error, "sources", SourceSpec, lines, ("sources", index)) from None
    return tuple(specs)


def _wrong(
    error: ValidationError,
    word: str,
    model: type[BaseModel],
    lines: "_Lines",
    path: tuple[object, ...],
) -> ConfigError:
    first = error.errors()[0]
    field = ".".join([word, *(str(part) for part in first["loc"])])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) if len(first["loc"]) == 1 else ""
        message = f"no such setting{f'; {word} has {known}' if known else ''}"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return ConfigError(f"{lines.at((*path, *first['loc']))}: {field}: {message}{more}")


def _check_line(steps: Sequence[Step], where: str) -> None:
    if not steps or "source" not in steps[0].needs:
        raise ConfigError(
            f"{where}: the first step must be a curator (qa, …), which reads the source"
        )
    later = [step.name for step in steps[1:] if "source" in step.needs]
    if later:
        raise ConfigError(f"{where}: {later[0]} must be the first step")
    there: set[str] = set()
    for step in steps:
        missing = step.required_columns() - there
        if missing:
            raise ConfigError(
                f"{where}: {step.name} needs {', '.join(sorted(missing))}, which no step before it "
                "gives (measure gives pass rates, order gives ranks)"
            )
        there |= step.gives


class _Lines:
    """Line numbers of a YAML document's nodes."""

    def __init__(self, where: str, root: yaml.Node | None) -> None:
        self.where, self.root = where, root

    def at(self, path: tuple[object, ...]) -> str:
        """``file:line`` of the deepest node on ``path`` that exists."""
        node, line = self.root, 1
        for part in path:
            found = _child(node, part)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return f"{self.where}:{line}"


def _child(node: yaml.Node | None, part: object) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _read(text: str, where: str) -> tuple[yaml.Node | None, object]:
    """The document twice: as nodes, which know their lines, and as values."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader), cast(object, yaml.safe_load(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or "not YAML"
        raise ConfigError(f"{where}:{line}: {problem}") from error
