"""Secrets that are shown once: made here, kept as a hash."""

import hashlib
import secrets


def new_token(prefix: str) -> tuple[str, str]:
    """A token of 256 bits with a prefix that secret scanners know it by, and its hash."""
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    return text, token_hash(text)


def token_hash(text: str) -> str:
    """SHA-256 is enough: the token is random, so there is nothing to guess."""
    return hashlib.sha256(text.encode()).hexdigest()
