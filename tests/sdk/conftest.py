import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import door as doors  # noqa: E402


@pytest.fixture(scope="session")
def door():
    one = doors.Door()
    yield one
    one.close()
