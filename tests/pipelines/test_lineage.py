"""Families stay together, and no neighbour changes a split."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from curate.pipelines.lineage import held_out, roots

names = st.sampled_from([f"{i:02d}" for i in range(12)])


@given(st.dictionaries(names, st.lists(names, max_size=2), min_size=1))
def test_prompts_share_a_root_exactly_when_parents_connect_them(parents: dict) -> None:
    frame = pl.DataFrame(
        {"id": list(parents), "parents": list(parents.values())},
        schema={"id": pl.String(), "parents": pl.List(pl.String())},
    )
    root = dict(zip(parents, roots(frame), strict=True))
    near: dict[str, set[str]] = {}
    for child, found in parents.items():
        near.setdefault(child, set()).update(found)
        for parent in found:
            near.setdefault(parent, set()).add(child)
    for one in parents:
        seen, todo = {one}, [one]
        while todo:
            for other in near[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        for other in parents:
            assert (root[one] == root[other]) == (other in seen)


def test_the_split_of_a_family_depends_on_no_other() -> None:
    keys = pl.Series([f"family-{i}" for i in range(4000)])
    out = held_out(keys, 0.1, seed=3)
    assert 0.07 < out.mean() < 0.13
    assert held_out(keys[1000:1010], 0.1, seed=3).equals(out[1000:1010])
    assert not held_out(keys, 0.1, seed=4).equals(out)


def test_share_zero_holds_nothing_out() -> None:
    assert not held_out(pl.Series(["a", "b"]), 0.0, seed=0).any()
