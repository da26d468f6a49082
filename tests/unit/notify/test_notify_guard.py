import socket
import threading
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outhaul.errors import InvalidRequest, Refused
from outhaul.notify.guard import Guard, is_public

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::10.0.0.1", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:53aa:64c::1", "2001:2::1", "2001:10::1",
    "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fd00:ec2::254",
    "fe80::1", "fe80::1%1", "fec0::1", "ff02::1", "4000::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "192.0.1.1",
    "223.255.255.254",    "2001:200::1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
]  # fmt: skip


def rows(*addresses):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_and_special_addresses_are_not_public(address):
    assert not is_public(ip_address(address))
    with pytest.raises(Refused, match=r"^the host has no public address$"):
        Guard(resolve=lambda *args, **kwargs: rows(address)).addresses("hooks.example.com", 443, 5)


@pytest.mark.parametrize("address", PUBLIC)
def test_ordinary_addresses_are_public(address):
    assert is_public(ip_address(address))
    guard = Guard(resolve=lambda *args, **kwargs: rows(address))
    assert guard.addresses("hooks.example.com", 443, 5) == [address]


@given(st.ip_addresses())
def test_what_python_holds_for_special_is_not_public(address):
    assert address.is_global or not is_public(address)


def test_the_operator_allows_networks_and_names():
    answers = {"a.lab.test": "10.1.2.3", "b.lab.test": "10.2.0.1", "c.lab.test": "::ffff:10.1.0.9"}
    guard = Guard(
        [ip_network("10.1.0.0/16"), "fd00::/8", "B.lab.test"], lambda host, *args, **kwargs: rows(answers[host])
    )
    assert guard.addresses("a.lab.test", 443, 5) == ["10.1.2.3"]
    assert guard.addresses("b.lab.test", 443, 5) == ["10.2.0.1"]
    assert guard.addresses("c.lab.test", 443, 5) == ["::ffff:10.1.0.9"]
    assert guard.permits(ip_address("fd00::1"))
    assert not guard.permits(ip_address("10.2.0.1"))


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0.1/8", "127.1", "*.lab.test", "https://lab.test", ""])
def test_what_the_operator_mistypes_allows_nothing(entry):
    with pytest.raises(InvalidRequest, match=r"^allowed: .* is neither a network"):
        Guard([entry])


@pytest.mark.parametrize("addresses", [("8.8.8.8", "10.0.0.1"), ("10.0.0.1", "8.8.8.8")])
def test_one_private_address_refuses_the_name(addresses):
    guard = Guard(resolve=lambda *args, **kwargs: rows(*addresses))
    with pytest.raises(Refused) as caught:
        guard.addresses("hooks.example.com", 443, 5)
    assert "10.0.0.1" in caught.value.detail
    assert "10.0.0.1" not in caught.value.message


def test_names_that_do_not_exist_and_private_ones_look_the_same_to_the_asker():
    def nowhere(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    answers = []
    for resolve in (nowhere, lambda *args, **kwargs: rows("10.0.0.1"), lambda *args, **kwargs: []):
        with pytest.raises(Refused) as caught:
            Guard(resolve=resolve).addresses("db.lab.test", 443, 5)
        answers.append(caught.value.message)
    assert set(answers) == {"the host has no public address"}


def test_a_resolver_that_does_not_answer_is_left_behind():
    end = threading.Event()
    guard = Guard(resolve=lambda *args, **kwargs: end.wait(30) and [])
    with pytest.raises(TimeoutError):
        guard.addresses("slow.example.com", 443, 0.05)
    end.set()


# An address in any form that some resolver understands is either refused by its form or looked at as what it is.
@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1", "017700000001", "0x7f.0.0.0x1", "0",
        "0x", "127.0.0.1.", "localhost.", "example.com.", "\uff11\uff12\uff17.0.0.1", "①②⑦.0.0.1",
        "127。0。0。1", "%31%32%37.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[fe80::1%25eth0]", "[fd00::1]",
        "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1", "127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1",
        "1.2.3.4.5", "256.256.256.256", "a..b", "-a.example.com", "a-.example.com", ".example.com", "exa mple.com",
        "a" * 64, f"{'a.' * 126}example", "a,b.example.com", "a%00.example.com", "a$b.example.com",
    ],
)  # fmt: skip
def test_hosts_that_are_refused_when_saved(host):
    with pytest.raises(InvalidRequest) as caught:
        Guard().check_url(f"https://{host}/hook")
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must begin with https://"),
        ("hooks.example.com/x", "must begin with https://"),
        ("ftp://hooks.example.com/", "must begin with https://"),
        ("file:///etc/passwd", "must begin with https://"),
        ("gopher://hooks.example.com/", "must begin with https://"),
        ("//hooks.example.com/", "must begin with https://"),
        ("http://hooks.example.com/", "needs https"),
        ("http://8.8.8.8/", "needs https"),
        ("https://user:secret@hooks.example.com/", "user name or password"),
        ("https://user@hooks.example.com/", "user name or password"),
        ("https://hooks.example.com\\@127.0.0.1/", "backslash"),
        ("https://hooks.example.com/#part", "fragment"),
        ("https://hooks.example.com/#", "fragment"),
        ("https:///hook", "names no host"),
        ("https:hook", "names no host"),
        ("https://hooks.example.com:0/", "1 to 65535"),
        ("https://hooks.example.com:65536/", "1 to 65535"),
        ("https://hooks.example.com:abc/", "not a URL"),
        ("https://hooks.example.com:-1/", "1 to 65535"),
        ("https://hooks.example.com/a b", "space"),
        (" https://hooks.example.com/", "space"),
        ("https://hooks.example.com/\r\nX-Evil: 1", "control character"),
        ("https://hooks.example.com/\x85", "control character"),
        ("https://hooks.example.com/\u2028", "control character"),
        ("https://hooks.example.com/\ud800", "control character"),
        ("https://hooks.example.com/" + "a" * 2048, "2048 characters"),
    ],
)
def test_urls_that_are_refused_when_saved(url, words):
    with pytest.raises(InvalidRequest, match=words) as caught:
        Guard().check_url(url)
    assert caught.value.field == "url"
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://hooks.example.com/a/b?c=d%20e", b"hooks.example.com", b"/a/b?c=d%20e"),
        ("HTTPS://Hooks.Example.COM:8443", b"hooks.example.com", b"/"),
        ("https://bücher.example/ü", b"xn--bcher-kva.example", b"/%C3%BC"),
        ("https://faß.example/", b"xn--fa-hia.example", b"/"),
        ("https://8.8.8.8/", b"8.8.8.8", b"/"),
        ("https://[2606:4700::1111]:443/", b"2606:4700::1111", b"/"),
        ("https://1and1.example/", b"1and1.example", b"/"),
        ("https://a_b.example.com/", b"a_b.example.com", b"/"),
        ("https://intranet/", b"intranet", b"/"),
    ],
)
def test_urls_that_are_taken(url, host, path):
    parsed = Guard().check_url(url)
    assert (parsed.raw_host, parsed.raw_path) == (host, path)


def test_plain_http_is_for_what_the_operator_allows():
    guard = Guard(["10.0.0.0/8", "hooks.lab.test"])
    for url in ("http://10.0.0.1:8080/x", "http://hooks.lab.test/", "https://10.0.0.1/", "http://[::ffff:10.0.0.1]/"):
        guard.check_url(url)
    for url in ("http://11.0.0.1/", "http://other.lab.test/", "http://hooks.lab.test.example.com/"):
        with pytest.raises(InvalidRequest, match="needs https"):
            guard.check_url(url)
