"""An engine's version as numbers, for formulas that changed from one release to the next."""

from __future__ import annotations

import re

from ..figure import Figure

Release = tuple[int, int, int]
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?=$|[.\-+ ]|post|rc|dev|a|b)")


def release_of(version: Figure | None) -> Release | None:
    """ "0.20.1rc1.dev16+g1234" is (0, 20, 1). None: not known, or a build that states no release."""
    match = _RELEASE.match(str(version.value)) if version is not None and version.known else None
    if match is None:
        return None
    major, minor, patch = (int(number) for number in match.groups())
    return (major, minor, patch) if (major, minor, patch) != (0, 0, 0) else None
