"""What a browser fetches for a page at once: counted from its markup."""

from html.parser import HTMLParser
from urllib.parse import urlsplit

LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
OWN_HOSTS = {"", "127.0.0.1", "localhost", "testserver"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        address = values.get(LOADED.get(tag, ""), "")
        if tag == "link" and LOADED_LINKS & set(values.get("rel", "").split()):
            address = values.get("href", "")
        if "load" in values.get("hx-trigger", "").split():
            address = values.get("hx-get", "")
        if address and not address.startswith(("data:", "#")):
            self.addresses.add(address.split("#")[0])


def fetched_with(page: str) -> set[str]:
    """Addresses besides the page's own: scripts, styles, pictures, and fragments that load at once."""
    reader = _Reader()
    reader.feed(page)
    return reader.addresses


def foreign(addresses: set[str]) -> set[str]:
    return {address for address in addresses if (urlsplit(address).hostname or "") not in OWN_HOSTS}
