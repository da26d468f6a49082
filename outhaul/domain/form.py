"""A request in the shape of a form: flat where a request nests, and every field described.

Prefect's UI draws the form from its JSON schema, and sends each default that the schema names as if a person had typed
it. So an option that equals its default counts as left alone; or else a preset such as ``excel`` would lose to it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_serializer, model_validator

from outhaul.domain.job import Format
from outhaul.domain.options import OPTIONS
from outhaul.domain.request import Op, Sort, parse_where
from outhaul.errors import InvalidRequest

# One tab of the form each: the asker, not a guess, says whether 300 is a number or text.
ONES = [
    {"type": "string", "title": "text"},
    {"type": "number", "title": "number"},
    {"type": "boolean", "title": "true or false"},
]
LISTS = [
    {"type": "array", "title": "list of texts", "items": {"type": "string"}},
    {"type": "array", "title": "list of numbers", "items": {"type": "number"}},
]
Value = Annotated[Any, WithJsonSchema({"anyOf": [*ONES, *LISTS]})]


def _unsaid(schema: dict[str, Any]) -> None:
    del schema["default"]


def _field(description: str, **rules: Any) -> Any:
    """A field that may be left empty."""
    return Field(default=None, description=description, json_schema_extra=_unsaid, **rules)


def _options(format_: Format) -> dict[str, Any]:
    """The JSON schema of a format's options, with those that may be None to be left empty instead."""
    schema = OPTIONS[format_].model_json_schema() | {"title": f"options of {format_}"}
    for option in schema["properties"].values():
        if option["default"] is None:
            del option["default"]
            option.update(option.pop("anyOf")[0])
    return schema


class Form(BaseModel):
    """A part of the form; what is left empty is not in what it is dumped as."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, raw: Any) -> Any:
        """Prefect takes null for a field that may be left empty."""
        return {name: value for name, value in raw.items() if value is not None} if isinstance(raw, dict) else raw

    @model_serializer(mode="wrap")
    def _said(self, dump: Any) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}


class FilterForm(Form):
    """One condition."""

    column: str = Field(description="Name of a column.")
    op: Op = Field(description="How it compares. is_null and not_null need no value; in, not_in and between a list.")
    value: Value = _field("What it is compared with. A date or time is text, such as 2013-06-30.")
    zone: str = _field("Whose days on, before and after speak of, such as America/New_York. Empty: UTC.")


class QueryForm(Form):
    """Which rows and columns."""

    columns: list[str] = _field("Names of the columns, in their order. Empty: all.")
    filters: list[FilterForm] = _field("Conditions that must all hold. Empty: every row of the tenant.")
    where: str = _field(
        "More conditions, as JSON with and, or, not: "
        '{"or": [{"column": "origin", "op": "=", "value": "JFK"}, {"column": "dep_delay", "op": ">", "value": 60}]}'
    )
    sort: list[Sort] = _field("What to sort by, the most important first. Empty: in no particular order.")
    limit: int = _field("At most so many rows. Empty: all.", ge=0)

    def request(self) -> dict[str, Any]:
        """The query of a request. Raises InvalidRequest for a ``where`` that is not JSON."""
        query = self.model_dump(mode="json")
        filters = query.pop("filters", [])
        if where := query.pop("where", ""):
            more = parse_where(where)
            filters += more if isinstance(more, list) else [more]
        return {**query, "columns": query.get("columns") or None, "filters": filters}


class OptionsForm(Form):
    """Options of the format; those of the other formats are left alone."""

    csv: Annotated[dict[str, Any], WithJsonSchema(_options(Format.CSV))] = _field("For the format csv.")
    json_: Annotated[dict[str, Any], WithJsonSchema(_options(Format.JSON))] = _field(
        "For the format json.", alias="json"
    )
    parquet: Annotated[dict[str, Any], WithJsonSchema(_options(Format.PARQUET))] = _field("For the format parquet.")

    def request(self, format_: str) -> dict[str, Any]:
        """The options of a request for files of this format.

        Raises:
            InvalidRequest: for an option of another format.
        """
        said = self.model_dump(mode="json", by_alias=True)
        found = {name: _changed(Format(name), options) for name, options in said.items()}
        for name, options in found.items():
            if options and name != format_:
                raise InvalidRequest(f"options.{name}", f"{', '.join(options)} is said, but the format is {format_}")
        return found.get(format_, {})


def _changed(format_: Format, options: dict[str, Any]) -> dict[str, Any]:
    """Those that are neither empty nor what they are by default; unknown ones are left to the format to refuse."""
    usual = {name: field.default for name, field in OPTIONS[format_].model_fields.items()}
    return {
        name: value
        for name, value in options.items()
        if value is not None and (name not in usual or value != usual[name])
    }
