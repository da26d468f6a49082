"""Imports what a worker comes to need in the course of an export, so that a process on standby has it already."""

from __future__ import annotations

import outhaul.data.catalog
import outhaul.data.export
import outhaul.data.readers
import outhaul.orchestrator
import outhaul.service.worker
import outhaul.store.database
import outhaul.store.files
import outhaul.store.jobs
import outhaul.store.pauses  # noqa: F401
