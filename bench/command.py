"""How every benchmark's command line ends: a plain line for each error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from outhaul.errors import InvalidRequest, OuthaulError

if TYPE_CHECKING:
    from cyclopts import App


def run(app: App) -> None:
    """Run the command line; every error is one plain line."""
    try:
        app(exit_on_error=True)
    except OuthaulError as error:
        sys.stderr.write(f"bench: {error.message}\n")
        sys.exit(2 if isinstance(error, InvalidRequest) else 1)
