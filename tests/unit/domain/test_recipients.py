import pytest
from hypothesis import given
from hypothesis import strategies as st

from outhaul.domain.recipients import check_address, check_recipients
from outhaul.domain.request import parse_request
from outhaul.errors import InvalidRequest

BREAKS = ["\r\n", "\r", "\n", "\t", "\x0b", "\x0c", "\x00", "\x1c", "\x1d", "\x1e", "\x7f", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize(
    "address",
    [
        "a@lab.test", "ada.lovelace+exports@sub.example.com", "o'brien@example.com", "a_b-c@example.co.uk",
        "1@1and1.example", "A@EXAMPLE.COM", "x@xn--bcher-kva.example", f"{'a' * 64}@example.com",
        f"a@{'b' * 63}.example.com", f"a@{'b.' * 122}example",
    ],
)  # fmt: skip
def test_addresses_that_are_taken(address):
    assert check_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "", " ", "nobody", "@example.com", "a@", "a@b", "a@@example.com", "a@b@example.com", "a b@example.com",
        ".a@example.com", "a.@example.com", "a..b@example.com", "a@.example.com", "a@example.com.", "a@exa..mple.com",
        "a@-x.example.com", "a@x-.example.com", "a@ex_ample.com", "a@[127.0.0.1]", "a@127.0.0.1", "a@example.1",
        '"a b"@example.com', '"a"@example.com', "Ada <ada@example.com>", "<ada@example.com>", "ada@example.com (Ada)",
        "a@example.com b@example.com", "a@example.com;b@example.com", "a@example.com,b@example.com", "a:b@example.com",
        "a\\@example.com", "mailto:a@example.com", "ü@example.com", "a@bücher.example", "\uff41@example.com",
        "\u0430@example.com", "a\u200b@example.com", "a@example\u3002com", f"{'a' * 65}@example.com",
        f"a@{'b' * 64}.example.com", f"a@{'b.' * 123}example",
        *(f"a@lab.test{end}" for end in BREAKS), *(f"{end}a@lab.test" for end in BREAKS),
        *(f"a{end}b@lab.test" for end in BREAKS),
    ],
)  # fmt: skip
def test_what_is_not_one_plain_address_is_refused(address):
    with pytest.raises(InvalidRequest) as caught:
        check_address(address)
    assert caught.value.field == "recipients"
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("text", ["a@lab.test{}Bcc: evil@lab.test", "a@lab.test,{}b@lab.test", "a@lab.test{}"])
def test_case_48_a_line_break_among_the_recipients_is_refused_when_saved(text, end):
    with pytest.raises(InvalidRequest) as caught:
        parse_request({"dataset": "d", "recipients": text.format(end)})
    assert caught.value.field == "recipients"


def test_recipients_are_read_one_by_one_and_kept_once():
    assert check_recipients(" a@lab.test , b@lab.test,,a@lab.test, ") == ["a@lab.test", "b@lab.test"]
    assert check_recipients("") == []


def test_there_is_a_bound_to_recipients():
    some = [f"a{number}@lab.test" for number in range(51)]
    assert check_recipients(",".join(some[:50])) == some[:50]
    with pytest.raises(InvalidRequest, match="recipients: 51 addresses; at most 50"):
        check_recipients(",".join(some))


def test_the_refusal_says_what_would_be_right():
    with pytest.raises(InvalidRequest, match="separate addresses with commas"):
        check_recipients("a@lab.test; b@lab.test")
    with pytest.raises(InvalidRequest, match="xn-- form"):
        check_recipients("a@bücher.example")


@given(st.text(alphabet=st.characters() | st.sampled_from('@.,;<>" \r\n'), max_size=40))
def test_what_is_taken_is_plain(text):
    try:
        found = check_recipients(text)
    except InvalidRequest:
        return
    for address in found:
        assert address.isascii()
        assert address.isprintable()
        assert address.count("@") == 1
        assert not set(address) & set(' ,;:<>"()[]\\')
