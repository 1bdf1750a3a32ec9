from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.planes.world import Hosts
from tests.postgresql import Cluster


@pytest.fixture
def make_hosts(tmp_path: Path, postgresql: Cluster) -> Iterator[Callable[..., Hosts]]:
    """Two hosts over an empty database; no plane runs yet."""
    with ExitStack() as stack:

        def make(cluster: Cluster = postgresql, **options: Any) -> Hosts:
            url = cluster.url(cluster.empty_database())
            return stack.enter_context(closing(Hosts(tmp_path, url, **options)))

        yield make
