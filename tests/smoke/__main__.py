"""``python -m tests.smoke``: what ``make smoke`` runs. Exit status 0 only when every step passed."""

import logging
import sys

from tests.smoke.place import a_place
from tests.smoke.report import tell
from tests.smoke.walk import walk


def main() -> int:
    logging.basicConfig(level=logging.WARNING, format="  %(message)s")
    with a_place() as place:
        report = walk(place)
    tell(report.last_line())
    return 0 if report.all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
