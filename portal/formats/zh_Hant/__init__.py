"""How Traditional Chinese writes what Django leaves unset."""
