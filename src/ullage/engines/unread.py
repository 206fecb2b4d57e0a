"""What could not be read, in as few lines as it can be told in."""

from __future__ import annotations

from collections.abc import Sequence

from ..evidence import Evidence, Failure

Failed = tuple[Evidence, Failure]
NO_RIGHTS = "no rights"  # status of what another user could read


def told_together(failed: Sequence[Failed]) -> list[Failed]:
    """Endpoints of one server that failed for one reason are one line. What is not served is told path by path; what
    this user may not read, once for all servers.
    """
    alike: dict[tuple[str, ...], list[Failed]] = {}
    for item, failure in failed:
        apart = item.place if failure.status == "404" else ""
        whose = "" if failure.status == NO_RIGHTS else item.origin.target
        alike.setdefault((whose, *failure, apart), []).append((item, failure))
    return [_told_once(together) for together in alike.values()]


def _told_once(failed: Sequence[Failed]) -> Failed:
    item, failure = failed[0]
    if len(failed) == 1:
        return item, failure
    if failure.status == NO_RIGHTS:
        return item._replace(place=", ".join(dict.fromkeys(other.place for other, _ in failed)), topic=""), failure
    target = item.origin.target
    paths = ", ".join(other.place.removeprefix(target).removeprefix(":") for other, _ in failed)
    return item._replace(place=target, topic=""), failure._replace(reason=f"{failure.reason}: {paths}")
