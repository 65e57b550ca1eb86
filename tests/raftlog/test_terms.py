"""Runs of terms answer as a list would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raftflow.raftlog.terms import Terms

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("follow"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("cut"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("start"), st.integers(0, 30), st.just(0)),
    )
)


@given(STEPS, st.integers(0, 5))
def test_terms_agree_with_a_dict(steps: list[tuple[str, int, int]], start: int) -> None:
    terms, model = Terms(start, 1), {start: 1}
    for step, number, more in steps:
        low, high = min(model), max(model)
        term = model[high] + more
        if step == "extend":
            terms.extend(number, term)
            model |= {high + 1 + i: term for i in range(number)}
        elif step == "follow":
            other = Terms(high, model[high])
            other.extend(number, term)
            other.extend(1, term + more)
            terms.follow(other)
            model |= {high + 1 + i: term for i in range(number)} | {high + number + 1: term + more}
        elif step == "cut":
            index = low + 1 + number % (high - low + 1)
            terms.cut_from(index)
            model = {i: t for i, t in model.items() if i < index}
        else:
            index = low + number % (high - low + 1)
            terms.start_after(index)
            model = {i: t for i, t in model.items() if i >= index}
        assert (terms.prev_index, terms.last_index) == (min(model), max(model))
        assert (terms.prev_term, terms.last_term) == (model[min(model)], model[max(model)])
        assert {i: terms[i] for i in model} == model
        assert terms.get(min(model) - 1) is None
        assert terms.get(max(model) + 1) is None
