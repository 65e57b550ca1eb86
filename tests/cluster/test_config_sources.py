from pathlib import Path

import pytest

from raftflow.cluster.config import ActivityPolicy, Address, Config, ConfigError
from raftflow.cluster.config_sources import SETTINGS, load, markdown_table, to_toml, value_of

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "raftflow.toml"
    path.write_text(text)
    return path


def test_nothing_given_is_the_default() -> None:
    assert load() == Config()


def test_flags_over_environment_over_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'lease_ms = 1000\nheartbeat_ms = 10\nleader_wait_ms = "7s"\n')
    env = {"RAFTFLOW_LEASE_MS": "2000", "RAFTFLOW_HEARTBEAT_MS": "20", "RAFTFLOW_PORT": "junk"}
    config = load(flags={"lease_ms": "3s", "heartbeat_ms": None}, env=env, file=file)
    assert (config.lease_ms, config.heartbeat_ms, config.leader_wait_ms) == (3000, 20, 7000)


def test_nested_names_in_all_sources(tmp_path: Path) -> None:
    file = write(tmp_path, "[limits]\nopen_steps = 7\n[storage]\nlog_tail_entries = 5\n")
    env = {"RAFTFLOW_LIMITS_HISTORY_EVENTS": "9"}
    config = load(flags={"limits.payload_bytes": "1_000"}, env=env, file=file)
    assert config.limits.open_steps == 7
    assert config.limits.history_events == 9
    assert config.limits.payload_bytes == 1000
    assert config.storage.log_tail_entries == 5


def test_peers_as_text_and_as_list(tmp_path: Path) -> None:
    file = write(tmp_path, 'peers = ["n1=a:1", "n2=b:2"]')
    assert load(file=file).peers == load(flags={"peers": "n1=a:1,n2=b:2"}).peers


def test_activity_policies(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[activities.charge]\nmax_attempts = 3\ninitial_backoff_ms = "200ms"\n'
        'backoff_coefficient = 1.5\nnon_retryable_error_types = ["Declined"]\njitter = 0.1\n',
    )
    assert load(file=file).activities == {
        "charge": ActivityPolicy(3, 200, 0, 1.5, ("Declined",), 0.1),
    }


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("heartbeat = 1", "heartbeat (from {file}): unknown setting; did you mean heartbeat_ms?"),
        ("[limits]\nevents = 1", "limits.events (from {file}): unknown setting; did you mean"),
        ("limits = 3", "limits (from {file}): must be a table"),
        ("lease_ms = true", "lease_ms (from {file}): True is not milliseconds"),
        ("lease_ms = 1", "lease_ms (from {file}): must be at least 100"),
        ("x = ", "{file} is not TOML"),
        ("[activities.a]\nmax_attempts = -1", "activities.a.max_attempts (from {file}): must not"),
        ("[activities.a]\nmax = 1", "activities.a.max (from {file}): unknown setting"),
        ("[activities.a]\nbackoff_coefficient = 0.5", "activities.a.backoff_coefficient (from"),
    ],
)
def test_file_errors_name_field_and_file(tmp_path: Path, toml: str, message: str) -> None:
    file = write(tmp_path, toml)
    with pytest.raises(ConfigError) as caught:
        load(file=file)
    assert str(caught.value).startswith(message.format(file=file))


def test_errors_name_the_flag_or_variable() -> None:
    with pytest.raises(ConfigError, match=r"^http_addr \(from --http-addr\): 'nowhere' is not"):
        load(flags={"http_addr": "nowhere"})
    with pytest.raises(ConfigError, match=r"^lease_ms \(from RAFTFLOW_LEASE_MS\): 'x' is not"):
        load(env={"RAFTFLOW_LEASE_MS": "x"})
    with pytest.raises(ConfigError, match="cannot read"):
        load(file=Path("/nowhere/raftflow.toml"))


def test_printed_configuration_gives_the_same_again(tmp_path: Path) -> None:
    config = Config(
        node_id="n2",
        data_dir=Path('odd "name" \\ here'),
        http_addr=Address("0.0.0.0", 80),
        activities={'we"ird.name': ActivityPolicy(3, non_retryable_error_types=("A", "B"))},
    )
    assert load(file=write(tmp_path, to_toml(config))) == config
    cluster = load(flags={"node_id": "n2", "peers": "n1=[::1]:1,n2=b:2"})
    assert load(file=write(tmp_path, to_toml(cluster))) == cluster


def test_every_setting_is_reachable_and_documented() -> None:
    names = [flag for known in SETTINGS for flag in known.flags]
    assert len(set(names)) == len(names)
    for known in SETTINGS:
        assert known.help.endswith(".")
        value_of(Config(), known.name)
    assert markdown_table() in DOCS.read_text("utf-8"), (
        "docs/configuration.md is out of date; put in what "
        "`python -c 'from raftflow.cluster.config_sources import *; print(markdown_table())'` says"
    )


def test_no_setting_is_without_effect() -> None:
    """A setting that nothing reads is a lie to whoever sets it."""
    package = DOCS.parents[1] / "cluster"
    config_modules = {package / "config.py", package / "config_sources.py"}
    modules = set(package.rglob("*.py")) - config_modules
    source = "\n".join(path.read_text("utf-8") for path in modules)
    # The peers read this one: it is this node's entry in their `peers`.
    read_in_config = {"peers", "raft_addr", "advertise_raft_addr"}
    for known in SETTINGS:
        leaf = known.name.rpartition(".")[2]
        if leaf not in read_in_config:
            assert f".{leaf}" in source, f"{known.name}: use it, or drop it from the configuration"
