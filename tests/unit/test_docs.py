"""Pages that the code determines are as the code is now."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_generated_pages_are_fresh():
    for name, page in runpy.run_path(str(DOCS / "make.py"))["PAGES"].items():
        assert (DOCS / name).read_text() == page(), f"run `make docs`: {name} is stale"
