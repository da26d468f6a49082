"""The form: its JSON schema, and how what a person fills in becomes a request."""

import json

import pytest
from pydantic import TypeAdapter

from outhaul.domain.form import Form, OptionsForm, QueryForm
from outhaul.domain.job import Format
from outhaul.domain.options import OPTIONS
from outhaul.domain.request import Op, parse_request
from outhaul.errors import InvalidRequest


def objects(node):
    """Every object of a schema that has properties."""
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for child in node.values():
            yield from objects(child)
    elif isinstance(node, list):
        for child in node:
            yield from objects(child)


@pytest.mark.parametrize("form", [QueryForm, OptionsForm])
def test_every_field_is_described_and_no_other_is_taken(form):
    found = list(objects(form.model_json_schema()))
    assert len(found) >= 3
    for part in found:
        assert part["additionalProperties"] is False, part["title"]
        for name, field in part["properties"].items():
            assert field.get("description"), name


def test_the_form_can_be_drawn():
    """Prefect's form knows no recursion, and shows a field without type or choices as raw JSON."""
    text = json.dumps([QueryForm.model_json_schema(), OptionsForm.model_json_schema()])
    assert "Comparison" not in text
    for form in (QueryForm, OptionsForm):
        for part in objects(form.model_json_schema()):
            for field in part["properties"].values():
                assert {"type", "anyOf", "$ref"} & set(field)
                assert {"type": "null"} not in field.get("anyOf", [])


def test_operators_are_a_choice():
    assert QueryForm.model_json_schema()["$defs"]["Op"]["enum"] == list(Op)


def test_options_are_those_of_the_formats():
    schema = OptionsForm.model_json_schema()["properties"]
    assert set(schema) == set(Format)
    for name, options in OPTIONS.items():
        assert set(schema[name]["properties"]) == set(options.model_fields)


def test_what_is_left_empty_asks_for_everything():
    assert parse_request({"dataset": "d", "query": QueryForm.model_validate({}).request()}) == parse_request(
        {"dataset": "d"}
    )
    empty = {"columns": [], "filters": [], "where": "", "sort": [], "limit": None}
    assert parse_request({"dataset": "d", "query": QueryForm.model_validate(empty).request()}) == parse_request(
        {"dataset": "d"}
    )


@pytest.mark.parametrize("form", [QueryForm, OptionsForm])
def test_the_default_of_a_part_says_nothing(form):
    assert TypeAdapter(Form).dump_python(form(), mode="json") == {}


def test_filters_and_where_must_all_hold():
    more = '[{"column": "a", "op": "is_null"}, {"not": {"column": "b", "op": "=", "value": 1}}]'
    first = {"column": "c", "op": "in", "value": ["x", "y"]}
    assert QueryForm.model_validate({"filters": [first], "where": more}).request()["filters"] == [
        first,
        *json.loads(more),
    ]
    assert QueryForm.model_validate({"where": more}).request()["filters"] == json.loads(more)
    one = {"column": "c", "op": "=", "value": True, "zone": None}
    assert QueryForm.model_validate({"filters": [one]}).request()["filters"] == [
        {"column": "c", "op": "=", "value": True}
    ]


def test_a_preset_holds_though_the_form_sends_every_default():
    sent = {
        name: {field: rule["default"] for field, rule in part["properties"].items() if "default" in rule}
        for name, part in OptionsForm.model_json_schema()["properties"].items()
    }
    assert sent["csv"]["bom"] is False
    for format_ in Format:
        assert OptionsForm.model_validate(sent).request(format_) == {}
    sent["csv"]["excel"] = True
    asked = parse_request({"dataset": "d", "options": OptionsForm.model_validate(sent).request("csv")})
    assert asked.options.bom is True


def test_options_of_another_format_are_refused():
    with pytest.raises(InvalidRequest) as caught:
        OptionsForm(parquet={"compression": "lz4"}).request("csv")
    assert caught.value.message == "options.parquet: compression is said, but the format is csv"


def test_a_where_that_is_not_json_is_refused():
    with pytest.raises(InvalidRequest, match="where: not valid JSON at character 1"):
        QueryForm(where="{bad").request()


def test_an_unknown_option_is_left_to_its_format():
    assert OptionsForm(csv={"delimeter": ";", "bom": None}).request("csv") == {"delimeter": ";"}
