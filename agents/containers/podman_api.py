"""Calls of Podman's REST API over its socket; every refusal comes in Podman's own words."""

import json
import threading
from typing import Any

import requests
from podman.api.client import APIClient
from podman.errors import APIError, PodmanError

from agents.containers.contract import EngineError

DEFAULT_URL = "unix:///run/podman/podman.sock"
_API_VERSION = "4.0.0"
_CALL_SECONDS = 30.0


class PodmanApi:
    """Thread-safe: one connection a thread, since the library's session is not made to be shared."""

    def __init__(self, url: str) -> None:
        self._url = url or DEFAULT_URL
        self._local = threading.local()

    def get(self, path: str, **params: str) -> Any:
        return self._call("get", path, params)

    def find(self, path: str) -> bool:
        """Whether there is such a thing."""
        return self._call("get", path, {}, missing=False) is not False

    def post(self, path: str, body: dict[str, Any] | None = None, seconds: float = _CALL_SECONDS, **params: str) -> Any:
        return self._call("post", path, params, body, seconds)

    def delete(self, path: str, **params: str) -> None:
        """What is gone already is no error."""
        self._call("delete", path, params, missing=None)

    def _call(
        self, verb: str, path: str, params: dict[str, str], body: dict[str, Any] | None = None,
        seconds: float = _CALL_SECONDS, **on_missing: Any,
    ) -> Any:
        """The decoded answer, None for an empty one, ``missing`` for 404 where it is given."""
        data = None if body is None else json.dumps(body)
        try:
            response = getattr(self._client(), verb)(
                path, params=params, data=data, headers={"Content-Type": "application/json"}, timeout=seconds)
            if response.status_code == requests.codes.not_found and "missing" in on_missing:
                return on_missing["missing"]
            if response.status_code >= requests.codes.bad_request:
                raise EngineError(_words(response))
            return response.json() if response.content else None
        except (PodmanError, APIError, requests.RequestException) as error:
            raise EngineError(f"Podman does not answer at {self._url}: {error}") from error

    def _client(self) -> APIClient:
        if not hasattr(self._local, "client"):
            self._local.client = APIClient(base_url=self._url, version=_API_VERSION, timeout=_CALL_SECONDS)
        return self._local.client


def _words(response: Any) -> str:
    try:
        answer = response.json()
    except ValueError:
        answer = {}
    return str(answer.get("message") or answer.get("cause") or f"Podman answered {response.status_code}.")[:1000]
