"""Where a daemon is reached: a unix socket's path, or HTCondor's sinful string `<host:port?sock=name&alias=host>`."""

from __future__ import annotations

from pool.base.errors import UserError
from protocol.wire.message import Record, replace

DEFAULT_PORT = 9618


class Address(Record):
    """One address. `path` is a unix socket's; otherwise `host` and `port` are TCP's.

    `sock` names the daemon behind a shared port; `alias` is the name that the server's certificate must be for, `pool`
    the trust domain of the pool that it must be of, where that is another than one's own.
    """

    path: str = ""
    host: str = ""
    port: int = 0
    sock: str = ""
    alias: str = ""
    pool: str = ""

    @classmethod
    def unix(cls, path: str) -> Address:
        """A unix socket's address."""
        return cls(path=path)

    @classmethod
    def tcp(cls, host: str, port: int, *, sock: str = "", alias: str = "", pool: str = "") -> Address:
        """A TCP address."""
        return cls(host=host, port=port, sock=sock, alias=alias, pool=pool)

    @classmethod
    def parse(cls, text: str, *, default_port: int = DEFAULT_PORT) -> Address:
        """Read an absolute path, a sinful string, or `host[:port]`; UserError when the text is none of them."""
        text = text.strip()
        if text.startswith("/"):
            return cls(path=text)
        if text.startswith("<"):
            if not text.endswith(">"):
                raise UserError(f"{text!r} is not an address", expected="<host:port?sock=name>")
            text = text[1:-1]
        where, _, query = text.partition("?")
        host, port = _host_port(where, default_port)
        options = {}
        for part in query.split("&") if query else ():
            key, _, value = part.partition("=")
            options[key] = _unquote(value)
        named = {name: options.get(name, "") for name in ("sock", "alias", "pool")}
        return cls(host=host, port=port, **named)

    @property
    def is_unix(self) -> bool:
        """Whether this is a unix socket."""
        return bool(self.path)

    @property
    def server_name(self) -> str:
        """The name or address that the server's certificate must be for."""
        return self.alias or self.host

    def __str__(self) -> str:
        if self.path:
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        named = ("alias", self.alias), ("sock", self.sock), ("pool", self.pool)
        options = [f"{key}={_quote(value)}" for key, value in named if value]
        return f"<{host}:{self.port}{'?' if options else ''}{'&'.join(options)}>"


def of_pool(text: str, pool: str) -> str:
    """An address that somebody of another pool has given, as one of that pool; "" when it can be none."""
    if not pool or not text:
        return text
    try:
        where = Address.parse(text)
    except UserError:
        return ""
    return "" if where.is_unix else str(replace(where, pool=pool))


def _quote(text: str) -> str:
    if text.replace("-", "").replace(".", "").replace("_", "").isalnum() and text.isascii():
        return text
    from urllib.parse import quote  # costs tools 4 ms, and nearly no name needs it

    return quote(text)


def _unquote(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _host_port(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UserError(f"{text!r} is not an address", expected="[host]:port")
        port = rest[1:]
    else:
        # An IPv6 address needs its brackets: without them its first colon would end it.
        host, _, port = text.partition(":")
    if not host or any(c.isspace() or c in "<>/" for c in host):
        raise UserError(f"{text!r} is not an address", expected="host:port")
    if not port:
        return host, default_port
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise UserError(f"{port!r} is not a port", expected="a number below 65536")
    return host, int(port)
