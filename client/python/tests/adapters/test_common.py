"""What the adapters share."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

from hookd import Caller, Capability, Client, Json, v1
from hookd.adapters._common import Asker, beside, in_shape_of, natural, rewritten, sendable, text_of
from support import BLOCK, Scripted, response


def test_numbers_are_as_a_framework_reads_them_and_none_loses_a_digit() -> None:
    text = '{"a":1.5,"b":1e2,"c":12345678901234567890.25,"d":9007199254740993,"e":1e400}'
    assert natural(Json(text)) == {
        "a": 1.5,
        "b": 100.0,
        "c": Decimal("12345678901234567890.25"),
        "d": 9007199254740993,
        "e": Decimal("1e400"),
    }
    assert [type(value) for value in natural(Json(text)).values()] == [float, float, Decimal, int, Decimal]


def test_parameters_that_stay_keep_their_objects() -> None:
    kept = object()
    sent: dict[str, Any] = {"a": [1.0], "b": 2, "c": kept}
    changed = rewritten(sent, Json('{"a":[1.0],"b":3,"d":null}'))
    assert changed == {"a": [1.0], "b": 3, "d": None}
    assert changed["a"] is sent["a"]


def test_what_has_no_form_in_json_is_sent_as_its_text() -> None:
    class Model:
        def model_dump(self, mode: str) -> dict[str, str]:
            return {"mode": mode}

    assert sendable(Model()) == Json('{"mode":"json"}')
    assert sendable({"a": {1}}) == "{'a': {1}}"
    assert sendable("half \ud83d") == "half ?"
    assert text_of({"a": 1}) == '{"a":1}' and text_of({1}) == "{1}" and text_of("a") == "a"
    assert beside("", ["a", ""]) == "a" and beside("a", ["b"]) == "a\n\nb"


def test_a_text_takes_the_shape_of_what_it_replaces() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert in_shape_of(blocks, "x") == [{"type": "text", "text": "x"}, {"type": "text", "text": ""}]
    streams = {"stdout": "a", "stderr": "b", "interrupted": False}
    assert in_shape_of(streams, "x") == {"stdout": "x", "stderr": "", "interrupted": False}
    assert in_shape_of({"count": 1}, "x") == "x"


def test_a_request_says_what_both_the_framework_and_the_session_can() -> None:
    seen: list[v1.TriggerRequest] = []

    def answer(request: v1.TriggerRequest, _: object) -> v1.TriggerResponse:
        seen.append(request)
        return response(1)

    can = {"Stop": (Capability.HALT, Capability.FORCE_CONTINUE)}
    with Scripted(answer) as server, Client(server.address, on_unavailable=BLOCK) as client:
        Asker(client.session("s"), "frame", can, None).ask("Stop")
        limited = client.session("s", capabilities=[Capability.HALT], caller=Caller(agent="mine"))
        asyncio.run(Asker(limited, "frame", can, None).ask_async("Stop"))
        Asker(limited, "frame", can, None).ask("Other")
    said = [(list(request.capabilities.supported), request.caller.agent) for request in seen]
    assert said == [([7, 8], "frame"), ([7], "mine"), ([], "mine")]
    assert all(request.HasField("capabilities") for request in seen)
