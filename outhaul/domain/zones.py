"""Time zones by their names in the IANA database.

``zoneinfo`` reads the system's copy of the database (``/usr/share/zoneinfo``, or where PYTHONTZPATH points) and, for a
name that is not there, the ``tzdata`` package.
"""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from outhaul.errors import InvalidRequest, Unavailable, unknown

# No places: the first is whatever the machine is set to, the second what an unset machine has.
UNFIT = frozenset({"localtime", "Factory"})


def find_zone(name: str, field: str) -> ZoneInfo:
    """The zone called ``name``, spelt exactly so.

    Raises:
        InvalidRequest: names ``field`` and the closest zone.
        Unavailable: this machine has no copy of the database at all.
    """
    names = _names()
    if not names:
        raise Unavailable("there is no time zone data here: install the tzdata package of Python or of the system")
    if name not in names:
        # The list of all zones would bury the hint.
        hint = unknown("time zone", name, names).partition(" Allowed:")[0]
        raise InvalidRequest(field, hint if "Did you mean" in hint else f"{hint} One is called 'Europe/Berlin'.")
    return ZoneInfo(name)


@cache
def _names() -> frozenset[str]:
    # ZoneInfo itself also takes names of files such as "right/UTC", whose clock counts leap seconds.
    return frozenset(available_timezones()) - UNFIT
