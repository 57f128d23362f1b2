"""What the web server runs: pages and API over HTTP, agents and browsers over WebSocket."""

import os

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application
from django.utils.module_loading import import_string

from portal.web_threads import WithKeptThreads

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

pages = WithKeptThreads(get_asgi_application())
# By name: its modules hold models, which exist only once the line above has set Django up.
application = ProtocolTypeRouter({"http": pages, "websocket": import_string("portal.live.routing.sockets")})
