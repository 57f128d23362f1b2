"""Names of the demo that are known without Django."""

DOMAIN = "northquay.example"
RESEARCHER_EMAIL = f"rosa@{DOMAIN}"
RESEARCHER_TENANT = "segmentation"
