"""The effects helper: each policy, through done, absent and open."""

from __future__ import annotations

import datetime
import unittest
from typing import Any, List, Tuple

from daybook import Call, Claim, DaybookError, Found, NotHappened, Permanent, Policy, ask, checked, keyed, repeatable

from .support import await_
from .test_worker import OnServer


def timed_out(call: Call) -> Any:
    raise TimeoutError("no answer")


class TestEffects(OnServer):
    def opened(self, policy: Policy, **more: Any) -> Tuple[str, str]:
        """A job with an open effect of an attempt that failed, and its key."""
        id = self.client.enqueue(self.queue, "k")["id"]
        given = self.client.claim([self.queue], worker="by hand")
        generation = given["claims"][0]["generation"]
        body = {"call_seconds": 0.2, **more}
        if policy.window is not None:
            body["window_seconds"] = policy.window
        if policy.quiet is not None:
            body["quiet_seconds"] = policy.quiet
        begun = self.client.begin_effect(id, "charge", given["session"], generation, policy.name, **body)
        self.assertEqual(begun["decision"], "call")
        self.client.fail(id, given["session"], generation, "no answer", retry_in_seconds=0)
        return id, begun["key"]

    def attempt(self, policy: Policy, answer: Any = None, **more: Any) -> List[str]:
        """Works the queue off, and says with which keys the destination was called."""
        called: List[str] = []

        def fn(call: Call) -> Any:
            called.append(call.key)
            self.assertGreater(call.remaining(), 0.01)
            if isinstance(answer, Exception):
                raise answer
            return answer

        self.drain(lambda claim: claim.effect("charge", policy, fn, **more))
        return called

    def state(self, id: str) -> Tuple[str, Any, str]:
        job = self.client.job(id)
        effect = self.client.effects(job=id)["effects"][0]
        return job["state"], job.get("reason"), effect["state"]

    def test_done_is_not_called_again(self) -> None:
        for policy in (repeatable, keyed(days=1), checked(lambda call: None, seconds=1), ask):
            id = self.client.enqueue(self.queue, "k")["id"]
            seen: List[Any] = []

            def handler(claim: Claim) -> Any:
                result = claim.effect("charge", policy, lambda call: seen.append(1) or {"id": 2**60, "t": (1, 2)})
                if claim.attempt == 1:
                    raise Permanent("and now it crashes")
                return result

            self.drain(handler)
            self.assertEqual(self.state(id), ("set_aside", "permanent", "done"), policy.name)
            self.client.revive(id, "try again")
            self.drain(lambda claim: claim.effect("charge", policy, timed_out))
            self.assertEqual(self.client.job(id)["result"].value, {"id": 2**60, "t": [1, 2]})
            self.assertEqual(len(seen), 1)

    def test_absent_is_called_again(self) -> None:
        for policy in (repeatable, keyed(days=1), checked(lambda call: None, seconds=0), ask):
            id = self.client.enqueue(self.queue, "k", max_failures=1)["id"]
            first = self.attempt(policy, NotHappened("declined"))
            self.assertEqual(self.state(id), ("set_aside", "failures", "absent"), policy.name)
            self.client.revive(id, "try again")
            second = self.attempt(policy, "receipt", next_key=policy is ask)
            self.assertEqual(self.state(id), ("succeeded", None, "done"), policy.name)
            self.assertEqual(first == second, policy is not ask)

    def test_open_keyed(self) -> None:
        id, key = self.opened(keyed(days=1))
        self.assertEqual(self.attempt(keyed(days=1), "receipt"), [key])
        self.assertEqual(self.state(id), ("succeeded", None, "done"))

    def test_open_keyed_past_its_window(self) -> None:
        policy = keyed(seconds=1)
        id, _ = self.opened(policy)
        safe = self.client.effects(job=id)["effects"][0]["safe_until"]

        def over() -> bool:
            return datetime.datetime.now(datetime.timezone.utc).isoformat() > safe

        await_("the window is over", over)
        self.assertEqual(self.attempt(policy), [])
        self.assertEqual(self.state(id), ("set_aside", "effect_open", "open"))

    def test_open_repeatable(self) -> None:
        id, key = self.opened(repeatable)
        self.assertEqual(self.attempt(repeatable, 1), [key])
        self.assertEqual(self.state(id), ("succeeded", None, "done"))

    def test_open_ask(self) -> None:
        id, _ = self.opened(ask)
        self.assertEqual(self.attempt(ask), [])
        self.assertEqual(self.state(id), ("set_aside", "effect_open", "open"))
        with self.assertRaises(DaybookError) as caught:
            self.client.revive(id, "just try")
        self.assertEqual(caught.exception.code, "effect_open")
        self.client.settle(id, "charge", "happened", "on the statement", result={"seen": True})
        self.assertEqual(self.attempt(ask), [])
        self.assertEqual(self.client.job(id)["result"].value, {"seen": True})

    def test_open_checked(self) -> None:
        """While the earlier call may still show, the job is given back; then the
        destination is asked."""
        for found, called, end in ((Found("receipt"), 0, "done"), (None, 1, "done")):
            asked: List[str] = []

            def probe(call: Call) -> Any:
                asked.append(call.key)
                return found

            policy = checked(probe, seconds=0.5)
            id, key = self.opened(policy)

            def done() -> bool:
                calls.extend(self.attempt(policy, "receipt"))
                return self.client.job(id)["state"] == "succeeded"

            calls: List[str] = []
            await_("it is asked", done)
            self.assertEqual((asked, calls), ([key], [key] * called))
            self.assertEqual(self.client.job(id)["result"].value, "receipt")
            self.assertIn("released", [a["outcome"] for a in self.client.attempts(id)])
            self.assertEqual(self.state(id)[2], end)

    def test_open_checked_cant_tell(self) -> None:
        policy = checked(timed_out, seconds=0)
        id, _ = self.opened(policy)

        def asked() -> bool:
            self.assertEqual(self.attempt(policy), [])
            return self.client.job(id)["state"] == "set_aside"

        await_("a person is asked", asked)
        self.assertEqual(self.state(id), ("set_aside", "effect_open", "open"))

    def test_a_timeout_is_not_a_no(self) -> None:
        id = self.client.enqueue(self.queue, "k", max_failures=1)["id"]
        self.attempt(ask, TimeoutError("no answer"))
        self.assertEqual(self.state(id)[2], "open")

    def test_success_with_an_open_effect_fails(self) -> None:
        id = self.client.enqueue(self.queue, "k", max_failures=1)["id"]

        def handler(claim: Claim) -> str:
            try:
                claim.effect("charge", ask, timed_out)
            except TimeoutError:
                pass
            return "looks fine"

        self.drain(handler)
        job = self.client.job(id)
        self.assertEqual((job["state"], job["last_error"]["kind"]), ("set_aside", "effect_open"))

    def test_a_name_is_used_once(self) -> None:
        id = self.client.enqueue(self.queue, "k", max_failures=1)["id"]
        codes: List[str] = []

        def handler(claim: Claim) -> None:
            claim.effect("charge", repeatable, lambda call: 1)
            try:
                claim.effect("charge", repeatable, lambda call: 2)
            except DaybookError as e:
                codes.append(e.code)

        self.drain(handler)
        self.assertEqual((codes, self.client.job(id)["state"]), (["effect_name_reused"], "succeeded"))

    def test_another_input_is_stopped(self) -> None:
        id = self.client.enqueue(self.queue, "k", max_failures=1)["id"]
        self.attempt(repeatable, TimeoutError("no answer"), input={"cents": 500, "to": "ada"})
        self.attempt_again(id, {"to": "ada", "cents": 501})
        self.assertEqual(self.client.job(id)["reason"], "effect_changed")

    def attempt_again(self, id: str, input: Any) -> None:
        if self.client.job(id)["state"] == "set_aside":
            self.client.settle(id, "charge", "happened", "seen", stay=True)
            self.client.revive(id, "try again")
        self.assertEqual(self.attempt(repeatable, input=input), [])


if __name__ == "__main__":
    unittest.main()
