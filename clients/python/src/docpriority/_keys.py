"""Customers, documents and keys."""

from __future__ import annotations

from typing import Union

Name = Union[str, bytes]
"""A customer or a document: 1 to 512 bytes. A ``str`` stands for its UTF-8."""


def bytes_of(what: str, name: Name) -> bytes:
    """Returns the bytes of a customer or a document, or raises."""
    if isinstance(name, str):
        raw = name.encode()
    elif isinstance(name, bytes):
        raw = name
    else:
        raise TypeError(f"a {what} is a str or bytes, not {type(name).__name__}")
    if not 1 <= len(raw) <= 512:
        raise ValueError(f"a {what} has 1 to 512 bytes, not {len(raw)}")
    return raw


def prefix_bytes(prefix: str) -> bytes:
    """Returns the bytes of a prefix, or raises."""
    if not isinstance(prefix, str):
        raise TypeError(f"the prefix is a str, not {type(prefix).__name__}")
    if not prefix or "{" in prefix or "}" in prefix:
        raise ValueError(f"the prefix {prefix[:80]!r} is empty or has a brace in it")
    return prefix.encode()


def key_of(prefix: bytes, customer: bytes, end: str) -> bytes:
    """Returns a key of a customer; end is "count", "pending", "usage" or "override".

    The customer stands in it between braces, as the hash tag by which a Redis Cluster
    places the key. What would end the tag is escaped, so that no two customers share a
    key.
    """
    escaped = customer.replace(b"%", b"%25").replace(b"}", b"%7D")
    return prefix + b":{" + escaped + b"}:" + end.encode()
