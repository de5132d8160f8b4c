"""The toy world of near duplicates, decided once."""

from __future__ import annotations

import pytest
from toy_pairs import RECORDS, World, decided


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return decided(tmp_path_factory.mktemp("pairs"), RECORDS)
