"""What can be asked for, independent of any dataset; ``outhaul.data`` checks the names and types against one."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from outhaul.domain.job import Format, Priority
from outhaul.domain.options import OPTIONS, FormatOptions
from outhaul.domain.plain import check_plain
from outhaul.domain.recipients import check_recipients
from outhaul.errors import InvalidRequest, unknown

STRICT = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)


class Op(StrEnum):
    """Filter operators. Text operators are case-sensitive but for ``icontains``; days are those of ``zone``."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not_in"
    BETWEEN = "between"
    IS_NULL = "is_null"
    NOT_NULL = "not_null"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    ON = "on"
    BEFORE = "before"
    AFTER = "after"


LIST_OPS = frozenset({Op.IN, Op.NOT_IN, Op.BETWEEN})
NULL_OPS = frozenset({Op.IS_NULL, Op.NOT_NULL})
TEXT_OPS = frozenset({Op.CONTAINS, Op.ICONTAINS, Op.STARTS_WITH, Op.ENDS_WITH})
DAY_OPS = frozenset({Op.ON, Op.BEFORE, Op.AFTER})


class Comparison(BaseModel):
    """One column against a value: ``{"column": "dep_delay", "op": ">", "value": 60}``.

    ``zone`` is an IANA time zone name and belongs to ``on``, ``before`` and ``after``, whose value is a date or,
    for ``on``, also a pair of dates, both inclusive.
    """

    model_config = STRICT

    column: str
    op: Op
    value: Any = None
    zone: str | None = None

    @field_validator("op", mode="before")
    @classmethod
    def _known_op(cls, value: object) -> object:
        if isinstance(value, str) and value not in list(Op):
            raise ValueError(unknown("operator", value, Op))
        return value

    @model_validator(mode="after")
    def _value_fits_operator(self) -> Self:
        if self.op in NULL_OPS:
            if self.value is not None:
                raise ValueError(f"operator {self.op} takes no value")
        elif self.value is None:
            raise ValueError(f"operator {self.op} needs a value; use is_null or not_null to look for NULL")
        elif self.op in LIST_OPS and not isinstance(self.value, list):
            raise ValueError(f"operator {self.op} needs a list of values")
        elif self.op is Op.BETWEEN and len(self.value) != 2:
            raise ValueError("operator between needs a list of two values, both inclusive")
        elif self.op in TEXT_OPS and not isinstance(self.value, str):
            raise ValueError(f"operator {self.op} needs a text value")
        if self.zone is not None and self.op not in DAY_OPS:
            raise ValueError(f"a zone belongs to {', '.join(sorted(DAY_OPS))}, not to {self.op}")
        return self


class And(BaseModel):
    """All of the filters hold: ``{"and": [...]}``."""

    model_config = STRICT
    all_of: list[Filter] = Field(alias="and", min_length=1)


class Or(BaseModel):
    """At least one of the filters holds: ``{"or": [...]}``."""

    model_config = STRICT
    any_of: list[Filter] = Field(alias="or", min_length=1)


class Not(BaseModel):
    """The filter does not hold: ``{"not": {...}}``."""

    model_config = STRICT
    negated: Filter = Field(alias="not")


Filter = Comparison | And | Or | Not


class Sort(BaseModel):
    """One sort key; NULLs come last unless asked otherwise."""

    model_config = STRICT
    column: str = Field(description="Name of a column.")
    descending: bool = Field(default=False, description="Largest first.")
    nulls: Literal["first", "last"] = Field(default="last", description="Where rows without a value stand.")


class Query(BaseModel):
    """Which rows and columns: stored as ``export_jobs.query``."""

    model_config = STRICT

    columns: Annotated[list[str], Field(min_length=1)] | None = None
    filters: Filter | None = None
    sort: list[Sort] = []
    limit: Annotated[int, Field(ge=0, lt=2**63, strict=True)] | None = None

    @field_validator("filters", mode="before")
    @classmethod
    def _list_means_and(cls, value: object) -> object:
        if value == []:
            return None
        if isinstance(value, list):
            value = {"and": value}
        if value is not None and not isinstance(value, BaseModel):
            _check_shape(value)
        return value

    @field_validator("columns")
    @classmethod
    def _columns_once(cls, value: list[str] | None) -> list[str] | None:
        for name in value or []:
            if (value or []).count(name) > 1:
                raise ValueError(f"column {name!r} is asked for twice")
        return value

    def filter_columns(self) -> list[str]:
        """Every column named by a filter, in order of appearance."""
        found: list[str] = []

        def walk(node: Filter) -> None:
            match node:
                case Comparison():
                    found.append(node.column)
                case And():
                    for child in node.all_of:
                        walk(child)
                case Or():
                    for child in node.any_of:
                        walk(child)
                case Not():
                    walk(node.negated)

        if self.filters is not None:
            walk(self.filters)
        return found


