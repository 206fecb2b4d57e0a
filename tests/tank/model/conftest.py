from __future__ import annotations

import pytest

from ullage.errors import UllageError
from ullage.tank.model.download import fetch_smollm2
from ullage.tank.model.load import Loaded, load_model


@pytest.fixture(scope="session")
def smollm2() -> Loaded:
    """Fetched at first, then out of the user's cache."""
    try:
        fetch_smollm2()
    except UllageError as error:
        pytest.skip(str(error))
    return load_model("smollm2")


@pytest.fixture(scope="session")
def tiny() -> Loaded:
    return load_model("tiny")
