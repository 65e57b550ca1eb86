"""Callers of every kind, minted straight into a single node's state."""

from __future__ import annotations

from typing import Any

from single_node import SingleNode

from raftflow.cluster.api.token_text import new_token
from raftflow.engine.commands import CreateNamespace, MintToken, RevokeToken, Role
from raftflow.engine.rejections import Minted


def mint(node: SingleNode, role: Role = Role.ADMIN, **fields: Any) -> str:
    """The text of a token of the log."""
    made = new_token()
    usual: dict[str, Any] = {
        "name": role.name.lower(),
        "namespaces": (),
        "sees_payloads": True,
        "lifetime_ms": 0,
        "parent": "",
        "request_id": "",
    }
    command = MintToken(
        token_id=made.token_id, role=role, salt=made.salt, digest=made.digest, **usual | fields
    )
    answer = node.apply(command)
    assert isinstance(answer, Minted), answer
    return made.text


def revoke(node: SingleNode, text: str) -> None:
    node.apply(RevokeToken(token_id=id_of(text), request_id=""))


def id_of(text: str) -> str:
    return text.split("_")[1]


def kinds(node: SingleNode) -> dict[str, str]:
    """Each kind of token there is, and texts that are none."""
    node.apply(CreateNamespace(namespace="shop", retention_ms=0, request_id=""))
    revoked, expired = mint(node), mint(node, lifetime_ms=1)
    of_nobody = mint(node)
    revoke(node, revoked)
    node.tick(10)
    return {
        "none": "",
        "garbage": "x" * 40,
        "unknown": f"rf_{'a' * 12}_{'b' * 43}",
        "wrong secret": of_nobody[:-4] + ("abcd" if of_nobody[-4:] != "abcd" else "dcba"),
        "revoked": revoked,
        "expired": expired,
        "viewer": mint(node, Role.VIEWER),
        "user": mint(node, Role.USER),
        "worker": mint(node, Role.WORKER),
        "admin": mint(node, Role.ADMIN),
        "viewer of shop": mint(node, Role.VIEWER, namespaces=("shop",)),
        "user of shop": mint(node, Role.USER, namespaces=("shop",)),
        "worker of shop": mint(node, Role.WORKER, namespaces=("shop",)),
        "admin of shop": mint(node, Role.ADMIN, namespaces=("shop",)),
    }
