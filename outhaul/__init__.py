"""Outhaul: a multi-tenant data export queue."""

__version__ = "0.1.0"
