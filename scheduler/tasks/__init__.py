"""Thin Celery tasks: they decide nothing and are safe to run twice because the services are."""
