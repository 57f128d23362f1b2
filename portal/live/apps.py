from importlib import import_module

from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "portal.live"
    label = "live"

    def ready(self) -> None:
        import_module("portal.live.rights_changes").connect()  # by name: it holds models, which exist from here on
