"""Lineage: prompts that share an ancestor belong together, in splits above all."""

import hashlib

import polars as pl


def roots(frame: pl.DataFrame) -> pl.Series:
    """The family of each prompt: the smallest id it is connected to through ``parents``.

    Parents that are not in the pool (rejected, or left out) still connect their children.

    Args:
        frame: pool rows.

    Returns:
        One id per row.
    """
    children = frame.filter(pl.col("parents").list.len() > 0)
    if children.is_empty():
        return frame["id"].alias("root")
    root: dict[str, str] = {}

    def find(node: str) -> str:
        top = node
        while root.get(top, top) != top:
            top = root[top]
        while root.get(node, node) != top:
            root[node], node = top, root[node]
        return top

    for child, parents in children.select("id", "parents").iter_rows():
        for parent in parents:
            one, other = find(child), find(parent)
            root[max(one, other)] = min(one, other)
    return pl.Series("root", [find(key) for key in frame["id"]], dtype=pl.String())


def held_out(families: pl.Series, share: float, seed: int) -> pl.Series:
    """True for the families that go to validation: by hash, so no neighbour changes it.

    Args:
        families: root id per row.
        share: expected share of families, 0 … 1.
        seed: the build's seed.
    """
    limit = int(share * 2**64)
    salt = f"split {seed}".encode()
    chosen = {
        family: int.from_bytes(hashlib.blake2b(family.encode(), digest_size=8, key=salt).digest())
        < limit
        for family in families.unique()
    }
    return pl.Series("held_out", [chosen[family] for family in families], dtype=pl.Boolean())
