"""The data path against what people use today: whole processes, in pairs, in alternation."""

from __future__ import annotations

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from bench import report
from bench.command import run
from bench.measure import measure
from bench.orders import Orders
from bench.report import Pair
from bench.tools import FORMATS, OUTHAUL, PEERS
from outhaul.errors import InvalidRequest, unknown
from outhaul.stack.postgres import EmbeddedPostgres

HOME = Path(".outhaul") / "bench"
WARMUP_ROWS = 1_000
# The table is made again when it is lost, so the log of its making is not worth the time.
SETTINGS = {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "4GB"}

app = App(name="python -m bench", help="Measure the data path against what people use today.")


@app.default
def bench(
    *,
    rows: Annotated[int, Parameter(help="Rows of the table.")] = 3_000_000,
    runs: Annotated[int, Parameter(help="Pairs of runs for each peer and format; the median counts.")] = 5,
    formats: Annotated[str, Parameter(help="Separated by commas.")] = ",".join(FORMATS),
    peers: Annotated[str, Parameter(help="Separated by commas.")] = ",".join(PEERS),
    url: Annotated[str | None, Parameter(help="Another server than the embedded one; tables are made in it.")] = None,
    json: Annotated[Path | None, Parameter(help="Write every run and the summary to this file.")] = None,
    markdown: Annotated[Path | None, Parameter(help="Write the tables to this file.")] = None,
) -> None:
    """Run Outhaul and each peer in turn over the same table and print what each cost."""
    for name, value in (("rows", rows), ("runs", runs)):
        if value < 1:
            raise InvalidRequest(name, "must be at least 1")
    plan = [
        (format_, peer)
        for format_ in chosen("format", formats, FORMATS)
        for peer in chosen("peer", peers, tuple(PEERS))
        if format_ in PEERS[peer].formats
    ]
    if not plan:
        raise InvalidRequest("peers", "none of them writes any of the formats")
    server = nullcontext(url) if url else EmbeddedPostgres(HOME, settings=SETTINGS).running("demo")
    with server as source, tempfile.TemporaryDirectory(prefix="outhaul-bench-", dir=_folder()) as folder:
        warm_up(plan, Orders(source, "bench_warmup", WARMUP_ROWS), Path(folder))
        orders = Orders(source, "bench_orders", rows)
        say(f"preparing {rows:,} rows")
        about = report.machine(orders.prepare())
        pairs = run_pairs(plan, orders, runs, Path(folder))
    lines = report.summarise(pairs, rows)
    report.show(lines, about, rows)
    if json:
        json.write_text(report.document(lines, pairs, about, rows))
    if markdown:
        markdown.write_text(report.markdown(lines, about, rows))


def chosen(kind: str, names: str, allowed: tuple[str, ...]) -> list[str]:
    """The names between the commas. Raises InvalidRequest."""
    picked = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in picked:
        if name not in allowed:
            raise InvalidRequest(f"{kind}s", unknown(kind, name, allowed))
    return picked


def warm_up(plan: list[tuple[str, str]], orders: Orders, folder: Path) -> None:
    """Let every tool export a small table: their programs get into the caches, and who cannot run says so now."""
    orders.prepare()
    for format_ in dict.fromkeys(format_ for format_, _ in plan):
        for tool in (OUTHAUL, *(PEERS[peer] for other, peer in plan if other == format_)):
            measure(tool, orders, format_, folder)
    say("every tool works")


def run_pairs(plan: list[tuple[str, str]], orders: Orders, runs: int, folder: Path) -> list[Pair]:
    """Measure all pairs once a round; who goes first changes from round to round."""
    pairs = []
    for turn in range(runs):
        for format_, peer in plan:
            order = (OUTHAUL, PEERS[peer]) if turn % 2 == 0 else (PEERS[peer], OUTHAUL)
            costs = {tool.name: measure(tool, orders, format_, folder) for tool in order}
            pair = Pair(format_, peer, turn + 1, costs[OUTHAUL.name], costs[peer])
            pairs.append(pair)
            say(
                f"round {turn + 1}/{runs} {format_:7} outhaul {pair.outhaul.seconds:7.2f} s   "
                f"{peer:10} {pair.theirs.seconds:7.2f} s"
            )
    return pairs


def say(line: str) -> None:
    """Tell how far it is, apart from the results."""
    sys.stderr.write(f"{line}\n")


def _folder() -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    return HOME.resolve()


def main() -> None:
    """Run the command line; every error is one plain line."""
    run(app)


if __name__ == "__main__":
    main()
