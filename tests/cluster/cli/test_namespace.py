"""`raftflow namespace`."""

import pytest
from click.testing import CliRunner, Result
from fake_api import FakeApi, serving

from raftflow.cluster.cli.main import cli


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["namespace", *arguments, "--address", fake.address])


@pytest.mark.parametrize(
    ("arguments", "method", "target", "retention_ms", "said"),
    [
        (
            ["create", "shop"],
            "POST",
            "/api/namespaces",
            0,
            "shop: created, keeps closed runs for ever",
        ),
        (
            ["create", "shop", "--retention", "2d"],
            *("POST", "/api/namespaces", 172_800_000, "shop: created, keeps closed runs 2 d"),
        ),
        (
            ["update", "shop", "--retention", "90m"],
            *("PUT", "/api/namespaces/shop", 5_400_000, "shop: updated, keeps closed runs 1.5 h"),
        ),
        (
            ["update", "shop", "--keep"],
            *("PUT", "/api/namespaces/shop", 0, "shop: updated, keeps closed runs for ever"),
        ),
    ],
)
def test_changes(
    arguments: list[str], method: str, target: str, retention_ms: int, said: str
) -> None:
    with serving(lambda _: (200, {"name": "shop", "retention_ms": retention_ms})) as fake:
        result = run_cli(fake, *arguments, "-o", "plain")
    (call,) = fake.calls
    assert (call.method, call.target) == (method, target)
    assert call.body["retention_ms"] == retention_ms
    assert result.output == said + "\n"


@pytest.mark.parametrize("options", [[], ["--keep", "--retention", "1h"]])
def test_an_update_says_one_thing(options: list[str]) -> None:
    with serving(lambda _: (500, {})) as fake:
        result = run_cli(fake, "update", "shop", *options)
    assert (result.exit_code, fake.calls) == (2, [])


def test_list() -> None:
    found = [
        {"name": "default", "retention_ms": 0},
        {"name": "shop", "retention_ms": 3_600_000, "created_at": "2026-01-02T00:00:00.000000Z"},
    ]
    with serving(lambda _: (200, {"namespaces": found})) as fake:
        result = run_cli(fake, "list", "-o", "plain")
    rows = [line.split("  ") for line in result.output.splitlines()]
    assert [row[0] for row in rows] == ["NAMESPACE", "default", "shop"]
    assert "for ever" in result.output
    assert "1 h" in result.output


@pytest.mark.parametrize(
    ("options", "body", "said"),
    [
        (
            ["--max-open-runs", "100", "--starts-per-second", "5"],
            {"max_open_runs": 100, "starts_per_second": 5},
            "shop: 100 open runs, 5 starts a second",
        ),
        (
            ["--starts-per-second", "5"],
            {"max_open_runs": 0, "starts_per_second": 5},
            "shop: 5 starts a second",
        ),
        (["--none"], {"max_open_runs": 0, "starts_per_second": 0}, "shop: no quota"),
    ],
)
def test_quota(options: list[str], body: dict[str, int], said: str) -> None:
    with serving(lambda _: (200, {"name": "shop", **body})) as fake:
        result = run_cli(fake, "quota", "shop", *options, "-o", "plain")
    (call,) = fake.calls
    assert (call.method, call.target) == ("PUT", "/api/namespaces/shop/quota")
    assert body.items() <= call.body.items()
    assert result.output == said + "\n"


@pytest.mark.parametrize(
    "options", [[], ["--none", "--max-open-runs", "1"], ["--max-open-runs", "0"]]
)
def test_a_quota_says_what_it_bounds(options: list[str]) -> None:
    with serving(lambda _: (500, {})) as fake:
        result = run_cli(fake, "quota", "shop", *options)
    assert (result.exit_code, fake.calls) == (2, [])


def test_quotas_are_listed() -> None:
    found = [{"name": "shop", "retention_ms": 0, "max_open_runs": 7, "starts_per_second": 2}]
    with serving(lambda _: (200, {"namespaces": found})) as fake:
        result = run_cli(fake, "list", "-o", "plain")
    assert "7 open runs, 2 starts a second" in result.output
