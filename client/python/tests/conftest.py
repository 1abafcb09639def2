"""What tests are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import Asker, Hookd


@pytest.fixture(params=["threads", "asyncio"])
def ask(request: pytest.FixtureRequest) -> Asker:
    """Each test of both clients runs once with each."""
    return Asker(request.param)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Hookd]]:
    """Starts real servers, which end with the test."""
    running: list[Hookd] = []

    def start(*hooks: dict[str, Any], **settings: Any) -> Hookd:
        folder = tmp_path / f"hookd-{len(running)}"
        folder.mkdir()
        running.append(Hookd(folder, list(hooks), settings))
        return running[-1]

    yield start
    for server in running:
        server.kill()
