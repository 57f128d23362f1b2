from django.apps import AppConfig


class AdvisorConfig(AppConfig):
    name = "portal.advisor"
    label = "advisor"
