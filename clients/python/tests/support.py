"""A real server for the tests, and a way between that can be spoiled."""

from __future__ import annotations

import http.client
import http.server
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from typing import Any, Callable, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
BINARY = os.environ.get("DAYBOOK_BIN", "daybook")
DEADLINE = 60.0


def await_(what: str, ready: Callable[[], Any]) -> Any:
    """Polls a condition, and fails with what it was when it never holds."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        found = ready()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("never: " + what)


def signalled(event: threading.Event, what: str) -> None:
    if not event.wait(DEADLINE):
        raise AssertionError("never: " + what)


def unique(prefix: str) -> str:
    return prefix + "-" + uuid.uuid4().hex[:8]


class Server:
    """`daybook serve` in a process of its own. It keeps its address when it is
    killed and started again."""

    def __init__(self, db: Optional[str] = None, *more: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="daybook-client-")
        self.db = db or os.environ.get("DAYBOOK_TEST_DB") or "sqlite:" + os.path.join(self.folder, "test.db")
        self.more, self.address = more, "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [BINARY, "--db", self.db, "serve", "--listen", self.address, *self.more],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            found = re.search(r"url=http://(\S+)", line)
            if found:
                self.address = found.group(1)
                threading.Thread(target=self._drink, args=(self.process.stderr,), daemon=True).start()
                return
        raise AssertionError("the server ended:\n" + "".join(said))

    @staticmethod
    def _drink(pipe: Any) -> None:
        with pipe:
            for _ in pipe:
                pass

    @property
    def url(self) -> str:
        return "http://" + self.address

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()

    def daybook(self, *args: str) -> str:
        """The command, on the server's database."""
        done = subprocess.run([BINARY, "--db", self.db, *args], capture_output=True, text=True, timeout=DEADLINE)
        if done.returncode != 0:
            raise AssertionError("daybook %s: exit %d\n%s" % (" ".join(args), done.returncode, done.stderr))
        return done.stdout


class Between:
    """Passes calls on to a server, or answers something else: spoil is asked for
    each call, and answers a name of what to do, or None to pass it on."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.spoil: Callable[[str], Optional[str]] = lambda path: None
        self.spoiled: List[str] = []
        self.calls: List[Any] = []  # path and idempotency key of each
        between = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                between.carry(self)

            do_POST = do_GET

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.http.server_port

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def carry(self, asked: Any) -> None:
        body = asked.rfile.read(int(asked.headers.get("Content-Length") or 0))
        self.calls.append((asked.path, asked.headers.get("Idempotency-Key")))
        how = self.spoil(asked.path)
        if how is not None:
            self.spoiled.append(how)
        if how == "html":
            return self.answer(asked, 502, "text/html", b"<html>Bad gateway</html>")
        if how == "false html":
            return self.answer(asked, 200, "text/html", b"<html>Sign in</html>")
        if how == "other json":
            return self.answer(asked, 200, "application/json", b'{"session":7}')
        if how == "rate limited":
            problem = b'{"type":"","title":"","status":429,"detail":"slowly","code":"rate_limited"}'
            return self.answer(asked, 429, "application/problem+json", problem, {"Retry-After": "1"})
        if how == "gone":
            asked.close_connection = True
            return None
        to = http.client.HTTPConnection(self.server.address, timeout=DEADLINE)
        try:
            headers = {k: v for k, v in asked.headers.items() if k.lower() not in ("host", "connection")}
            to.request(asked.command, asked.path, body=body or None, headers=headers)
            got = to.getresponse()
            text = got.read()
        except (OSError, http.client.HTTPException):
            asked.close_connection = True
            return None
        finally:
            to.close()
        if how == "lost answer":  # the server has done it
            asked.close_connection = True
            return None
        if how == "truncated":
            asked.close_connection = True
            asked.send_response(got.status)
            asked.send_header("Content-Type", got.headers["Content-Type"])
            asked.send_header("Content-Length", str(len(text)))
            asked.end_headers()
            asked.wfile.write(text[: len(text) // 2])
            return None
        return self.answer(asked, got.status, got.headers["Content-Type"], text)

    @staticmethod
    def answer(asked: Any, status: int, media: Optional[str], body: bytes, more: Any = None) -> None:
        try:
            asked.send_response(status)
            if media:
                asked.send_header("Content-Type", media)
            for name, value in (more or {}).items():
                asked.send_header(name, value)
            if status != 204:
                asked.send_header("Content-Length", str(len(body)))
            asked.end_headers()
            asked.wfile.write(body)
        except OSError:
            asked.close_connection = True


class Script:
    """A Python program that uses the package, in a process of its own."""

    def __init__(self, program: str, *args: str, server: Optional[Server] = None) -> None:
        environ = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
        if server is not None:
            environ["DAYBOOK_SERVER"] = server.url
        command = [sys.executable, program] if program.endswith(".py") else [sys.executable, "-c", program]
        self.process = subprocess.Popen(
            [*command, *args], env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )  # fmt: skip
        self.said: List[str] = []
        self.deadline = threading.Timer(DEADLINE, self.process.kill)  # what hangs ends, and the test says so
        self.deadline.daemon = True
        self.deadline.start()

    def says(self, text: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if text in line:
                return line
        raise AssertionError("it ended and never said %r:\n%s" % (text, "".join(self.said)))

    def ends(self) -> int:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            self.said.append(out.read())
        self.deadline.cancel()
        return self.process.wait(DEADLINE)
