"""Where a configuration comes from: flags over environment over file over defaults.

One rule maps names: the setting `limits.payload_bytes` is the flag `--limits-payload-bytes`, the
variable `RAFTFLOW_LIMITS_PAYLOAD_BYTES` and the key `payload_bytes` of the table `[limits]`.
"""

import difflib
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from raftflow.cluster.config import (
    DERIVED,
    ActivityPolicy,
    Address,
    Config,
    ConfigError,
    Limits,
    Peer,
    Storage,
)

GROUPS: dict[str, type[Any]] = {"limits": Limits, "storage": Storage}
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Setting:
    """One scalar setting, as every source and the documentation see it."""

    name: str
    kind: Any
    default: Any
    help: str

    @property
    def flags(self) -> tuple[str, ...]:
        """A duration may also be named without its unit: `--leader-wait 5s`."""
        flag = "--" + self.name.replace(".", "-").replace("_", "-")
        return (flag, flag.removesuffix("-ms")) if flag.endswith("-ms") else (flag,)

    @property
    def default_text(self) -> str:
        """Empty where the default is derived, which the help text then tells."""
        return "" if self.default in (DERIVED, "", ()) else _toml_value(self.default).strip('"')

    @property
    def env(self) -> str:
        return "RAFTFLOW_" + self.name.replace(".", "_").upper()

    def convert(self, value: Any) -> Any:
        """The typed value of what a flag, a variable or the file says; ValueError if it is not."""
        if self.kind is int:
            return _integer(value, duration=self.name.endswith("_ms"))
        if self.kind == tuple[Peer, ...]:
            items = value.split(",") if isinstance(value, str) else value
            return tuple(Peer.parse(_text(item)) for item in items if _text(item).strip())
        if self.kind is Address:
            return Address.parse(_text(value))
        if self.kind is Path:
            return Path(_text(value)).expanduser()
        return _text(value)


def _declared(owner: type[Any], prefix: str) -> Iterator[Setting]:
    kinds = typing.get_type_hints(owner)
    for entry in fields(owner):
        if "help" in entry.metadata:
            yield Setting(
                prefix + entry.name, kinds[entry.name], entry.default, entry.metadata["help"]
            )


SETTINGS: tuple[Setting, ...] = (
    *_declared(Config, ""),
    *(found for group, owner in GROUPS.items() for found in _declared(owner, f"{group}.")),
)


