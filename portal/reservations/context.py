"""What the shell of every page shows."""

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict:
    return {"theme": request.COOKIES.get("berth_theme", "auto")}
