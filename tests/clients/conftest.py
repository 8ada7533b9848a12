"""One server for the generated clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.e2e.processes import Place, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SCOPES = "agents:write runs:write runs:read approvals:read approvals:decide keys:write"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how its people get their tokens."""

    url: str
    place: Place

    def token(self, sub: str) -> str:
        """A token of the tenant `acme`."""
        return self.place.token(SCOPES, sub=sub)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    place = Place(tmp_path_factory.mktemp("clients"))
    with serving(place) as (url, _):
        yield Address(url, place)