def load(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """The configuration from all sources; `flags` maps setting names to text or None."""
    document = _read(file) if file else {}
    activities = _activities(document.pop("activities", {}), str(file))
    origin: dict[str, str] = {}
    found: dict[str, Any] = {}
    for source, values in (
        (str(file), _flatten(document, str(file))),
        ("the environment", _from_env(env or {})),
        ("the command line", {k: v for k, v in (flags or {}).items() if v is not None}),
    ):
        for known in SETTINGS:
            if known.name in values:
                found[known.name] = _converted(known, values[known.name], source)
                origin[known.name] = source
    try:
        return _build(found, activities)
    except ConfigError as error:
        raise ConfigError(error.field, error.problem, origin.get(error.field, "")) from None


def to_toml(config: Config) -> str:
    """The configuration as a file that gives the same configuration again."""
    lines: list[str] = []
    for known in SETTINGS:
        group, _, key = known.name.rpartition(".")
        if group and f"[{group}]" not in lines:
            lines += ["", f"[{group}]"]
        lines.append(f"{key} = {_toml_value(value_of(config, known.name))}")
    for name, policy in config.activities.items():
        lines += ["", f"[activities.{_toml_value(name)}]"]
        lines += [f"{e.name} = {_toml_value(getattr(policy, e.name))}" for e in fields(policy)]
    return "\n".join(lines) + "\n"


def value_of(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def markdown_table() -> str:
    """The table of docs/configuration.md; a test compares the two."""
    rows = ["| setting | flag | environment | default | meaning |", "|---|---|---|---|---|"]
    for known in SETTINGS:
        default = f"`{known.default_text}`" if known.default_text else ""
        rows.append(
            f"| `{known.name}` | `{known.flags[0]}` | `{known.env}` | {default} | {known.help} |"
        )
    return "\n".join(rows) + "\n"


def _build(found: Mapping[str, Any], activities: Mapping[str, ActivityPolicy]) -> Config:
    groups = {
        group: owner(
            **{
                name.removeprefix(f"{group}."): value
                for name, value in found.items()
                if name.startswith(f"{group}.")
            }
        )
        for group, owner in GROUPS.items()
    }
    scalars = {name: value for name, value in found.items() if "." not in name}
    return Config(**scalars, **groups, activities=activities)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError("", f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("", f"{path} is not TOML: {error}") from None


def _from_env(env: Mapping[str, str]) -> dict[str, str]:
    """Other RAFTFLOW_ variables are left alone: Kubernetes makes some up for a service."""
    return {known.name: env[known.env] for known in SETTINGS if env.get(known.env)}


def _flatten(document: Mapping[str, Any], source: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if key in GROUPS:
            _expect_table(key, value, source)
            flat |= {f"{key}.{inner}": each for inner, each in value.items()}
        else:
            flat[key] = value
    _refuse_unknown(flat, [known.name for known in SETTINGS], source)
    return flat


def _activities(document: Any, source: str) -> dict[str, ActivityPolicy]:
    _expect_table("activities", document, source)
    known: dict[str, Field[Any]] = {entry.name: entry for entry in fields(ActivityPolicy)}
    policies: dict[str, ActivityPolicy] = {}
    for name, table in document.items():
        prefix = f"activities.{name}"
        _expect_table(prefix, table, source)
        _refuse_unknown(table, list(known), source, prefix=f"{prefix}.")
        try:
            values = {key: _policy_value(known[key], value) for key, value in table.items()}
            policies[name] = ActivityPolicy(**values)
        except ConfigError as error:
            raise ConfigError(f"{prefix}.{error.field}", error.problem, source) from None
    return policies


def _policy_value(entry: Field[Any], value: Any) -> Any:
    try:
        if entry.name == "non_retryable_error_types":
            if not isinstance(value, list):
                raise ValueError("must be a list of texts")
            return tuple(_text(each) for each in value)
        if entry.name in ("backoff_coefficient", "jitter"):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError("must be a number")
            return float(value)
        return _integer(value, duration=entry.name.endswith("_ms"))
    except ValueError as error:
        raise ConfigError(entry.name, str(error)) from None


def _converted(known: Setting, value: Any, source: str) -> Any:
    if source == "the environment":
        source = known.env
    elif source == "the command line":
        source = known.flags[0]
    try:
        return known.convert(value)
    except ValueError as error:
        raise ConfigError(known.name, str(error), source) from None


def _expect_table(name: str, value: Any, source: str) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(name, f"must be a table: [{name}]", source)


def _refuse_unknown(
    given: Mapping[str, Any], known: list[str], source: str, *, prefix: str = ""
) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(prefix + name, f"unknown setting{hint}", source)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} must be text")
    return value


def milliseconds(value: Any) -> int:
    """Milliseconds from a number or a text such as 400ms, 5s, 2m, 1h, 30d."""
    text = value.strip() if isinstance(value, str) else ""
    for unit, factor in UNITS_MS.items():
        number = text.removesuffix(unit)
        if number != text and number.isascii() and number.isdigit():
            return int(number) * factor
    try:
        return _whole(value)
    except ValueError:
        raise ValueError(f"{value!r} is not milliseconds or a duration such as 5s") from None


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip().replace("_", "") if isinstance(value, str) else ""
    if not text.removeprefix("-").isdigit() or not text.isascii():
        raise ValueError(f"{value!r} is not a whole number")
    return int(text)


def _integer(value: Any, *, duration: bool) -> int:
    return milliseconds(value) if duration else _whole(value)


def _toml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    if isinstance(value, int | float):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
