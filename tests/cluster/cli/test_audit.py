"""`raftflow audit`."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from click.testing import CliRunner, Result
from fake_api import Call, FakeApi, Reply, serving

from raftflow.cluster.cli.main import cli


def entry(number: int) -> dict[str, str]:
    return {
        "id": f"{number}.0",
        "at": "2026-01-02T03:04:05.000000Z",
        "actor": "file:root",
        "role": "admin",
        "node": "n1",
        "address": "10.0.0.9",
        "call": "TerminateWorkflow",
        "target": f"order-{number}",
        "outcome": "OK",
    }


def pages(call: Call) -> Reply:
    """Two of them."""
    if query(call).get("cursor"):
        return 200, {"entries": [entry(3)]}
    return 200, {"entries": [entry(1), entry(2)], "next_cursor": "77"}


def query(call: Call) -> dict[str, str]:
    found = parse_qs(urlsplit(call.target).query)
    return {name: values[0] for name, values in found.items()}


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments, "--address", fake.address])


def test_list_asks_on_until_it_has_enough() -> None:
    with serving(pages) as fake:
        result = run_cli(
            fake, "list", "--call", "TerminateWorkflow", "--in-namespace", "shop", "-o", "plain"
        )
    assert [query(call).get("cursor", "") for call in fake.calls] == ["", "77"]
    first = query(fake.calls[0])
    assert (first["call"], first["namespace"], first["order"]) == (
        "TerminateWorkflow",
        "shop",
        "newest",
    )
    rows = result.stdout.splitlines()
    assert len(rows) == 4
    assert "order-3" in rows[-1]
    with serving(pages) as fake:
        few = run_cli(fake, "list", "--limit", "2", "-o", "plain")
    assert len(few.stdout.splitlines()) == 3
    assert len(fake.calls) == 1


def test_export_writes_one_entry_a_line(tmp_path: Path) -> None:
    with serving(pages) as fake:
        result = run_cli(fake, "export", "--since", "7d")
        file = run_cli(fake, "export", "-f", str(tmp_path / "audit.jsonl"), "-o", "plain")
        broken = run_cli(fake, "export", "-f", str(tmp_path / "none" / "audit.jsonl"))
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == ["1.0", "2.0", "3.0"]
    first = query(fake.calls[0])
    assert first["order"] == "oldest"
    assert first["after"].endswith("Z")
    assert (tmp_path / "audit.jsonl").read_text() == result.stdout
    assert file.stdout.endswith("audit.jsonl: 3 entries\n")
    assert broken.exit_code == 1
