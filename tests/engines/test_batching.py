"""Batches: every request once, within the limit, the same whatever the order of asking."""

from hypothesis import given
from hypothesis import strategies as st

from curate.engines.api import Message, Request
from curate.engines.batching import plan


@st.composite
def requests(draw) -> list[Request]:
    sizes = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=30))
    return [Request(f"k{i}", (Message("user", "x" * n),), k) for i, (n, k) in enumerate(sizes)]


@given(requests(), st.integers(1, 16))
def test_every_request_once_and_no_batch_over_its_size(asked, size) -> None:
    batches = plan(asked, size)
    assert sorted(i for batch in batches for i in batch) == list(range(len(asked)))
    for batch in batches:
        assert batch
        assert len(batch) == 1 or sum(asked[i].n for i in batch) <= size


@given(requests(), st.integers(1, 16), st.randoms(use_true_random=False))
def test_the_order_of_asking_does_not_matter(asked, size, random) -> None:
    shuffled = random.sample(asked, len(asked))
    keys = [[asked[i].key for i in batch] for batch in plan(asked, size)]
    assert [[shuffled[i].key for i in batch] for batch in plan(shuffled, size)] == keys


@given(requests(), st.integers(1, 16))
def test_longest_first(asked, size) -> None:
    lengths = [len(asked[i].messages[0].content) for batch in plan(asked, size) for i in batch]
    assert lengths == sorted(lengths, reverse=True)
