"""Every setting of Outhaul, read once from the environment (``OUTHAUL_*``) and never changed afterwards."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from outhaul.domain.job import DEFAULT_SOURCE, LAKE_SOURCE
from outhaul.errors import Unavailable

Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """One frozen object; each field is the environment variable ``OUTHAUL_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix="OUTHAUL_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(".outhaul"), description="Folder of the embedded stack: databases, logs, files.")
    database_url: SecretStr | None = Field(
        default=None,
        description="PostgreSQL URL of the queue, 14 or later. Default: the embedded server's database `outhaul`.",
    )
    source_url: SecretStr | None = Field(
        default=None,
        description="PostgreSQL URL that datasets are read from, best a replica. Default: the embedded `demo`.",
    )
    sources: Annotated[dict[str, SecretStr], NoDecode] = Field(
        default={},
        description="More databases that datasets are read from, as a JSON object of names and PostgreSQL URLs.",
    )
    store_url: str | None = Field(
        default=None,
        description="Where files go: `file://FOLDER` or `s3://BUCKET/PREFIX`. Default: the folder `files` in home.",
    )
    store_credentials_block: str | None = Field(
        default=None,
        description="prefect-aws block that holds the S3 credentials, such as `aws-credentials/exports` or "
        "`minio-credentials/lab`. Default: boto3's own search (environment, profile, role).",
    )
    catalog: str = Field(
        default="outhaul.demo.catalog", description="Python module whose `catalog` declares the datasets."
    )
    prefect_port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=4200, description="Port of the embedded Prefect server; PREFECT_API_URL names an outside one instead."
    )
    lease_seconds: Seconds = Field(
        default=300, description="How long a worker may stay silent before its job is given to another."
    )
    heartbeat_seconds: Seconds = Field(default=60, description="How often a worker renews its lease.")
    retry_delays: Annotated[tuple[Seconds, ...], NoDecode] = Field(
        default=(30, 120, 600),
        description="Seconds before each retry, separated by commas; at most three retries.",
        max_length=3,
    )
    max_active_jobs: Annotated[int, Field(ge=1)] = Field(
        default=6, description="Jobs under way over all tenants: the export pool's limit and a small buffer."
    )
    source_max_jobs: Annotated[int, Field(ge=1)] = Field(
        default=6, description="Jobs under way that read the same source; each has one connection there."
    )
    statement_timeout_seconds: Seconds = Field(
        default=6 * 3600,
        description="Longest run of an export's query in the source database, unless its dataset says otherwise.",
    )
    api_port: Annotated[int, Field(ge=1, le=65535)] = Field(default=8000, description="Port of the embedded HTTP API.")
    public_url: str | None = Field(
        default=None,
        description="Where askers reach the HTTP API, for links in notices and answers. Default: the embedded one.",
        pattern=r"^https?://[^\s?#]+[^\s?#/]$",
    )
    max_waiting_jobs: Annotated[int, Field(ge=1)] = Field(
        default=10_000, description="Jobs of one tenant that may wait in line; more are refused until some have gone."
    )
    requests_per_minute: Annotated[int, Field(ge=1)] = Field(
        default=600, description="Requests that one API key may make in any minute, for each process of the API."
    )
    link_days: Annotated[float, Field(gt=0, le=365)] = Field(
        default=7, description="Days after its end for which the links to a job's files work without a key."
    )
    webhook_allow: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Networks and host names, separated by commas, that webhooks may reach though they are not public, "
        "such as `10.0.0.0/8,hooks.example.com`.",
    )
    mail_url: SecretStr | None = Field(
        default=None,
        description="Mail server: `smtps://USER:PASSWORD@HOST`, `smtp+starttls://...`, or `smtp://HOST` in the clear. "
        "Without it, requests that name recipients are refused.",
    )
    mail_from: str = Field(default="Outhaul <outhaul@localhost.localdomain>", description="Whom e-mails are from.")
    alert_url: SecretStr | None = Field(
        default=None,
        description="Incoming webhook of a chat (Slack and its like) that is told of dead jobs, a queue that is stuck "
        "and notices that were given up: one message for each cause.",
    )
    alert_block: str | None = Field(
        default=None, description="Prefect notification block that is told of the same, such as `slack-webhook/ops`."
    )
    hide_values: bool = Field(
        default=False, description="Leave example values out of the errors that a broken contract causes."
    )

    @field_validator("sources", mode="before")
    @classmethod
    def _read_sources(cls, value: object) -> object:
        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError:
            raise ValueError('it is not a JSON object such as {"crm": "postgresql://reader@host/crm"}') from None

    @field_validator("sources")
    @classmethod
    def _check_sources(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, url in value.items():
            if not name or name in {DEFAULT_SOURCE, LAKE_SOURCE}:
                raise ValueError(f"{name!r} cannot be a source's name")
            if not url.get_secret_value().startswith(("postgresql://", "postgres://")):
                raise ValueError(f"source {name!r} needs a URL such as postgresql://user@host/name")
        return value

    @field_validator("retry_delays", "webhook_allow", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @property
    def outside_database(self) -> str | None:
        """``database_url`` in the clear, or None for the embedded server."""
        return self.database_url.get_secret_value() if self.database_url else None

    @property
    def outside_source(self) -> str | None:
        """``source_url`` in the clear, or None for the embedded server."""
        return self.source_url.get_secret_value() if self.source_url else None

    @property
    def named_sources(self) -> dict[str, str]:
        """``sources`` in the clear."""
        return {name: url.get_secret_value() for name, url in self.sources.items()}

    @property
    def retries(self) -> tuple[timedelta, ...]:
        """``retry_delays`` as time spans."""
        return tuple(timedelta(seconds=delay) for delay in self.retry_delays)


def load_settings() -> Settings:
    """Read the environment.

    Raises:
        Unavailable: a variable has a value that it cannot have; the message names it.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = str(first["msg"]).removeprefix("Value error, ")
        raise Unavailable(f"OUTHAUL_{str(first['loc'][0]).upper()}: {message[:1].lower()}{message[1:]}") from None
    if settings.heartbeat_seconds * 2 > settings.lease_seconds:
        raise Unavailable("OUTHAUL_HEARTBEAT_SECONDS must be at most half of OUTHAUL_LEASE_SECONDS")
    return settings
