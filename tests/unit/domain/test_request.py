import pytest

from outhaul.domain.job import Format, Priority
from outhaul.domain.request import parse_query, parse_request, parse_sort, parse_where
from outhaul.errors import InvalidRequest

EQUALS = {"column": "a", "op": "=", "value": 1}


def refusal(**raw):
    with pytest.raises(InvalidRequest) as caught:
        parse_request({"dataset": "flights", **raw})
    return caught.value


def test_the_least_that_can_be_asked():
    request = parse_request({"dataset": "flights"})
    assert (request.format, request.priority, request.query.filters) == (Format.CSV, Priority.NORMAL, None)


def test_a_stored_query_reads_back_as_it_was():
    raw = {
        "columns": ["a", "b"],
        "filters": {"or": [EQUALS, {"not": {"and": [{"column": "b", "op": "is_null"}, EQUALS]}}]},
        "sort": [{"column": "a", "descending": True, "nulls": "first"}],
        "limit": 10,
    }
    query = parse_query(raw)
    assert parse_query(query.model_dump(mode="json")) == query
    assert query.filter_columns() == ["a", "b", "a"]


def test_a_list_of_filters_means_that_all_hold():
    assert parse_query({"filters": [EQUALS, EQUALS]}) == parse_query({"filters": {"and": [EQUALS, EQUALS]}})
    assert parse_query({"filters": []}).filters is None


@pytest.mark.parametrize(
    ("raw", "field", "words"),
    [
        ({"format": "parket"}, "format", "Did you mean 'parquet'?"),
        ({"priority": "urgent"}, "priority", "Allowed: high, low, normal"),
        ({"options": {"delimeter": ";"}}, "options.delimeter", "Did you mean 'delimiter'?"),
        ({"options": {"header": "perhaps"}}, "options.header", "boolean"),
        ({"quary": {}}, "quary", "Did you mean 'query'?"),
        ({"query": {"colums": ["a"]}}, "colums", "Did you mean 'columns'?"),
        ({"query": {"columns": []}}, "columns", "at least 1"),
        ({"query": {"columns": ["a", "a"]}}, "columns", "'a' is asked for twice"),
        ({"query": {"limit": -1}}, "limit", "greater than or equal to 0"),
        ({"query": {"limit": True}}, "limit", "valid integer"),
        ({"query": {"limit": "ten"}}, "limit", "valid integer"),
        ({"query": {"filters": {"column": "a", "op": "=>", "value": 1}}}, "filters.op", "not a known operator"),
        ({"query": {"filters": {"op": "=", "value": 1}}}, "filters.column", "required"),
        ({"query": {"filters": {"column": "a", "op": "="}}}, "filters", "needs a value"),
        ({"query": {"filters": {"column": "a", "op": "is_null", "value": 1}}}, "filters", "takes no value"),
        ({"query": {"filters": {"column": "a", "op": "in", "value": 1}}}, "filters", "list of values"),
        ({"query": {"filters": {"column": "a", "op": "between", "value": [1]}}}, "filters", "two values"),
        ({"query": {"filters": {"column": "a", "op": "contains", "value": 1}}}, "filters", "text value"),
        ({"query": {"filters": {**EQUALS, "zone": "UTC"}}}, "filters", "zone belongs to"),
        ({"query": {"filters": {**EQUALS, "valeu": 1}}}, "filters.valeu", "Did you mean 'value'?"),
        ({"query": {"filters": {"or": [EQUALS, {"and": []}]}}}, "filters.or[1].and", "at least one"),
        ({"query": {"filters": {"or": [EQUALS], **EQUALS}}}, "filters", "stands alone"),
        ({"query": {"filters": "a=1"}}, "filters", "a filter is an object"),
        ({"query": {"filters": {"not": [EQUALS]}}}, "filters.not", "a filter is an object"),
        ({"recipients": "a@lab.test\nBcc: evil@lab.test"}, "recipients", "not an e-mail address"),
        ({"recipients": "nobody"}, "recipients", "not an e-mail address"),
        ({"idempotency_key": ""}, "idempotency_key", "at least 1"),
    ],
)
def test_what_is_wrong_is_named(raw, field, words):
    error = refusal(**raw)
    assert error.field == field
    assert words in error.message
    assert "\n" not in error.message


def test_a_request_without_dataset_is_refused():
    with pytest.raises(InvalidRequest, match="dataset: field required"):
        parse_request({})


def test_addresses_are_kept_one_by_one():
    assert (
        parse_request({"dataset": "d", "recipients": " a@lab.test , b@lab.test,"}).recipients == "a@lab.test,b@lab.test"
    )


def test_command_line_forms():
    assert parse_sort("a,-b") == [{"column": "a", "descending": False}, {"column": "b", "descending": True}]
    assert parse_where('{"column": "a", "op": "is_null"}') == {"column": "a", "op": "is_null"}
    with pytest.raises(InvalidRequest, match="where: not valid JSON at character 1"):
        parse_where("{column: 1}")
