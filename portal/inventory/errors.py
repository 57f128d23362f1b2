"""What may go wrong with pools and nodes, each with a sentence for the admin or the operator."""


class InventoryRefused(Exception):
    """Nothing was changed; the text says why and what to do."""


class EnrolmentRefused(InventoryRefused):
    """The token is unknown, used or expired."""
