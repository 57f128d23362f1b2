"""Pages about reservations: home, reserve, one reservation, the list, and what the shell does."""
