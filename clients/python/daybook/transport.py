"""One HTTP call, and its answer, on connections that are kept."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from email.utils import parsedate_to_datetime
from typing import Dict, List, NamedTuple, Optional, Tuple
from urllib.parse import urlsplit

from .errors import DaybookError

# An answer is not larger than this: a page of jobs, each with args and result.
ANSWER_MAX = 256 << 20
# How long a connection may take to be made.
CONNECT_MAX = 5.0
# How many idle connections are kept.
_KEPT = 32


class Answer(NamedTuple):
    status: int
    media: str
    text: str
    retry_after: Optional[float]
    clock_off: float  # how many seconds the server's clock is ahead, as far as Date says


class Cut:
    """Ends a call that is under way, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: Optional[socket.socket] = None
        self.done = False

    def cut(self) -> None:
        with self._lock:
            self.done = True
            _shut(self._sock)

    def hold(self, sock: Optional[socket.socket]) -> None:
        with self._lock:
            self._sock = sock
            if self.done:
                _shut(sock)


def _shut(sock: Optional[socket.socket]) -> None:
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already


def unreachable(detail: str, sent: bool = True) -> DaybookError:
    return DaybookError("unreachable", detail, sent=sent)


class Transport:
    """Makes calls to one server. For any number of threads."""

    def __init__(self, server: str, token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("server wants a URL like http://127.0.0.1:7373")
        if parts.username or parts.password:
            raise ValueError("server's URL holds a password; give the token as token")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
            raise ValueError("token wants what daybook token create printed")
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = tls or ssl.create_default_context() if parts.scheme == "https" else None
        self._headers = {"Accept": "application/json", "User-Agent": "daybook-python"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Closes what is kept. Calls after it make connections anew."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def send(
        self,
        method: str,
        path: str,
        body: Optional[str],
        headers: Dict[str, str],
        timeout: float,
        *,
        fresh: bool = False,
        cut: Optional[Cut] = None,
    ) -> Answer:
        """Makes one call. On a kept connection that the server has closed
        meanwhile it is made once more, unless fresh: then it is made on a new one
        only, and so never twice."""
        until = time.monotonic() + timeout
        connection = None if fresh else self._take()
        if connection is not None:
            try:
                return self._call(connection, method, path, body, headers, until, cut)
            except (ConnectionError, http.client.BadStatusLine, http.client.CannotSendRequest):
                connection.close()
                if cut is not None and cut.done:
                    raise unreachable("the call was broken off") from None
            except (OSError, http.client.HTTPException, ValueError) as e:
                connection.close()
                raise unreachable(_said(e)) from e
        connection = self._connect(until, cut)
        try:
            return self._call(connection, method, path, body, headers, until, cut)
        except (OSError, http.client.HTTPException, ValueError) as e:
            connection.close()
            raise unreachable(_said(e)) from e

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _connect(self, until: float, cut: Optional[Cut]) -> http.client.HTTPConnection:
        wait = min(CONNECT_MAX, max(0.001, until - time.monotonic()))
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=wait, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=wait)
        try:
            connection.connect()
        except (OSError, ValueError) as e:
            connection.close()
            raise unreachable("the server can't be reached: " + _said(e), sent=False) from e
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _call(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Optional[str],
        headers: Dict[str, str],
        until: float,
        cut: Optional[Cut],
    ) -> Answer:
        _patience(connection, until)
        if cut is not None:
            cut.hold(connection.sock)
        try:
            sent = dict(self._headers, **headers)
            raw = None if body is None else body.encode("utf-8")
            if raw is not None:
                sent["Content-Type"] = "application/json"
            connection.request(method, self._base + path, body=raw, headers=sent)
            response = connection.getresponse()
            text = _read(connection, response, until)
            response.close()  # this one; the connection stays
            answer = Answer(response.status, response.headers.get_content_type(), text, *_times(response))
        finally:
            if cut is not None:
                cut.hold(None)
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return answer


def _patience(connection: http.client.HTTPConnection, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _read(connection: http.client.HTTPConnection, response: http.client.HTTPResponse, until: float) -> str:
    """The whole body, in the time that is left: a server that sends it drop by
    drop is one that doesn't answer."""
    parts: List[bytes] = []
    size = 0
    while True:
        _patience(connection, until)
        part = response.read1(1 << 16)
        if not part:
            break
        size += len(part)
        if size > ANSWER_MAX:
            raise ValueError("the answer is larger than %d bytes" % ANSWER_MAX)
        parts.append(part)
    if response.length:  # what was announced and didn't come
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts).decode("utf-8")


def _times(response: http.client.HTTPResponse) -> Tuple[Optional[float], float]:
    """Retry-After in seconds, and how far the server's clock is ahead."""
    off = 0.0
    try:
        off = parsedate_to_datetime(response.headers["Date"]).timestamp() - time.time()
    except (TypeError, ValueError, KeyError, OverflowError):
        pass  # no date, or none that can be read
    if -2.0 < off < 1.0:  # Date has whole seconds
        off = 0.0
    given = response.headers.get("Retry-After")
    if given is None:
        return None, off
    try:
        return max(0.0, float(given)), off
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time() - off), off
    except (TypeError, ValueError, OverflowError):
        return None, off


def _said(e: BaseException) -> str:
    if isinstance(e, (socket.timeout, TimeoutError)):
        return "no answer in time"
    if isinstance(e, http.client.IncompleteRead):
        return "the answer ended too early"
    return str(e) or type(e).__name__
