"""JSON that keeps the digits of its numbers, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, cast


class Json:
    """A JSON text and what it says.

    Give one where a text is meant as it stands (`Json('{"n":1.10}')`); hookd's parameters and results come as one.
    Immutable; equal where the texts are equal.
    """

    __slots__ = ("_text", "_value")
    _text: str
    _value: Any

    def __init__(self, text: str) -> None:
        """Reads `text` strictly.

        Raises `ValueError` where it is not one JSON value: duplicate keys, `NaN`, lone surrogates, trailing text, and
        nesting or exponents beyond what Python can hold included.
        """
        object.__setattr__(self, "_value", _parse(text))
        object.__setattr__(self, "_text", text)

    @classmethod
    def of(cls, value: object) -> Json:
        """The JSON of a Python value: `None`, `bool`, `int`, `float`, `Decimal`, `str`, mappings with text keys, lists,
        tuples, and `Json` inside of them. `int` and `Decimal` keep all of their digits.

        Raises `ValueError` for anything else, and for what JSON has no word for (`nan`, infinities, lone surrogates).
        """
        return cls(to_text(value))

    @property
    def text(self) -> str:
        """The text, as it came."""
        return self._text

    @property
    def value(self) -> Any:
        """What it says, in Python's own types. A number with a fraction or an exponent is a `Decimal`, any other an
        `int`, so none has lost a digit. Not to be changed: it is the same one each time."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Json) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Json({self._text!r})"

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"a JSON text cannot be changed: {name}")


def to_text(value: object) -> str:
    """The JSON text of a Python value, as `Json.of` says."""
    parts: list[str] = []
    try:
        _write(value, parts.append)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    text = "".join(parts)
    if not text.isascii():
        _check_unicode(text)
    return text


def object_text(value: str | Json | Mapping[str, object]) -> str:
    """The text of a JSON object that a caller gave: as text, which hookd checks, or as a value."""
    if isinstance(value, str):
        _check_unicode(value)
        return value
    return value.text if isinstance(value, Json) else to_text(value)


_quoted = json.encoder.encode_basestring


def _write(value: object, out: Any) -> None:
    # In the order in which they are likely; `bool` is an `int` too.
    if isinstance(value, str):
        out(_quoted(value))
    elif value is None:
        out("null")
    elif isinstance(value, bool):
        out("true" if value else "false")
    elif isinstance(value, int):
        out(int.__repr__(value))
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value!r} is no JSON number")
        out(float.__repr__(value))
    elif isinstance(value, Mapping):
        _write_object(cast("Mapping[object, object]", value), out)
    elif isinstance(value, (list, tuple)):
        before = "["
        for item in cast("Sequence[object]", value):
            out(before)
            _write(item, out)
            before = ","
        out("]" if before == "," else "[]")
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value!r} is no JSON number")
        out(str(value))
    elif isinstance(value, Json):
        out(value.text)
    else:
        raise ValueError(f"a {type(value).__qualname__} has no JSON form")


def _write_object(value: Mapping[object, object], out: Any) -> None:
    before = "{"
    for key, item in value.items():
        if not isinstance(key, str):
            raise ValueError(f"the key {key!r} is no text")
        out(before)
        out(_quoted(key))
        out(":")
        _write(item, out)
        before = ","
    out("}" if before == "," else "{}")


def _parse(text: str) -> Any:
    try:
        value = json.loads(
            text, parse_float=_fraction, parse_int=_whole, parse_constant=_constant, object_pairs_hook=_unique
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except InvalidOperation:
        raise ValueError("an exponent is out of range") from None
    if "\\ud" in text or "\\uD" in text or not text.isascii():
        # An escape can stand for half a character, which no text holds.
        _check_unicode(to_text(value))
    return value


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds a lone surrogate") from None


def _fraction(digits: str) -> Decimal:
    return Decimal(digits)


def _whole(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        # More digits than Python turns into an `int` unless told to.
        return Decimal(digits)


def _constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate key {twice!r}")
    return value
