"""The portable files of one build and one commit are equal byte for byte, however often they are made."""

import pytest
from test_80_portable import packed, place, pytestmark  # noqa: F401


@pytest.mark.parametrize("kind", ["tarball", "wheel"])
def test_twice_is_the_same(place, kind):  # noqa: F811
    first, second = (packed(kind, place / f"{kind}{number}") for number in range(2))
    assert first.read_bytes() == second.read_bytes()
