"""What every test of the client begins with."""

from collections.abc import Iterator

import pytest

from rmq_ordered.client import Client
from rmq_ordered.testing import ClusterDouble


@pytest.fixture
def client(cluster: ClusterDouble) -> Iterator[Client]:
    """A client of the cluster that the test module describes."""
    with cluster.client() as client:
        yield client
