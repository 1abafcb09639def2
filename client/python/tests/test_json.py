"""JSON keeps its digits, and is read strictly."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest
from hookd import Json
from hookd._json import to_text

LONG = "123456789" * 700


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (9007199254740993, "9007199254740993"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (Decimal("1.10"), "1.10"),
        (Decimal("12345678901234567890.123456789"), "12345678901234567890.123456789"),
        (Decimal("1E+2"), "1E+2"),
        ('say "hi"\n\u2028 \U0001f600 \x00', '"say \\"hi\\"\\n\u2028 \U0001f600 \\u0000"'),
        ({}, "{}"),
        ([], "[]"),
        ({"a": [1, (2,), {"b": None}], "ü": Json("1.50")}, '{"a":[1,[2],{"b":null}],"ü":1.50}'),
    ],
)
def test_values_are_written_with_all_their_digits(value: object, text: str) -> None:
    assert Json.of(value).text == text


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "nan is no JSON number"),
        (float("-inf"), "-inf is no JSON number"),
        (Decimal("NaN"), "Decimal('NaN') is no JSON number"),
        ({1: 2}, "the key 1 is no text"),
        (b"x", "a bytes has no JSON form"),
        ({"a": object()}, "a object has no JSON form"),
        ("\ud800", "it holds a lone surrogate"),
    ],
)
def test_what_json_has_no_word_for_is_named(value: object, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        Json.of(value)
    assert str(raised.value) == problem


def test_what_is_nested_in_itself_is_named() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested too deeply"):
        Json.of(endless)
    with pytest.raises(ValueError, match="nested too deeply"):
        Json("[" * 100_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.10", Decimal("1.10")),
        ("9007199254740993", 9007199254740993),
        ("1e400", Decimal("1e400")),
        ('{"n":12345678901234567890.10}', {"n": Decimal("12345678901234567890.10")}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\\\ud800"', "\\ud800"),
    ],
)
def test_texts_are_read_with_all_their_digits(text: str, value: object) -> None:
    json = Json(text)
    assert (json.value, type(json.value), json.text) == (value, type(value), text)


def test_a_whole_number_of_any_length_is_read() -> None:
    value = Json(LONG).value
    assert str(value) == LONG
    assert isinstance(value, Decimal) == (len(LONG) > sys.get_int_max_str_digits())


@pytest.mark.parametrize(
    "text", ["", "{", "1 2", "NaN", "[Infinity]", '{"a":1,"a":1}', '{"b":{"a":1,"a":2}}', '"\\ud800"', "01", "1.", "\ufeff1"]
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Json(text)


def test_texts_are_compared_and_cannot_be_changed() -> None:
    assert Json("1.0") == Json("1.0") != Json("1.00")
    assert len({Json("1"), Json("1")}) == 1
    assert repr(Json("[1]")) == "Json('[1]')"
    with pytest.raises(AttributeError):
        setattr(Json("1"), "text", "2")
    assert to_text(Json('{"n":1.10}')) == '{"n":1.10}'
