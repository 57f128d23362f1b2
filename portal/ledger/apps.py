from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "portal.ledger"
    label = "ledger"
