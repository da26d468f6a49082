"""Which hosts may be sent to: public ones, and those that the operator allows.

The rule is kept when connecting, on the very address that is connected to. A check of the name at any earlier moment
proves nothing, since its owner can change what it stands for.
"""

from __future__ import annotations

import re
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx

from outhaul.errors import InvalidRequest, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network
    Resolver = Callable[..., Sequence[tuple[Any, ...]]]

MAX_URL = 2048  # characters

# IANA's registries of special-purpose addresses (RFC 6890), multicast and what is reserved. Python's is_global is not
# asked, since patch releases of one version of it differ.
_NOT_PUBLIC: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT; some clouds' metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's metadata, at an address that looks public
        "169.254.0.0/16",  # link local; most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",  # documentation, as the two below
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        "2001::/23",  # protocols, among them Teredo, which holds an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which holds an IPv4 address
        "3fff::/20",  # documentation
    )
)
_PUBLIC_IPV6 = IPv6Network("2000::/3")  # all that is given out so far
_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052: on hosts without IPv4 the way to all of it

# The last label is no number, as in WHATWG's URL standard: resolvers read 127.1, 0x7f.1 and 2130706433 as addresses.
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*(?![0-9]+\Z|0x[0-9a-f]*\Z){_LABEL}", re.ASCII)


class Guard:
    """Lets through what is public or allowed.

    Args:
        allowed: what the operator trusts besides: networks such as ``10.0.0.0/8``, and host names, whose addresses
            are not looked at. Only these may be sent to without TLS.
        resolve: called like ``socket.getaddrinfo``, and answers like it.

    Raises:
        InvalidRequest: an entry of ``allowed`` is neither.
    """

    def __init__(self, allowed: Sequence[Network | str] = (), resolve: Resolver = socket.getaddrinfo) -> None:
        self._networks: list[Network] = []
        self._names: set[str] = set()
        self._resolve = resolve
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry))
            except ValueError:
                if not _NAME.fullmatch(str(entry).lower()):
                    words = f"{str(entry)!r} is neither a network such as 10.0.0.0/8 nor a host name"
                    raise InvalidRequest("allowed", words) from None
                self._names.add(str(entry).lower())

    def check_url(self, url: str) -> httpx.URL:
        """Read a URL that somebody wants messages sent to. Does not look up its host: see the module.

        Raises:
            InvalidRequest: naming the field ``url``.
        """
        if len(url) > MAX_URL:
            raise InvalidRequest("url", f"longer than {MAX_URL} characters")
        # Readers of URLs disagree on these.
        if any(char.isspace() or not char.isprintable() or char == "\\" for char in url):
            raise InvalidRequest("url", "holds a space, a control character or a backslash")
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise InvalidRequest("url", "not a URL such as https://hooks.example.com/outhaul") from None
        host = parsed.raw_host.decode("ascii")
        literal = _literal(host)
        listed = host in self._names if literal is None else self._is_allowed(literal)
        for wrong, words in (
            (parsed.scheme not in {"https", "http"}, "must begin with https://"),
            (bool(parsed.userinfo), "holds a user name or password; use a header"),
            ("#" in url, "ends with a fragment (#...), which is never sent"),
            (not host, "names no host"),
            (literal is None and not _NAME.fullmatch(host), "its host is neither a name nor a plain IP address"),
            (parsed.port is not None and not 1 <= parsed.port <= 65535, "its port is not one of 1 to 65535"),
            (parsed.scheme == "http" and not listed, "needs https, unless the operator allows its host"),
            (literal is not None and not listed and not is_public(literal), "its address is not public"),
        ):
            if wrong:
                raise InvalidRequest("url", words)
        return parsed

    def addresses(self, host: str, port: int, timeout: float) -> list[str]:
        """The addresses of ``host``, each of which may be connected to.

        One that may not forbids the others too: no honest receiver has both kinds, and what happens must not hang on
        the order in which a resolver gives them.

        Args:
            host: a name or address in ASCII.
            port: 1 to 65535.
            timeout: seconds to wait for the resolver.

        Raises:
            Refused: it has no address, or one that may not be. Which of both is left to ``detail``, so that nobody
                can ask for the names of a private network.
            TimeoutError: the resolver did not answer in time.
        """
        words = "the host has no public address"
        try:
            found = list(dict.fromkeys(str(row[4][0]) for row in self._look_up(host, port, timeout)))
        except (socket.gaierror, UnicodeError) as error:
            raise Refused(words, detail=f"{host}: {error}") from error
        for address in found:
            if host not in self._names and not self.permits(ip_address(address)):
                raise Refused(words, detail=f"{host} is at {address}, which is neither public nor allowed")
        if not found:
            raise Refused(words, detail=f"{host}: the resolver gives no address")
        return found

    def permits(self, address: Address) -> bool:
        """Tell whether this address may be connected to."""
        return is_public(address) or self._is_allowed(address)

    def _is_allowed(self, address: Address) -> bool:
        return any(_embedded(address) in network for network in self._networks)

    def _look_up(self, host: str, port: int, timeout: float) -> Sequence[tuple[Any, ...]]:
        # The resolver knows no timeout, and whoever owns the name can make it wait for half a minute.
        box: SimpleQueue[Sequence[tuple[Any, ...]] | Exception] = SimpleQueue()

        def ask() -> None:
            try:
                box.put(self._resolve(host, port, type=socket.SOCK_STREAM))
            except Exception as error:  # noqa: BLE001 - raised again below, in the thread that waits
                box.put(error)

        Thread(target=ask, name="outhaul-resolver", daemon=True).start()
        try:
            result = box.get(timeout=max(timeout, 0))
        except Empty:
            raise TimeoutError(f"no answer about {host} from the resolver") from None
        if isinstance(result, Exception):
            raise result
        return result


def is_public(address: Address) -> bool:
    """Tell whether anybody on the Internet could be meant by this address."""
    plain = _embedded(address)
    if plain.version == 6 and plain not in _PUBLIC_IPV6:
        return False
    return not any(plain in network for network in _NOT_PUBLIC)


def _embedded(address: Address) -> Address:
    """The IPv4 address that this one leads to, if so."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _literal(host: str) -> Address | None:
    try:
        return None if "%" in host else ip_address(host)
    except ValueError:
        return None
