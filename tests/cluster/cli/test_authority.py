from __future__ import annotations

import stat
from pathlib import Path

import pytest
from certs import authority_of, issue

from raftflow.cluster import certificates
from raftflow.cluster.cli.authority import Authority, certificates_of, listed
from raftflow.cluster.cli.errors import CommandError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = authority_of(tmp_path / "certs", "shop")
    issue(made, "n1", "n2")
    return made


def test_keys_are_for_their_owner_alone(authority: Authority) -> None:
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in authority.directory.iterdir()}
    assert modes == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "n1.crt": 0o644,
        "n1.key": 0o600,
        "n2.crt": 0o644,
        "n2.key": 0o600,
    }
    assert stat.S_IMODE(authority.directory.stat().st_mode) == 0o700


def test_an_authority_is_never_overwritten(authority: Authority) -> None:
    before = authority.trusted.read_bytes()
    with pytest.raises(CommandError, match="holds an authority already"):
        authority.create("shop", days=30)
    assert authority.trusted.read_bytes() == before


@pytest.mark.parametrize("name", ["../n1", "n 1", "", "ca", "a" * 65])
def test_names_that_are_no_file_of_a_node(authority: Authority, name: str) -> None:
    with pytest.raises(CommandError):
        authority.issue(name, hosts=("h",), days=1)


def test_a_renewed_pair_has_the_same_names_and_another_key(authority: Authority) -> None:
    before, key = certificates_of(authority.certificate("n1"))[0], authority.key("n1").read_bytes()
    authority.renew("n1", days=5)
    after = certificates_of(authority.certificate("n1"))[0]
    assert certificates.subject_of(after) == certificates.subject_of(before)
    assert authority.key("n1").read_bytes() != key
    assert after.serial_number != before.serial_number


def test_a_successor_is_trusted_beside_the_one_before_until_that_is_dropped(
    authority: Authority,
) -> None:
    (old,) = authority.bundle()
    authority.succeed(days=30)
    new, kept = authority.bundle()
    assert kept == old
    assert authority.cluster_id == "shop"
    authority.renew("n1", days=5)
    assert certificates.issuer_of(certificates_of(authority.certificate("n1"))[0], [new])
    assert authority.drop_old() == ["n2"], "who would be left out"
    assert len(authority.bundle()) == 2
    authority.renew("n2", days=5)
    assert authority.drop_old() == []
    assert list(authority.bundle()) == [new]


def test_a_key_that_is_not_of_the_authority(authority: Authority, tmp_path: Path) -> None:
    other = authority_of(tmp_path / "other", "shop")
    authority.signing_key.write_bytes(other.signing_key.read_bytes())
    with pytest.raises(CommandError, match=r"ca\.key: it is not the key of"):
        issue(authority, "n3")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"ca\.crt: No such file"):
        issue(Authority(tmp_path), "n1")


def test_a_directory_and_a_file_are_listed(authority: Authority) -> None:
    rows = list(listed(authority.directory))
    assert [row["for"] for row in rows] == ["raftflow:shop", "raftflow:shop/n1", "raftflow:shop/n2"]
    assert [row["days_left"] for row in rows] == [29, 19, 19]
    assert list(listed(authority.certificate("n1"))) == [rows[1]]
