"""Runs one program and prints what it cost as JSON. Started with ``python -I -S``, so that it stays small.

A process inherits the peak memory of the one that starts it, and the benchmark itself is far larger than ``psql``.
What this adds is a floor of some 10 MB.
"""

import json
import os
import sys
import time


def run(command: list[str]) -> dict[str, float]:
    """Run ``command`` to its end, its output discarded; wall and CPU seconds, and peak RSS in bytes."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss_bytes": usage.ru_maxrss * 1024,
        "exit_code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    json.dump(run(sys.argv[1:]), sys.stdout)
