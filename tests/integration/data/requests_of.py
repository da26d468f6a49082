"""Random requests."""

from hypothesis import strategies as st


def comparison(column, values, *, order=True):
    """A filter of one column by value; ``order`` says whether it has smaller and larger ones."""
    one = st.builds(
        lambda op, value: {"column": column, "op": op, "value": value},
        st.sampled_from(["=", "!=", *(["<", "<=", ">", ">="] if order else [])]),
        values,
    )
    many = st.builds(
        lambda op, value: {"column": column, "op": op, "value": value},
        st.sampled_from(["in", "not_in"]),
        st.lists(values, max_size=3),
    )
    between = st.builds(
        lambda low, high: {"column": column, "op": "between", "value": [low, high]},
        values,
        values,
    )
    null = st.sampled_from([{"column": column, "op": op} for op in ("is_null", "not_null")])
    return one | many | null | between if order else one | many | null


def matching(column, values, *, insensitive=True):
    """A filter of one column by a part of its text."""
    return st.builds(
        lambda op, value: {"column": column, "op": op, "value": value},
        st.sampled_from(["contains", "starts_with", "ends_with", *(["icontains"] if insensitive else [])]),
        values,
    )


def filters(leaves, *, max_leaves=8):
    """Filters nested in each other."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3).map(lambda nodes: {"and": nodes})
            | st.lists(inner, min_size=1, max_size=3).map(lambda nodes: {"or": nodes})
            | inner.map(lambda node: {"not": node})
        ),
        max_leaves=max_leaves,
    )


def sorts(columns):
    """Up to two sort keys."""
    return st.lists(
        st.builds(
            lambda column, descending, nulls: {"column": column, "descending": descending, "nulls": nulls},
            st.sampled_from(columns),
            st.booleans(),
            st.sampled_from(["first", "last"]),
        ),
        max_size=2,
    )
