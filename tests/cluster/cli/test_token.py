"""`raftflow token`."""

from typing import Any

from click.testing import CliRunner, Result
from fake_api import Call, FakeApi, serving

from raftflow.cluster.cli.main import cli

TEXT = "rf_aaaaaaaaaaaa_secret"
MINTED = {
    "token": TEXT,
    "id": "aaaaaaaaaaaa",
    "name": "ci",
    "role": "user",
    "namespaces": ["shop"],
    "sees_payloads": False,
    "status": "good",
    "created_at": "2026-01-02T00:00:00.000000Z",
    "expires_at": "2026-01-03T00:00:00.000000Z",
    "not_yet": [],
}


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["token", *arguments, "--address", fake.address])


def minting(auth: str = "on", **more: Any) -> Any:
    def respond(call: Call) -> Any:
        return (201, MINTED | more) if call.method == "POST" else (200, {"auth": auth})

    return serving(respond)


def test_a_token_that_nobody_asks_for() -> None:
    with minting(auth="off") as fake:
        result = run_cli(fake, "mint", "ci", "--role", "user")
    assert "asks nobody for a token yet" in result.stderr
    assert result.stdout == TEXT + "\n"


def test_the_token_alone_goes_to_standard_output() -> None:
    with minting() as fake:
        options = ["--role", "user", "--for-namespace", "shop", "--expires", "1d"]
        result = run_cli(fake, "mint", "ci", *options)
    (_, call) = fake.calls
    assert (call.method, call.target) == ("POST", "/api/tokens")
    sent = {name: value for name, value in call.body.items() if name != "request_id"}
    assert sent == {
        "name": "ci",
        "role": "user",
        "namespaces": ["shop"],
        "sees_payloads": False,
        "lifetime_ms": 86_400_000,
    }
    assert result.stdout == TEXT + "\n"
    assert "until 2026-01-03" in result.stderr
    assert TEXT not in result.stderr


def test_nodes_that_have_not_heard_of_it() -> None:
    with minting(not_yet=["n3"]) as fake:
        result = run_cli(fake, "mint", "ci", "--role", "user", "--see-payloads")
    assert fake.calls[1].body["sees_payloads"] is True
    assert "n3 have not heard of it yet" in result.stderr
    assert result.exit_code == 0


def test_a_role_is_one_of_four() -> None:
    with serving(lambda _: (500, {})) as fake:
        assert run_cli(fake, "mint", "ci", "--role", "root").exit_code == 2
        assert run_cli(fake, "mint", "ci").exit_code == 2
    assert fake.calls == []


def listed(_: Any) -> Any:
    session = MINTED | {"id": "b" * 12, "name": "session of ci", "parent": "aaaaaaaaaaaa"}
    shown = {name: value for name, value in MINTED.items() if name != "token"}
    return 200, {"tokens": [shown, session]}


def test_sessions_are_listed_when_they_are_asked_for() -> None:
    with serving(listed) as fake:
        plain = run_cli(fake, "list", "-o", "plain")
        more = run_cli(fake, "list", "--sessions", "-o", "plain")
    assert [len(each.stdout.splitlines()) for each in (plain, more)] == [2, 3]
    assert "aaaaaaaaaaaa  ci" in plain.stdout


def test_revoke_takes_an_id_or_the_whole_token() -> None:
    done = {"id": "a" * 12, "status": "revoked", "applied_by": ["n1", "n2"], "not_yet": []}
    with serving(lambda _: (200, done)) as fake:
        by_id = run_cli(fake, "revoke", "a" * 12, "-o", "plain")
        whole = run_cli(fake, "revoke", TEXT, "-o", "plain")
    assert [call.target.partition("?")[0] for call in fake.calls] == [
        f"/api/tokens/{'a' * 12}",
        f"/api/tokens/{'a' * 12}",
    ]
    assert by_id.stdout == whole.stdout == f"{'a' * 12}: revoked on n1, n2\n"


def test_a_node_that_has_not_applied_it_is_an_error() -> None:
    done = {"id": "a" * 12, "status": "revoked", "applied_by": ["n1"], "not_yet": ["n3"]}
    with serving(lambda _: (200, done)) as fake:
        result = run_cli(fake, "revoke", "a" * 12)
    assert result.exit_code == 1
    assert "n3 had not applied it" in str(result.exception)
