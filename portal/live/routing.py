"""Every WebSocket address. Agents prove themselves by credential; browsers by Origin and session."""

from collections.abc import Awaitable, Callable
from typing import Any

from channels.sessions import CookieMiddleware

from portal.live.agent_socket import agent_socket
from portal.live.browser_socket import browser_socket
from portal.live.origin import SameOrigin

Application = Callable[[dict, Any, Any], Awaitable[None]]

SOCKETS: dict[str, Application] = {
    "/agent/v1/socket": agent_socket,
    "/live/": SameOrigin(CookieMiddleware(browser_socket)),
}


async def sockets(scope: dict, receive: Any, send: Any) -> None:
    """ASGI application of all WebSockets; an address that is none is refused before it is accepted."""
    application = SOCKETS.get(scope["path"])
    if application is None:
        await receive()
        await send({"type": "websocket.close", "code": 4404})
        return
    await application(scope, receive, send)
