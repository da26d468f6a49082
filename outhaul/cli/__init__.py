"""The ``outhaul`` command. Kept stable: scripts and benchmarks use it.

Exit status: 0 done, 1 the job or copy failed or a component does not answer, 2 bad usage.
"""

from __future__ import annotations

import sys
import traceback

from cyclopts import App, CycloptsError

from outhaul import __version__
from outhaul.cli import exports, keys, manage, pausing, stack
from outhaul.errors import InvalidRequest, NotFound, OuthaulError, Refused

app = App(name="outhaul", version=__version__, help="A multi-tenant data export queue.")
for commands in (stack, exports, pausing, manage, keys):
    for command in commands.COMMANDS:
        app.command(command)


def main() -> None:
    """Run the command line; every error is one plain line, ``--verbose`` adds the trace."""
    words = [word for word in sys.argv[1:] if word != "--verbose"]
    verbose = len(words) < len(sys.argv) - 1
    try:
        code = app(words, exit_on_error=False, print_error=False)
        sys.exit(code if isinstance(code, int) else 0)
    except CycloptsError as error:
        _complain(f"{error} See `outhaul --help`.", verbose=verbose)
        sys.exit(2)
    except OuthaulError as error:
        _complain(error.message, error.detail, verbose=verbose)
        sys.exit(2 if isinstance(error, InvalidRequest | NotFound | Refused) else 1)
    except KeyboardInterrupt:
        _complain("interrupted", verbose=verbose)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)


def _complain(line: str, detail: str = "", *, verbose: bool) -> None:
    sys.stderr.write(f"outhaul: {' '.join(line.split())}\n")
    if verbose:
        sys.stderr.write(f"{detail}\n{traceback.format_exc()}")
