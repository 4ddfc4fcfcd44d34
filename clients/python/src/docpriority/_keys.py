"""Customers, documents and keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Union

Name = Union[str, bytes]
"""A customer or the id of a document: 1 to 512 bytes. A ``str`` is encoded as UTF-8."""


@dataclass(frozen=True)
class Document:
    """A document for ``submit_n``: its id, unique within its customer, and as in ``submit`` its cost and delay.
    Immutable."""

    id: Name
    cost: float = 0
    delay: Union[timedelta, float] = 0


@dataclass(frozen=True)
class Keys:
    """The keys of one customer in Redis: of the count, which ``next`` writes, of the pending documents, which ``submit``
    writes, and of the operators' override."""

    count: bytes
    pending: bytes
    override: bytes


def bytes_of(what: str, name: Name) -> bytes:
    """Returns the bytes of a customer or a document, or raises."""
    if isinstance(name, str):
        raw = utf8(f"a {what}", name)
    elif isinstance(name, bytes):
        raw = name
    else:
        raise TypeError(f"a {what} must be a str or bytes, not {type(name).__name__}")
    if not 1 <= len(raw) <= 512:
        raise ValueError(f"a {what} must have 1 to 512 bytes, not {len(raw)}")
    return raw


def utf8(what: str, text: str) -> bytes:
    """Returns a text in UTF-8, or raises."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a lone surrogate: {text[:80]!r}") from None


def prefix_bytes(prefix: str) -> bytes:
    """Returns the bytes of a prefix, or raises."""
    if not isinstance(prefix, str):
        raise TypeError(f"the prefix must be a str, not {type(prefix).__name__}")
    if not prefix or "{" in prefix or "}" in prefix:
        raise ValueError(f"the prefix {prefix[:80]!r} is empty or has a brace in it")
    return utf8("the prefix", prefix)


def account_of(customer: bytes) -> bytes:
    """Returns the account of a user, named before the first slash; nothing for another customer."""
    account, slash, _ = customer.partition(b"/")
    return account if slash else b""


def keys_of(prefix: bytes, customer: bytes, account: bytes = b"") -> Keys:
    """Returns the keys of a customer, or of a user of an account.

    They contain the customer, or the account, in braces, the hash tag by which a Redis Cluster places a key. A closing
    brace is escaped, so that no two customers share a key.
    """
    tag, user = (account, customer[len(account) :]) if account else (customer, b"")
    begin = prefix + b":{" + _escaped(tag) + b"}" + _escaped(user) + b":"
    return Keys(begin + b"count", begin + b"pending", begin + b"override")


def _escaped(name: bytes) -> bytes:
    return name.replace(b"%", b"%25").replace(b"}", b"%7D")