class ExportRequest(BaseModel):
    """A request for an export, complete and well formed; whether its dataset knows the columns is checked later."""

    model_config = STRICT

    dataset: str
    query: Query = Query()
    format: Format = Format.CSV
    options: SerializeAsAny[FormatOptions]
    recipients: str = ""
    priority: Priority = Priority.NORMAL
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None

    @field_validator("recipients")
    @classmethod
    def _addresses(cls, value: str) -> str:
        return ",".join(check_recipients(value))


def parse_request(raw: dict[str, Any]) -> ExportRequest:
    """Read a request from plain data.

    Raises:
        InvalidRequest: with the path of the first thing that is wrong and what would be right.
    """
    for name, value in raw.items():
        check_plain(value, "" if name == "query" else name)  # a query's own paths begin with its parts
    _known_keys(raw, ExportRequest)
    for name in ("query", "options"):
        if not isinstance(raw.get(name) or {}, dict) or raw.get(name) == []:
            raise InvalidRequest(name, "is an object")
    raw_format = raw.get("format") or Format.CSV
    if raw_format not in list(Format):
        raise InvalidRequest("format", unknown("format", str(raw_format), Format))
    options = parse_options(Format(raw_format), raw.get("options") or {})
    if (raw_priority := raw.get("priority", Priority.NORMAL)) not in list(Priority):
        raise InvalidRequest("priority", unknown("priority", str(raw_priority), Priority))
    query = parse_query(raw.get("query") or {})
    try:
        return ExportRequest.model_validate({**raw, "format": raw_format, "options": options, "query": query})
    except ValidationError as error:
        raise _refusal(error) from None


def parse_query(raw: dict[str, Any]) -> Query:
    """Read columns, filters, sort and limit from plain data. Raises InvalidRequest."""
    _known_keys(raw, Query)
    try:
        return Query.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def parse_options(format_: Format, raw: dict[str, Any]) -> FormatOptions:
    """Read the options of one format from plain data. Raises InvalidRequest."""
    model = OPTIONS[format_]
    _known_keys(raw, model, kind=f"{format_} option", prefix="options.")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error, prefix="options.") from None


def parse_where(text: str) -> object:
    """Read the JSON of a ``--where`` option. Raises InvalidRequest that says where the JSON breaks off."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest("where", f"not valid JSON at character {error.pos}: {error.msg}") from None


def parse_sort(text: str) -> list[dict[str, Any]]:
    """Read ``a,-b``: ascending by a, then descending by b."""
    keys = [key.strip() for key in text.split(",") if key.strip()]
    return [{"column": key.removeprefix("-"), "descending": key.startswith("-")} for key in keys]


def _check_shape(node: Any, path: str = "filters") -> None:
    """Name what is wrong with a filter in its own words; a union's validation error names every branch instead."""
    if not isinstance(node, dict):
        raise InvalidRequest(path, 'a filter is an object such as {"column": "id", "op": "=", "value": 1}')
    for word in ("and", "or", "not"):
        if word not in node:
            continue
        if len(node) > 1:
            raise InvalidRequest(path, f"{word!r} stands alone in its object; nest the others inside it")
        if word == "not":
            return _check_shape(node[word], f"{path}.{word}")
        if not isinstance(node[word], list) or not node[word]:
            raise InvalidRequest(f"{path}.{word}", "needs a list of at least one filter")
        for i, child in enumerate(node[word]):
            _check_shape(child, f"{path}.{word}[{i}]")
        return None
    _known_keys(node, Comparison, kind="part of a filter", prefix=f"{path}.")
    try:
        Comparison.model_validate(node)
    except ValidationError as error:
        raise _refusal(error, prefix=f"{path}.") from None
    return None


def _known_keys(raw: dict[str, Any], model: type[BaseModel], kind: str = "field", prefix: str = "") -> None:
    for name in raw:
        if name not in model.model_fields:
            raise InvalidRequest(f"{prefix}{name}", unknown(kind, name, model.model_fields))


def _refusal(error: ValidationError, prefix: str = "") -> InvalidRequest:
    first = error.errors(include_url=False)[0]
    path = prefix + ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    return InvalidRequest(path.rstrip(".") or "request", message[:1].lower() + message[1:])
