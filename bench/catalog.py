"""The dataset that is measured, with its contract: Outhaul does not run with less than its users have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import polars as pl  # noqa: TC002 -- Pandera reads the annotations
from pandera.polars import DataFrameModel, Field

from outhaul.data.catalog import Catalog, Dataset, Table


class Orders(DataFrameModel):
    """Orders of a shop; ``orders.sql`` makes them."""

    id: pl.Int64 = Field(ge=1)
    order_id: str
    customer_id: str
    email: str = Field(str_contains="@")
    status: str = Field(isin=["pending", "paid", "packed", "shipped", "delivered", "cancelled"])
    amount: Annotated[pl.Decimal, 14, 2] = Field(ge=0)
    currency: str = Field(isin=["EUR", "USD", "GBP", "CHF", "JPY", "SEK"])
    quantity: pl.Int32 = Field(in_range={"min_value": 1, "max_value": 100})
    ordered_at: Annotated[pl.Datetime, "us", "UTC"] = Field(ge=datetime(2023, 1, 1, tzinfo=UTC))
    ship_date: pl.Date = Field(nullable=True)
    note: str = Field(nullable=True)
    attributes: str
    is_gift: bool
    risk_score: float = Field(nullable=True, in_range={"min_value": 0, "max_value": 1})


catalog = Catalog(
    Dataset("bench_orders", Table("bench_orders"), Orders, shared=True),
    Dataset("bench_warmup", Table("bench_warmup"), Orders, shared=True),
)
