"""What the JSON API shows of an answer of `why`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.api.schema import COUNT, TEXT, Schema, array, nullable, ref
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Answer, Fact, Link, Moment, Severity


def _fields(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields)}


WHY_SHAPES: Mapping[str, Schema] = {
    "Why": _fields(
        subject={"type": "object", "additionalProperties": TEXT},
        answer=TEXT,
        links=array(ref("WhyLink")),
        seen_by=TEXT,
        applied_index=COUNT,
    ),
    "WhyLink": _fields(
        cause={"type": "string", "enum": sorted(Cause)},
        severity={"type": "string", "enum": sorted(Severity)},
        says=TEXT,
        evidence={"type": "object"},
        next=nullable(TEXT),
    ),
}


def shown(answer: Answer, node: NodeServices) -> dict[str, Any]:
    return {
        "subject": dict(answer.subject),
        "answer": answer.sentence,
        "links": [_link(link) for link in answer.links],
        "seen_by": node.config.node_id,
        "applied_index": node.replica.applied_index,
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "cause": link.cause,
        "severity": link.severity,
        "says": link.says,
        "evidence": _fact(link.evidence),
        "next": link.next or None,
    }


def _fact(fact: Fact) -> Any:
    match fact:
        case Moment():
            return timestamp(fact.ms)
        case tuple():
            return [_fact(each) for each in fact]
        case Mapping():
            return {name: _fact(each) for name, each in fact.items()}
    return fact
