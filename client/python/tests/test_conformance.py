"""Both clients against the table of what every client does, and against the golden vectors: see `tests/conformance`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance import ROOT, ROW_KEYS, Asking, Row, Run, Scripts, check, message, options, read

ROWS: list[dict[str, Any]] = read("table.json")
KINDS = ["threads", "asyncio"]
ran: set[tuple[str, str]] = set()


@pytest.fixture(scope="module")
def scripts() -> Iterator[Scripts]:
    """One process for all scripted servers."""
    scripts = Scripts()
    yield scripts
    scripts.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_row(row: Row, kind: str, scripts: Scripts, tmp_path: Path) -> None:
    ran.add((row["name"], kind))
    without = row.get("without", {}).get("python")
    if without is not None:
        pytest.skip(f"not in Python: {without}")
    Run(row, kind, scripts, tmp_path)()


def test_every_row_was_run() -> None:
    assert ran == {(row["name"], kind) for row in ROWS for kind in KINDS}
    assert len(ran) == len(ROWS) * len(KINDS)


def test_what_the_driver_does_not_know_is_no_row(scripts: Scripts, tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        Run({"name": "new", "kind": "unheard_of", "client": {}}, "threads", scripts, tmp_path)()
    with pytest.raises(AssertionError):
        Run({key: None for key in (*ROW_KEYS, "new")}, "threads", scripts, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_golden_vector(kind: str, scripts: Scripts) -> None:
    gates = read("vectors.json")
    vectors = ROOT / "tests" / "vectors"
    assert len(gates) == len(list(vectors.glob("*/*.json")))
    address = scripts.order(replay=True)
    with Asking(kind, [address], options({"onUnavailable": "block"})) as asking:
        for wanted in gates:
            name = wanted.pop("vector")
            vector = json.loads((vectors / f"{name}.json").read_text("utf-8"))
            check(wanted, asking.trigger(message(vector["request"])), [address])
    assert int(scripts.order(asked=address)) == len(gates)
