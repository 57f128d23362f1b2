"""A client of Berth's pages, API and socket, as a browser is one: cookies, CSRF, Origin; nothing of Django."""

import http.cookiejar
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from websockets.sync.client import ClientConnection, connect

ANSWER_SECONDS = 30
HIDDEN_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class Unexpected(AssertionError):
    """Berth answered something else than a client may rely on; the text says what."""


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    url: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """One person's browser."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))

    def sign_in(self, email: str, password: str) -> None:
        page = self.get("/sign-in/", expect=200)
        token = HIDDEN_TOKEN.search(page.text)
        if token is None:
            raise Unexpected("The sign-in page has no CSRF token.")
        form = {"csrfmiddlewaretoken": token.group(1), "login": email, "password": password}
        answer = self._send("POST", "/sign-in/", urlencode(form).encode(), "application/x-www-form-urlencoded")
        if answer.status != 200 or "/sign-in/" in answer.url:
            raise Unexpected(f"{email} could not sign in: {answer.status} at {answer.url}")

    def get(self, path: str, *, expect: int | None = None) -> Answer:
        answer = self._send("GET", path)
        return self._expected(answer, expect, path)

    def post(
        self, path: str, body: dict, *, expect: int | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        answer = self._send("POST", path, json.dumps(body).encode(), "application/json", headers)
        return self._expected(answer, expect, path)

    @contextmanager
    def socket(self, watch: list[str], log: int | None = None) -> Iterator["Live"]:
        """The page's one WebSocket, watching these keys and following this lease's output."""
        address = self.url.replace("http", "ws", 1) + "/live/"
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._cookies)
        with connect(address, origin=self.url, additional_headers={"Cookie": cookies}) as connection:  # type: ignore[arg-type]
            connection.send(json.dumps({"watch": watch, "log": log}))
            yield Live(connection)

    def _expected(self, answer: Answer, status: int | None, path: str) -> Answer:
        if status is not None and answer.status != status:
            raise Unexpected(f"{path} answered {answer.status} instead of {status}: {answer.text[:300]}")
        return answer

    def _send(
        self, method: str, path: str, body: bytes | None = None, kind: str = "", headers: dict[str, str] | None = None
    ) -> Answer:
        sent = {"Accept": "application/json, text/html;q=0.9", **(headers or {})}
        if body is not None:
            csrf = next((cookie.value or "" for cookie in self._cookies if cookie.name == "csrftoken"), "")
            sent |= {"Content-Type": kind, "X-CSRFToken": csrf, "Referer": f"{self.url}/", "Origin": self.url}
        request = urllib.request.Request(f"{self.url}{path}", body, sent, method=method)
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
                return Answer(response.status, response.read().decode(), response.geturl())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(errors="replace"), error.geturl())


class Live:
    """What the socket says, in the order in which it comes, each with the time it came at."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def messages(self, seconds: float) -> Iterator[tuple[float, dict]]:
        """Everything that comes within ``seconds``."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                text = self._connection.recv(timeout=left)
            except TimeoutError:
                return
            yield time.time(), json.loads(text)
