"""Why a change of tenants or people was refused."""


class TenantRefused(Exception):
    """Nothing was changed. ``message`` is a translated sentence; ``code`` is for programs."""

    def __init__(self, message: str, code: str = "refused"):
        super().__init__(message)
        self.message = message
        self.code = code
