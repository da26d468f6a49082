"""A process that has imported all that a run needs, and becomes one when it is told which.

``python -P -m outhaul.stack.standby MODULE...``. Its order is one JSON object on its standard input, up to the end:
``env`` and ``cwd``, as they would have been given to a process started for that run. No order means nobody needs it.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import warnings
from importlib import import_module
from pathlib import Path

ENGINE = "prefect.engine"


def main() -> None:
    """Import, wait for the order, and carry it out as ``python -m prefect.engine`` would."""
    for name in sys.argv[1:]:
        import_module(name)
    words = sys.stdin.buffer.read()
    if words:
        order = json.loads(words)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir(order["cwd"])
        sys.path.insert(0, str(Path.cwd()))
        # It has been imported, and is carried out all the same, which Python would warn of in each run's log.
        warnings.filterwarnings("ignore", f"'{ENGINE}' found in sys.modules", RuntimeWarning)
        sys.argv = [ENGINE]  # the engine takes a word after its name for a run's id
        runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
