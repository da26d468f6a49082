"""Writes the pages of ``docs/`` that the code itself determines, for ``make docs``. A test holds them to it."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from outhaul.settings import Settings

HERE = Path(__file__).parent

SETTINGS_HEAD = """# Settings

Each is an environment variable, read once when a process starts. What has a value that it cannot have is named at once.
This page is made from `outhaul/settings.py` by `make docs`.

| variable | default | what it is |
|---|---|---|
"""

SETTINGS_FOOT = """
Prefect has settings of its own. Two matter here: `PREFECT_API_URL` names a Prefect server outside the embedded stack,
and `PREFECT_API_KEY` is the key for Prefect Cloud.

For S3, boto3 finds credentials, region and endpoint: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL`, a profile, or the machine's role; or they come from
`OUTHAUL_STORE_CREDENTIALS_BLOCK`.
"""


def settings_page() -> str:
    """The table of settings."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, tuple):
            default = ",".join(f"{item:g}" for item in default)
        shown = "" if default is None or isinstance(default, SecretStr) else f"`{default}`".lower()
        rows.append(f"| `OUTHAUL_{name.upper()}` | {shown} | {field.description} |\n")
    return SETTINGS_HEAD + "".join(rows) + SETTINGS_FOOT


PAGES = {"settings.md": settings_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page())
