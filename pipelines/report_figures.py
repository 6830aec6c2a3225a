"""The geometry of report.html's figures: shares and ticks, computed here, drawn by the template."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import polars as pl

Row = dict[str, Any]

#: Height of the histogram's plot in CSS pixels; its width is whatever the page gives it.
PLOT_HEIGHT = 200
_STRIP_BINS = 20
_MAX_VALUES = 8
_VALUE = 80
_MAX_FACTS = 200
#: What a pool is made of, in the order shown; the column's null has a name of its own.
_COMPOSITION = (
    ("kind", "verifier kind"), ("domain", "domain"), ("format", "format"), ("source", "source"),
    ("license", "licence"), ("method", "made by"), ("language", "language"), ("split", "split"),
)  # fmt: skip


def funnel(steps: Sequence[Row]) -> list[Row]:
    """One bar a step: what it let through and what it rejected, as percentages of the widest.

    A bar is ``rows in + made`` long, which is ``rows out + rejected``.
    """
    widest = max((step["rows_in"] + step["made"] for step in steps), default=0) or 1
    return [
        {
            **{key: step[key] for key in ("name", "rows_in", "made", "rejected", "rows_out")},
            "kept": percent(step["rows_out"], widest),
            "lost": percent(step["rejected"], widest),
            "lost_share": step["rejected"] / max(1, step["rows_in"] + step["made"]),
        }
        for step in steps
    ]


def percent(part: float, whole: float) -> float:
    """``part`` of ``whole`` in percent, to a hundredth.

    >>> percent(1, 3)
    33.33
    """
    return round(100 * part / whole, 2) if whole else 0.0


def ticks(top: int, most: int = 5) -> list[int]:
    """Round, whole numbers from 0 to at least ``top``, at most ``most`` steps.

    >>> ticks(137)
    [0, 50, 100, 150]
    """
    sizes = (digit * 10**power for power in count() for digit in (1, 2, 5))
    step = next(size for size in sizes if size * most >= top)
    return [step * index for index in range(-(-max(top, 1) // step) + 1)]


def histogram(summary: Mapping[str, Any]) -> Row | None:
    """Bars of ``summary``'s pass-rate histograms before and after, or None when there are none.

    Returns:
        ``bins``: label, counts, and bar heights in pixels of ``PLOT_HEIGHT``; ``ticks``: value and
        its height; ``height``.
    """
    before: list[int] = (summary.get("before") or {}).get("p_hat_histogram") or []
    after: list[int] = (summary.get("after") or {}).get("p_hat_histogram") or []
    if not before and not after:
        return None
    before, after = before or [0] * len(after), after or [0] * len(before)
    axis = ticks(max(*before, *after))

    def height(count: int) -> float:
        return round(PLOT_HEIGHT * count / axis[-1], 1)

    n = len(before)
    return {
        "height": PLOT_HEIGHT,
        "ticks": [{"value": value, "height": height(value)} for value in axis],
        "bins": [
            {
                "low": f"{index / n:.1f}",
                "high": f"{(index + 1) / n:.1f}",
                "x": percent(index, n),
                "before": before[index],
                "after": after[index],
                "before_height": height(before[index]),
                "after_height": height(after[index]),
            }
            for index in range(n)
        ],
    }


def stages(frame: pl.DataFrame) -> list[Row]:
    """Size, mean pass rate and a strip of the pass rates of every stage of a pool.

    A strip is ``_STRIP_BINS`` cells over 0…1, each with its count and an opacity in proportion.
    """
    found: list[Row] = []
    for (stage,), part in (
        frame.drop_nulls("stage").sort("stage").group_by(["stage"], maintain_order=True)
    ):
        rates = part["p_hat"].drop_nulls()
        cells = (rates * _STRIP_BINS).floor().clip(0, _STRIP_BINS - 1).cast(pl.Int64)
        counts = dict(cells.value_counts().iter_rows())
        top = max(counts.values(), default=1)
        found.append(
            {
                "stage": stage,
                "rows": len(part),
                "share": percent(len(part), len(frame)),
                "mean_p_hat": rates.mean(),
                "mean_q_hat": part["q_hat"].mean(),
                "strip": [
                    {
                        "x": percent(cell, _STRIP_BINS),
                        "low": f"{cell / _STRIP_BINS:.2f}",
                        "high": f"{(cell + 1) / _STRIP_BINS:.2f}",
                        "n": n,
                        "opacity": round(0.25 + 0.75 * n / top, 2),
                    }
                    for cell, n in sorted(counts.items())
                ],
            }
        )
    return found


def composition(frame: pl.DataFrame) -> list[Row]:
    """How many prompts there are of every kind, domain, source and so on.

    Columns in which all rows are alike tell nothing and are left out, but for the kind.
    """
    found: list[Row] = []
    for column, label in _COMPOSITION:
        counts = list(
            frame[column]
            .value_counts(sort=True)
            .sort("count", column, descending=[True, False])
            .iter_rows()
        )
        if len(counts) < 2 and (column != "kind" or not counts):
            continue
        shown, rest = counts[:_MAX_VALUES], counts[_MAX_VALUES:]
        rows = [(("not stated" if value is None else value[:_VALUE]), n) for value, n in shown]
        if rest:
            rows.append((f"{len(rest):,} others", sum(n for _, n in rest)))
        found.append(
            {
                "label": label,
                "rows": [
                    {"value": value, "n": n, "share": percent(n, len(frame))} for value, n in rows
                ],
            }
        )
    return found


def facts(metrics: object, path: str = "") -> list[tuple[str, object]]:
    """Free-form metrics as (dotted path, scalar) pairs, in their own order.

    >>> facts({"pairs": 3, "by": {"ngram": [1, 2]}})
    [('pairs', 3), ('by.ngram', '1, 2')]
    """
    if isinstance(metrics, dict):
        found = [
            fact
            for key, value in metrics.items()
            for fact in facts(value, f"{path}.{key}" if path else str(key))
        ]
    elif isinstance(metrics, list) and any(isinstance(value, dict | list) for value in metrics):
        found = [
            fact for index, value in enumerate(metrics) for fact in facts(value, f"{path}.{index}")
        ]
    elif isinstance(metrics, list):
        found = [(path, ", ".join(str(value) for value in metrics) or "none")]
    else:
        found = [(path, metrics)]
    return found[:_MAX_FACTS]
