"""The client and the worker against the real server."""

from __future__ import annotations

import decimal
import os
import signal
import threading
import unittest
from typing import Any, Callable, Optional

from daybook import (
    Claim,
    Client,
    DaybookError,
    Json,
    LeaseLost,
    Permanent,
    Snooze,
    Worker,
)
from daybook.errors import Cancelled

from .support import PACKAGE, Between, Script, Server, await_, signalled, unique


class Background:
    """A worker that runs in a thread."""

    def __init__(self, client: Client, queue: str, handler: Callable[[Claim], Any], **more: Any) -> None:
        more.setdefault("grace", 5.0)
        self.worker = Worker(client, [queue], **more)
        self.worker.handle(None, handler)
        self.error: Optional[BaseException] = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as e:
            self.error = e

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *_: Any) -> None:
        self.worker.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the worker didn't stop"
        if self.error is not None:
            raise self.error


class OnServer(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.daybook("check", "--full")
        cls.server.close()

    def setUp(self) -> None:
        self.queue = unique("q")
        self.client = self.connect(self.server.url)

    def connect(self, url: str, token: Optional[str] = None) -> Client:
        client = Client(url, token)
        self.addCleanup(client.close)
        return client

    def ends(self, id: str, state: str) -> Any:
        """Waits until a job is in a state."""
        return await_("job is " + state, lambda: (lambda j: j if j["state"] == state else None)(self.client.job(id)))

    def drain(self, handler: Callable[[Claim], Any], **more: Any) -> Worker:
        worker = Worker(self.client, [self.queue], **more)
        worker.handle(None, handler)
        worker.run(drain=True, signals=False)
        return worker


class TestWork(OnServer):
    def test_result(self) -> None:
        receipt = self.client.enqueue(self.queue, "add", {"a": 1, "b": 2}, key=self.queue)
        again = self.client.enqueue(self.queue, "add", {"b": 2.0, "a": 1}, key=self.queue)
        self.assertEqual((again["id"], again["replayed"]), (receipt["id"], True))
        self.drain(lambda claim: {"sum": claim.args["a"] + claim.args["b"]})
        job = self.client.job(receipt["id"])
        self.assertEqual((job["state"], job["result"].text), ("succeeded", '{"sum":3}'))
        what = [e["what"] for e in self.client.timeline(job["id"])]
        self.assertEqual(what, ["accepted", "replayed", "claimed", "succeeded"])
        self.assertEqual(self.client.why(job["id"])["state"], "succeeded")

    def test_many(self) -> None:
        rows = [{"queue": self.queue, "kind": "k", "key": "%s-%d" % (self.queue, n)} for n in range(50)]
        rows += [{"queue": self.queue, "kind": "k", "args": n} for n in range(50)]
        first = self.client.enqueue_many(rows)
        second = self.client.enqueue_many(rows[:50])
        self.assertEqual([r["id"] for r in first[:50]], [r["id"] for r in second])
        worker = self.drain(lambda claim: None, concurrency=7)
        self.assertEqual(worker.counts["recorded"], 100)
        self.assertEqual(len(self.client.jobs(queue=self.queue, state="succeeded", limit=1000)["jobs"]), 100)

    def test_numbers_stay(self) -> None:
        numbers = '"big":9007199254740993,"one":1.0,"tiny":0.1000000000000000055511151231257827,"e":1e400'
        text = "{%s,%s}" % (numbers, '"s":"\\u00e9😀"')
        id = self.client.enqueue(self.queue, "k", Json(text))["id"]
        seen = []

        def handler(claim: Claim) -> Any:
            seen.append((claim.args_json.text, claim.args))
            return claim.args

        self.drain(handler)
        (raw, args), = seen
        self.assertEqual(raw, text)
        self.assertEqual(args["big"], 9007199254740993)
        self.assertEqual(str(args["tiny"]), "0.1000000000000000055511151231257827")
        self.assertEqual(args["e"], decimal.Decimal("1e400"))
        result = self.client.job(id)["result"]
        self.assertEqual(result.value, args)
        self.assertIn('"one":1.0,', result.text)

    def test_how_handlers_end(self) -> None:
        def handler(claim: Claim) -> Any:
            kind = claim.job["kind"]
            if kind == "permanent":
                raise Permanent("no such account")
            if kind == "snooze":
                raise Snooze(3600)
            if kind == "unwritable":
                return {"at": float("nan")}
            raise KeyError("to \udc00")

        ids = {kind: self.client.enqueue(self.queue, kind, max_failures=1)["id"]
               for kind in ("permanent", "snooze", "unwritable", "failing")}  # fmt: skip
        self.drain(handler)
        jobs = {kind: self.client.job(id) for kind, id in ids.items()}
        self.assertEqual({k: (j["state"], j.get("reason")) for k, j in jobs.items()}, {
            "permanent": ("set_aside", "permanent"), "snooze": ("waiting", None),
            "unwritable": ("set_aside", "permanent"), "failing": ("set_aside", "failures"),
        })  # fmt: skip
        self.assertEqual(jobs["permanent"]["last_error"]["text"], "no such account")
        self.assertEqual(jobs["failing"]["last_error"]["kind"], "KeyError")
        self.assertIn("test_worker.py", jobs["failing"]["last_error"]["trace"])
        self.assertEqual(jobs["snooze"]["failures"], 0)

    def test_errors_have_codes(self) -> None:
        for code, call in {
            "not_found": lambda: self.client.job("0190a2b4-7c1e-7000-8000-000000000001"),
            "invalid": lambda: self.client.enqueue("no such name!", "k"),
            "key_conflict": lambda: self.client.enqueue_many(
                [{"queue": self.queue, "kind": "k", "args": n, "key": self.queue} for n in range(2)]),
            "fenced": lambda: self.client.complete(self.client.enqueue(self.queue, "k")["id"],
                                                   "0190a2b4-7c1e-7000-8000-0000000000aa", 1),
        }.items():  # fmt: skip
            with self.assertRaises(DaybookError) as caught:
                call()
            self.assertEqual(caught.exception.code, code)

    def test_starts_are_recorded(self) -> None:
        id = self.client.enqueue(self.queue, "k", on_lost="set_aside")["id"]
        self.drain(lambda claim: None)
        self.assertIn("started_at", self.client.attempts(id)[0])

    def test_crash_between(self) -> None:
        id = self.client.enqueue(self.queue, "k")["id"]
        program = (
            "import sys, threading\nfrom daybook import Client, Worker\nw = Worker(Client(), [sys.argv[1]], lease=2)\n"
            "@w.handle('k')\ndef k(claim):\n  print('begun', flush=True)\n  threading.Event().wait()\nw.run()"
        )
        script = Script(program, self.queue, server=self.server)
        script.says("begun")
        script.process.kill()
        script.ends()

        def waits() -> bool:
            self.server.daybook("reconcile", "--once")
            return self.client.job(id)["state"] == "waiting"

        await_("the book takes the job back", waits)
        self.drain(lambda claim: claim.attempt)
        job = self.client.job(id)
        self.assertEqual((job["state"], job["crashes"], job["result"].value), ("succeeded", 1, 2))


class TestToldToStop(OnServer):
    def test_lost(self) -> None:
        """The way to the server is gone for longer than the lease: the handler is
        told by the worker's own clock, somebody else does the job, and what the
        first says is evidence."""
        between = Between(self.server)
        self.addCleanup(between.close)
        id = self.client.enqueue(self.queue, "k")["id"]
        begun, told = threading.Event(), threading.Event()

        def first(claim: Claim) -> Any:
            begun.set()
            signalled(claim.lost, "lost is set")
            with self.assertRaises(LeaseLost):
                claim.check()
            told.set()
            return "from the grave"

        with Background(self.connect(between.url), self.queue, first, lease=1.0, name="first"):
            signalled(begun, "the handler begins")
            between.spoil = lambda path: "gone"
            signalled(told, "the handler is told")

            def waits() -> bool:
                self.server.daybook("reconcile", "--once")
                return self.client.job(id)["state"] == "waiting"

            await_("the book takes the job back", waits)
            self.drain(lambda claim: "second")
            between.spoil = lambda path: None
            await_("the first one's word is kept", lambda: [
                e for e in self.client.timeline(id) if e["what"] == "fenced"])  # fmt: skip
        job = self.client.job(id)
        self.assertEqual((job["state"], job["result"].value), ("succeeded", "second"))

    def test_lost_by_renewal(self) -> None:
        id = self.client.enqueue(self.queue, "k")["id"]
        begun, told = threading.Event(), threading.Event()

        def handler(claim: Claim) -> None:
            begun.set()
            try:
                claim.wait(60)
            except LeaseLost:
                told.set()
                raise

        with Background(self.client, self.queue, handler, lease=6.0):
            signalled(begun, "the handler begins")
            self.client.cancel(id, "taken away", force=True)
            signalled(told, "the handler is told")
        self.assertEqual(self.client.job(id)["state"], "cancelled")

    def test_cancel(self) -> None:
        id = self.client.enqueue(self.queue, "k")["id"]
        begun = threading.Event()

        def handler(claim: Claim) -> None:
            begun.set()
            signalled(claim.cancel, "cancel is set")
            self.assertFalse(claim.lost.is_set())
            self.assertRaises(Cancelled, claim.check)
            claim.check()

        with Background(self.client, self.queue, handler, lease=6.0):
            signalled(begun, "the handler begins")
            self.client.cancel(id, "not wanted any more")
            self.ends(id, "cancelled")

    def test_stop_gives_back(self) -> None:
        """SIGTERM: handlers that return in the grace are recorded, others' jobs are
        given back without blame."""
        ids = [self.client.enqueue(self.queue, kind)["id"] for kind in ("polite", "stubborn")]
        program = (
            "import os, sys, threading\nfrom daybook import Client, Worker\n"
            "w = Worker(Client(), [sys.argv[1]], grace=0.5, concurrency=5)\nstop = threading.Event()\n"
            "@w.handle('polite')\ndef polite(claim):\n  os.write(1, b'begun\\n')\n  stop.wait()\n  return 'done'\n"
            "@w.handle('stubborn')\ndef stubborn(claim):\n  os.write(1, b'begun\\n')\n  threading.Event().wait()\n"
            "orderly = w._shut_down\n"
            "def shut_down():\n  stop.set()\n  orderly()\n"
            "w._shut_down = shut_down\nw.run()\nprint('over', flush=True)"
        )
        script = Script(program, self.queue, server=self.server)
        script.says("begun")
        script.says("begun")
        script.process.send_signal(signal.SIGTERM)
        self.assertEqual(script.ends(), 0, "".join(script.said))
        self.assertIn("over", script.said[-1])
        polite, stubborn = (self.client.job(id) for id in ids)
        self.assertEqual((polite["state"], polite["result"].value), ("succeeded", "done"))
        self.assertEqual((stubborn["state"], stubborn["crashes"], stubborn["failures"]), ("waiting", 0, 0))


class TestBadWeather(OnServer):
    def test_hostile_answers(self) -> None:
        """Whatever stands between says, the loop goes on, and nothing is blamed."""
        between = Between(self.server)
        self.addCleanup(between.close)
        evils = ["html", "false html", "other json", "rate limited", "gone", "lost answer", "truncated"]
        left = {path: list(evils) for path in ("/v1/claims", "/v1/outcomes", "renew")}

        def spoil(path: str) -> Optional[str]:
            name = "renew" if path.endswith("/renew") else path
            return left[name].pop(0) if left.get(name) else None

        between.spoil = spoil
        ids = [self.client.enqueue(self.queue, "k")["id"] for _ in range(5)]

        def handler(claim: Claim) -> None:
            while left["renew"]:
                claim.worker.renew()

        with Background(self.connect(between.url), self.queue, handler):
            for id in ids:
                self.ends(id, "succeeded")
            await_("all was tried", lambda: not any(left.values()))
        for id in ids:
            job = self.client.job(id)
            self.assertEqual((job["crashes"], job["failures"], job["generation"]), (0, 0, 1))
        self.assertEqual(sorted(between.spoiled), sorted(evils * 3))

    def test_lost_claim_answer_is_repeated(self) -> None:
        between = Between(self.server)
        self.addCleanup(between.close)
        id = self.client.enqueue(self.queue, "k")["id"]
        lost = iter(["lost answer"])
        between.spoil = lambda path: next(lost, None) if path == "/v1/claims" else None
        with Background(self.connect(between.url), self.queue, lambda claim: None):
            self.ends(id, "succeeded")
        keys = [key for path, key in between.calls if path == "/v1/claims"]
        self.assertEqual(keys[0], keys[1])
        job = self.client.job(id)
        self.assertEqual((job["generation"], job["crashes"]), (1, 0))

    def test_server_killed(self) -> None:
        if os.environ.get("DAYBOOK_TEST_DB"):
            db = os.environ["DAYBOOK_TEST_DB"]
        else:
            db = None
        server = Server(db)
        self.addCleanup(server.close)
        client = self.connect(server.url)
        rows = client.enqueue_many([{"queue": self.queue, "kind": "k"} for _ in range(60)])
        begun, go = threading.Event(), threading.Event()

        def handler(claim: Claim) -> None:
            begun.set()
            go.wait(60)

        with Background(client, self.queue, handler, concurrency=20):
            signalled(begun, "a handler begins")
            for _ in range(2):
                server.kill()
                go.set()
                server.start()
            for row in rows:
                await_("it is done", lambda: client.job(row["id"])["state"] == "succeeded")
        for row in rows:
            job = client.job(row["id"])
            self.assertEqual((job["crashes"], job["generation"]), (0, 1))

    def test_wrong_token(self) -> None:
        server = Server("sqlite:" + os.path.join(self.server.folder, unique("token") + ".db"))
        self.addCleanup(server.close)
        token = server.daybook("token", "create", "w", "--scope", "work").split()[-1]
        worker = Worker(self.connect(server.url, "daybook_wrong"), [self.queue])
        worker.handle("k", lambda claim: None)
        with self.assertRaises(DaybookError) as caught:
            await_("the new token counts", lambda: worker.run(drain=True, signals=False))
        self.assertEqual(caught.exception.code, "unauthorized")
        self.assertIn("token", str(caught.exception))
        self.assertNotIn("daybook_wrong", str(caught.exception))
        with self.assertRaises(DaybookError) as caught:
            self.connect(server.url, token).enqueue(self.queue, "k")
        self.assertEqual(caught.exception.code, "forbidden")


class TestExamples(OnServer):
    def test_tour(self) -> None:
        examples = os.path.join(PACKAGE, "examples")
        added = Script(os.path.join(examples, "enqueue.py"), "ada@example.org", "nobody", server=self.server)
        self.assertEqual(added.ends(), 0, added.said)
        worked = Script(os.path.join(examples, "worker.py"), "--drain", server=self.server)
        self.assertEqual(worked.ends(), 0, worked.said)
        said = "".join(added.said).split()
        good, bad = self.client.job(said[0]), self.client.job(said[3])
        self.assertEqual((good["state"], good["result"].value["mailed"]), ("succeeded", "ada@example.org"))
        self.assertEqual((bad["state"], bad.get("reason")), ("set_aside", "permanent"))
        what = [e["what"] for e in self.client.timeline(good["id"])]
        self.assertEqual(what, ["accepted", "claimed", "effect begun", "effect done", "succeeded"])


if __name__ == "__main__":
    unittest.main()
