"""What can be exported, in words that need no data frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from outhaul.data.catalog import Catalog, Dataset


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column; ``operators`` are those that fit its type, ``checks`` what the contract promises of its values."""

    name: str
    type: str
    nullable: bool
    description: str
    checks: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """One dataset."""

    name: str
    description: str
    columns: tuple[ColumnFacts, ...]


@dataclass(frozen=True, slots=True)
class Datasets:
    """The catalog, for fronts."""

    catalog: Callable[[], Catalog]

    def all(self) -> list[DatasetFacts]:
        """Every dataset, in the catalog's order."""
        return [_facts(dataset) for dataset in self.catalog()]

    def get(self, name: str) -> DatasetFacts:
        """One of them. Raises InvalidRequest with the closest name."""
        return _facts(self.catalog().get(name))


def _facts(dataset: Dataset) -> DatasetFacts:
    from outhaul.data.values import operators

    return DatasetFacts(
        dataset.name,
        dataset.description,
        tuple(
            ColumnFacts(
                column.name,
                str(column.dtype),
                column.nullable,
                column.description,
                column.checks,
                tuple(sorted(operators(column.dtype))),
            )
            for column in dataset.columns
        ),
    )
