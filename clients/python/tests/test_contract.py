"""The types of daybook/api.py against what the server says of itself."""

from __future__ import annotations

import inspect
import json
import unittest
import urllib.request
from typing import Any, Dict, Iterator, List, Optional, TypedDict, get_args, get_origin, get_type_hints

from daybook import Client, api
from daybook.exact import Json, parse_answer

from .support import Server

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def kinds_of(schema: Dict[str, Any]) -> List[str]:
    kinds = schema.get("type", [])
    return [k for k in (kinds if isinstance(kinds, list) else [kinds]) if k != "null"]


class Contract:
    """Compares types with a description, and lists where they differ."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.spec = spec

    def operation(self, name: str, op: api.Operation) -> Iterator[str]:
        there = self.spec["paths"].get(op.path, {}).get(op.method.lower())
        if there is None or there["operationId"] != name:
            yield "%s: there is no %s %s" % (name, op.method, op.path)
            return
        known = {p["name"] for p in there.get("parameters", []) if p["in"] == "query"}
        for parameter in op.query:
            if parameter not in known:
                yield "%s: there is no parameter %s" % (name, parameter)
        yield from self.pair(name + " body", op.body, self.content(there.get("requestBody")))
        good = next(r for status, r in sorted(there["responses"].items()) if status.startswith("2"))
        yield from self.pair(name + " answer", op.answer, self.content(good))

    @staticmethod
    def content(of: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        media = (of or {}).get("content", {}).get("application/json")
        return None if media is None else media.get("schema", {})

    def pair(self, at: str, kind: Any, schema: Optional[Dict[str, Any]]) -> Iterator[str]:
        if (kind is None) != (schema is None):
            yield "%s: one side has none" % at
        elif schema is not None:
            yield from self.compare(at, kind, schema)

    def compare(self, at: str, kind: Any, schema: Dict[str, Any]) -> Iterator[str]:
        while "$ref" in schema:
            schema = self.spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        kinds = kinds_of(schema)
        if kind is Json:
            if kinds:
                yield "%s: is %s, not any document" % (at, kinds)
        elif kind in PLAIN:
            if kinds != [PLAIN[kind]]:
                yield "%s: is %s, not %s" % (at, kinds, PLAIN[kind])
        elif get_origin(kind) is list:
            if kinds != ["array"]:
                yield "%s: is %s, not a list" % (at, kinds)
            else:
                yield from self.compare(at + "[]", get_args(kind)[0], schema["items"])
        else:
            yield from self.members(at, kind, schema)

    def members(self, at: str, kind: Any, schema: Dict[str, Any]) -> Iterator[str]:
        hints, there, required = get_type_hints(kind), schema.get("properties", {}), set(schema.get("required") or [])
        for name in sorted(required - hints.keys()):
            yield "%s/%s: is required and missing here" % (at, name)
        for name, hint in hints.items():
            if name not in there:
                yield "%s/%s: is made up" % (at, name)
                continue
            if (name in kind.__required_keys__) != (name in required):
                yield "%s/%s: is required on one side only" % (at, name)
            yield from self.compare("%s/%s" % (at, name), hint, there[name])


class TestContract(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        server = Server()
        try:
            with urllib.request.urlopen(server.url + "/openapi.json") as answer:
                cls.contract = Contract(json.load(answer))
        finally:
            server.close()

    def test_every_call(self) -> None:
        wrong = [line for name, op in api.OPERATIONS.items() for line in self.contract.operation(name, op)]
        self.assertEqual(wrong, [])

    def test_fields_are_complete(self) -> None:
        """What a body may hold, the client can say."""
        for name in ("JobBody", "ClaimBody", "OutcomeRow", "BeginBody", "FinishBody", "SettleBody", "Job", "Effect"):
            there = self.contract.spec["components"]["schemas"][name]["properties"]
            self.assertEqual(sorted(there), sorted(get_type_hints(getattr(api, name))), name)

    def test_enqueue_says_all(self) -> None:
        said = set(inspect.signature(Client.enqueue).parameters) - {"self"}
        self.assertEqual(said, set(get_type_hints(api.JobBody)))

    def test_the_test_can_fail(self) -> None:
        class MadeUp(api.JobBody):
            colour: str

        class Lacking(TypedDict):
            queue: str

        class _Loose(TypedDict, total=False):
            queue: str

        class Loose(_Loose):
            kind: str

        class Typed(TypedDict):
            queue: int
            kind: str

        for body, says in ((MadeUp, "colour: is made up"), (Lacking, "kind: is required and missing"),
                           (Loose, "queue: is required on one side only"), (Typed, "queue: is ['string']"),
                           (List[api.JobBody], "not a list")):  # fmt: skip
            op = api.OPERATIONS["enqueue"]._replace(body=body)
            wrong = list(self.contract.operation("enqueue", op))
            self.assertTrue(any(says in line for line in wrong), (says, wrong))
        moved = api.OPERATIONS["enqueue"]._replace(path="/v1/job")
        self.assertIn("there is no", "".join(self.contract.operation("enqueue", moved)))

    def test_examples_fit(self) -> None:
        """What the server shows as an answer, the client takes for one."""
        tried = 0
        for name, op in api.OPERATIONS.items():
            responses = self.contract.spec["paths"][op.path][op.method.lower()]["responses"]
            for status, response in responses.items():
                example = response.get("content", {}).get("application/json", {}).get("example")
                if status.startswith("2") and op.answer is not None and example is not None:
                    self.assertTrue(api.fits(parse_answer(json.dumps(example)), op.answer), name)
                    tried += 1
        self.assertGreater(tried, 15)

    def test_numbers_fit(self) -> None:
        class Timed(TypedDict):
            seconds: float
            count: int

        for text, fits in (('{"seconds":86400,"count":1}', True), ('{"seconds":90.5,"count":1}', True),
                           ('{"seconds":true,"count":1}', False), ('{"seconds":1,"count":true}', False),
                           ('{"seconds":1,"count":1.5}', False), ('{"seconds":"1","count":1}', False)):  # fmt: skip
            self.assertIs(api.fits(parse_answer(text), Timed), fits, text)
        self.assertEqual(parse_answer('{"seconds":90.5}')["seconds"] * 2.0, 181.0)


if __name__ == "__main__":
    unittest.main()
