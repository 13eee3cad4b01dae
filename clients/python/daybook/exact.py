"""JSON documents that stay what they are.

A JSON number has no size. ``Json`` keeps a document's text, and reads it with
integers as ``int`` and everything else as ``decimal.Decimal``, so that neither
2**53 + 1 nor 0.1 changes on the way through a worker.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Iterator, List, Optional, Tuple

__all__ = ["Json", "dumps", "loads"]

# Fields of answers that hold a user's document: kept as text.
DOCUMENTS = frozenset(("args", "result", "progress"))

# Python reads longer integers only when told to, since that takes long.
_DIGITS = 4000
_exact = decimal.Context(prec=1_000_000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _integer(text: str) -> Any:
    return int(text) if len(text) < _DIGITS else _exact.create_decimal(text)


_decoder = json.JSONDecoder(parse_int=_integer, parse_float=_exact.create_decimal)
_plain = json.JSONDecoder(parse_int=_integer)  # for the API's own numbers: its types say float
_space = re.compile(r"[ \t\r\n]*")
_string = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_literal = re.compile(r"[^\s,\]}\[{\":]+")
_marks = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]')

# The answers of the API are not deeper than this, outside of documents.
_DEEPEST = 16


class Json:
    """A JSON document: ``text`` as it came, ``value`` as Python sees it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, value: Any) -> "Json":
        """Write a value as JSON; see dumps."""
        return value if isinstance(value, Json) else cls(dumps(value))

    @property
    def value(self) -> Any:
        """The document read: int and Decimal for numbers. ValueError when it
        nests deeper than Python reads; the text is there all the same."""
        return loads(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return "Json(%r)" % self.text


def loads(text: str) -> Any:
    """Read JSON: integers become int, other numbers decimal.Decimal."""
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("the document nests too deep to be read; its text can be had") from None


def dumps(value: Any) -> str:
    """Write JSON without spaces. int, float and Decimal keep their value, a Json
    its text. ValueError or TypeError for what JSON has no form for: NaN, keys
    that are no strings, lone surrogates, other types."""
    parts: List[str] = []
    try:
        _write(value, parts)
    except RecursionError:
        raise ValueError("the value nests too deep, or contains itself") from None
    text = "".join(parts)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a string has a lone surrogate, which is no unicode") from None
    return text


def _write(value: Any, out: List[str]) -> None:
    if value is None:
        out.append("null")
    elif value is True or value is False:
        out.append("true" if value else "false")
    elif isinstance(value, str):
        out.append(json.dumps(str(value), ensure_ascii=False))
    elif isinstance(value, int):
        out.append(int.__repr__(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("JSON has no form for %r" % value)
        out.append(float.__repr__(value))
    elif isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise ValueError("JSON has no form for %s" % value)
        out.append(str(value))
    elif isinstance(value, Json):
        out.append(value.text)
    elif isinstance(value, Mapping):
        for n, (key, item) in enumerate(value.items()):
            if not isinstance(key, str):
                raise TypeError("a key in JSON is a string, got %s" % type(key).__name__)
            out.append("%s%s:" % ("," if n else "{", json.dumps(str(key), ensure_ascii=False)))
            _write(item, out)
        out.append("}" if value else "{}")
    elif isinstance(value, (list, tuple)):
        for n, item in enumerate(value):
            out.append("," if n else "[")
            _write(item, out)
        out.append("]" if value else "[]")
    else:
        raise TypeError("JSON has no form for a %s" % type(value).__name__)


def parse_answer(text: str) -> Any:
    """Read an answer of the API. Documents in it become Json, unread: one that
    can't be read must not make the jobs beside it unreadable."""
    value, end = _value(text, _skip(text, 0), 0)
    if _skip(text, end) != len(text):
        raise ValueError("there is something behind the document")
    return value


def _skip(text: str, at: int) -> int:
    found = _space.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Tuple[Any, int]:
    first = text[at : at + 1]
    if first not in ("{", "["):
        end = _end(text, at)
        return _plain.decode(text[at:end]), end
    if depth == _DEEPEST:
        raise ValueError("the answer nests too deep")
    if first == "[":
        return _list(text, at + 1, depth)
    return _object(text, at + 1, depth)


def _list(text: str, at: int, depth: int) -> Tuple[Any, int]:
    items: List[Any] = []
    at = _skip(text, at)
    if text[at : at + 1] == "]":
        return items, at + 1
    while True:
        item, at = _value(text, _skip(text, at), depth + 1)
        items.append(item)
        at = _skip(text, at)
        mark, at = text[at : at + 1], at + 1
        if mark == "]":
            return items, at
        if mark != ",":
            raise ValueError("the answer isn't JSON")


def _object(text: str, at: int, depth: int) -> Tuple[Any, int]:
    members = {}
    at = _skip(text, at)
    if text[at : at + 1] == "}":
        return members, at + 1
    while True:
        at = _skip(text, at)
        name = _string.match(text, at)
        if not name:
            raise ValueError("the answer isn't JSON")
        key = json.loads(name.group())
        at = _skip(text, name.end())
        if text[at : at + 1] != ":":
            raise ValueError("the answer isn't JSON")
        at = _skip(text, at + 1)
        if key in DOCUMENTS:
            end = _end(text, at)
            members[key], at = Json(text[at:end]), end
        else:
            members[key], at = _value(text, at, depth + 1)
        at = _skip(text, at)
        mark, at = text[at : at + 1], at + 1
        if mark == "}":
            return members, at
        if mark != ",":
            raise ValueError("the answer isn't JSON")


def _end(text: str, at: int) -> int:
    """Where the value that begins here ends, however deep it is."""
    first = text[at : at + 1]
    if first == '"':
        found: Optional[Any] = _string.match(text, at)
    elif first in ("{", "["):
        return _close(_marks.finditer(text, at))
    else:
        found = _literal.match(text, at)
    if not found:
        raise ValueError("the answer isn't JSON")
    return int(found.end())


def _close(marks: Iterator[Any]) -> int:
    depth = 0
    for found in marks:
        mark = found.group()
        if mark in ("{", "["):
            depth += 1
        elif mark in ("}", "]"):
            depth -= 1
            if depth == 0:
                return int(found.end())
    raise ValueError("the answer ends too early")
