"""Recipes: what is accepted, and where errors point."""

import pytest

from curate.pipelines.errors import ConfigError
from curate.pipelines.recipe import load_recipe, parse_settings, recipe_names, recipe_text


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write


GOOD = """\
name: mine
description: a test
steps:
  - qa
  - measure:
      rollouts: {per_prompt: 4}
      temperature: 0.7
  - order: {by: frontier_first}
  - shard
"""


@pytest.mark.parametrize("name", recipe_names())
def test_every_built_in_recipe_loads(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description.endswith(".")


def test_a_printed_recipe_is_the_recipe(write) -> None:
    for name in recipe_names():
        assert load_recipe(write(recipe_text(name))) == load_recipe(name)


def test_settings_are_laid_over_the_recipes(write) -> None:
    recipe = load_recipe(write(GOOD), parse_settings(["measure.rollouts.per_prompt=2"]))
    measure = recipe.plain()["steps"][1]["measure"]
    assert measure["rollouts"] == {"per_prompt": 2}
    assert measure["temperature"] == 0.7


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("per_prompt: 4", "per_prompt: 0", 6, "measure.rollouts.per_prompt: .*greater than"),
        (
            "temperature: 0.7",
            "temprature: 0.7",
            7,
            "measure.temprature: no such setting; measure has rollouts, temperature, ",
        ),
        ("temperature: 0.7", "temperature: hot", 7, "measure.temperature: .*valid number"),
        ("frontier_first", "sideways", 8, "order.by: Input should be 'easy_to_hard'"),
        ("- shard", "- sherd", 9, "unknown step 'sherd'; known: check"),
        ("- shard", "- {shard: {}, order: {}}", 9, "a step is a name"),
        ("- qa", "- 7", 4, "a step is a name"),
        ("description", "descripton", 2, "unknown key 'descripton'"),
        ("{by: frontier_first}", "{by: frontier_first", 10, "expected"),
    ],
)
def test_an_error_names_the_path_and_the_line(write, old, new, line, message) -> None:
    path = write(GOOD.replace(old, new))
    with pytest.raises(ConfigError, match=rf"mine\.yaml:{line}: {message}"):
        load_recipe(path)


@pytest.mark.parametrize(
    "steps, message",
    [
        ("[qa, order, shard]", "order needs pass_rate, which no step before it gives"),
        ("[qa, shard]", "shard needs rank"),
        ("[dedup, qa]", "the first step must be a curator"),
        ("[qa, qa]", "qa must be the first step"),
        ("[]", "the first step must be a curator"),
    ],
)
def test_a_line_that_cannot_run_is_refused_before_it_starts(write, steps, message) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(write(f"name: x\nsteps: {steps}\n"))


@pytest.mark.parametrize("text", ["", "- qa\n", "steps: qa\n", "just words"])
def test_what_is_no_recipe_is_said_to_be_none(write, text) -> None:
    with pytest.raises(ConfigError, match="a recipe is a mapping"):
        load_recipe(write(text))


def test_yaml_tags_build_no_objects(write) -> None:
    with pytest.raises(ConfigError):
        load_recipe(write("steps: !!python/object/apply:os.system ['true']\n"))


def test_a_missing_recipe_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown recipe 'nope'; built-in: frontier, qa"):
        load_recipe("nope")
    with pytest.raises(ConfigError, match=r"recipe nope\.yaml: cannot be read"):
        load_recipe("nope.yaml")


@pytest.mark.parametrize("bad", ["measure", "measure=1", ".x=1", "a.b=[1"])
def test_a_malformed_set_is_shown_back(bad: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        parse_settings([bad])


def test_a_set_for_a_step_the_recipe_lacks_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--set compose: recipe 'qa' has no such step"):
        load_recipe("qa", {"compose": {"depth": 2}})
