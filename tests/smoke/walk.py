"""The whole walk: sign in, a slice, a whole GPU, a GPU without MIG."""

from portal.demo.names import RESEARCHER_TENANT
from tests.smoke import slice_path, whole_path
from tests.smoke.bookings import Researcher
from tests.smoke.client import Client
from tests.smoke.place import Place
from tests.smoke.report import Report, StepFailed, tell

STEPS = 1 + slice_path.STEPS + whole_path.STEPS * len(whole_path.POOLS)


def walk(place: Place) -> Report:
    """Every path is walked even when another fails; what was booked is given back whatever happens."""
    report = Report(STEPS)
    client = Client(place.url)
    try:
        with report.step(f"sign in as {place.email}"):
            client.sign_in(place.email, place.password)
            researcher = Researcher(client, RESEARCHER_TENANT)
    except StepFailed:
        return report
    paths = [slice_path.SlicePath(report, researcher, place)]
    paths += [whole_path.WholePath(report, researcher, place, pool) for pool in whole_path.POOLS]
    for path in paths:
        try:
            path.walk()
        except StepFailed as failed:
            tell(f"         the rest of this path is left out: {failed}")
        finally:
            researcher.give_everything_back()
    return report
