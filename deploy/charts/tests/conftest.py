"""What the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update`: what is generated is written anew, and the tests that compare it say what changed."""
    parser.addoption("--update", action="store_true", help="write snapshots and deploy/kustomize/base anew")


@pytest.fixture
def same(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Holds a file in the repository to what is generated now."""

    def hold(path: Path, text: str) -> None:
        if request.config.getoption("--update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is not there: deploy/charts/test --update writes it"
        assert path.read_text() == text, f"{path} is not up to date: deploy/charts/test --update writes it"

    return hold
