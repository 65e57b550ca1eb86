"""Search attributes: what a run can be found by. Names, and JSON scalars."""

from __future__ import annotations

import re

from raftflow.engine.commands import Attributes, UpsertSearchAttributes
from raftflow.engine.decide.context import text_too_large
from raftflow.engine.decide.plan import Plan, Planned, invalid, over_limit
from raftflow.engine.events import SearchAttributesUpserted
from raftflow.engine.evolve.attributes import merged
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import MAX_SEARCH_ATTRIBUTE_BYTES, MAX_SEARCH_ATTRIBUTES
from raftflow.engine.rejections import Rejection

_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_SCALAR = re.compile(rf"null|true|false|{_NUMBER}|{_STRING}")


def upsert(plan: Plan, command: UpsertSearchAttributes) -> Planned:
    if refusal := refused(plan.attributes, command.attributes):
        return refusal
    if not command.attributes:
        return ()
    plan.attributes = merged(plan.attributes, command.attributes)
    named = tuple(sorted(dict(command.attributes).items()))
    return (SearchAttributesUpserted(attributes=named),)


def refused(before: Attributes, upserted: Attributes) -> Rejection | None:
    """Why attributes cannot be added to those that the run has."""
    for name, value in upserted:
        if problem := id_problem("search attribute", name):
            return invalid(problem)
        if problem := text_too_large(
            f"search attribute {name!r}", value, MAX_SEARCH_ATTRIBUTE_BYTES
        ):
            return over_limit(problem)
        if not _SCALAR.fullmatch(value):
            return invalid(f"search attribute {name!r} is not a string, number or boolean")
    count = len(merged(before, upserted))
    if count > MAX_SEARCH_ATTRIBUTES:
        return over_limit(f"search attributes: {count} names, the limit is {MAX_SEARCH_ATTRIBUTES}")
    return None
