"""Reading a JSON request: unknown fields are refused by name, wrong types too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, TypeVar

from raftflow.cluster.api.limits import MAX_NAMES, check_id, check_sentence, check_token
from raftflow.cluster.api.payloads import take_payload
from raftflow.cluster.api.status import ApiError
from raftflow.engine.limits import MAX_DURATION_MS

E = TypeVar("E", bound=IntEnum)


def parse_object(data: bytes) -> dict[str, Any]:
    """The JSON object of a request body. Depth bombs, NaN and broken UTF-8 are refused."""
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ApiError("MALFORMED", "the body is not valid UTF-8") from None
    except RecursionError:
        raise ApiError("MALFORMED", "the body nests too deeply") from None
    except ValueError as error:
        raise ApiError("MALFORMED", f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ApiError("MALFORMED", "the body must be a JSON object")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads makes one for each call that sets anything.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Fields:
    """A JSON object being read. ``path`` leads to it (`commands[2].`) and begins every complaint.
    ``null`` is the same as leaving an optional field out."""

    __slots__ = ("_known", "path", "values")

    def __init__(
        self, values: Any, known: frozenset[str], *, path: str = "", strict: bool = True
    ) -> None:
        if not isinstance(values, dict):
            raise ApiError("INVALID_FIELD", f"{path.rstrip('.')} must be an object")
        self.values: dict[str, Any] = values
        self.path = path
        self._known = known
        if strict:
            self.refuse_unknown()

    def refuse_unknown(self) -> None:
        unknown = self.values.keys() - self._known
        if unknown:
            name = min(unknown)
            shown = json.dumps(name, ensure_ascii=not name.isprintable())
            where = f" in {self.path.rstrip('.')}" if self.path else ""
            raise ApiError("UNKNOWN_FIELD", f"unknown field {shown}{where}")

    def bad(self, name: str, what: str) -> ApiError:
        return ApiError("INVALID_FIELD", f"{self.path}{name} {what}")

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.bad(name, "must be a string")
        return check_sentence(self.path + name, value)

    def token(self, name: str) -> str:
        return self.identifier(name, check=check_token)

    def identifier(
        self,
        name: str,
        default: str | None = None,
        *,
        check: Callable[[str, str], str] = check_id,
    ) -> str:
        """An id; with ``default`` it may be absent or empty."""
        value = self.values.get(name)
        if default is not None and (value is None or value == ""):
            return default
        if value is None:
            raise self.bad(name, "is required")
        if not isinstance(value, str):
            raise self.bad(name, "must be a string")
        return check(self.path + name, value)

    def integer(
        self,
        name: str,
        default: int | None = None,
        *,
        least: int = 0,
        most: int = MAX_DURATION_MS,
    ) -> int:
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.bad(name, "is required")
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 2.0 is an integer in JSON
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.bad(name, "must be an integer")
        if not least <= value <= most:
            raise self.bad(name, f"must be {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.bad(name, "must be true or false")
        return value

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.bad(name, "must be a number")
        if not least <= value <= most:
            raise self.bad(name, f"must be {least} to {most}")
        return value

    def choice(self, name: str, kinds: type[E], default: E) -> E:
        value = self.values.get(name)
        if value is None or value == "":
            return default
        member = kinds.__members__.get(value) if isinstance(value, str) else None
        if member is None:
            raise self.bad(name, f"must be one of {', '.join(kinds.__members__)}")
        return member

    def payload(self, name: str) -> bytes | None:
        return take_payload(self.values, name, path=self.path)

    def array(self, name: str, *, most: int) -> list[Any]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.bad(name, "must be a list")
        if len(value) > most:
            raise self.bad(name, f"has {len(value)} entries, the limit is {most}")
        return value

    def texts(self, name: str, *, most: int = MAX_NAMES) -> tuple[str, ...]:
        values = self.array(name, most=most)
        for number, value in enumerate(values):
            if not isinstance(value, str):
                raise self.bad(f"{name}[{number}]", "must be a string")
            check_sentence(f"{self.path}{name}[{number}]", value)
        return tuple(values)


def names_in(text: str, field: str) -> tuple[str, ...]:
    """The comma-separated names of a poll; none means any."""
    if not text:
        return ()
    names: Iterable[str] = [name for name in text.split(",") if name]
    wanted = tuple(dict.fromkeys(check_id(field, name) for name in names))
    if len(wanted) > MAX_NAMES:
        raise ApiError(
            "INVALID_FIELD", f"{field} has {len(wanted)} names, the limit is {MAX_NAMES}"
        )
    return wanted
