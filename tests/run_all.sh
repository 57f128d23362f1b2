#!/usr/bin/env bash
# All tests in one pytest run, so that its summary is the last thing printed and counts everything.
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m pytest -q -rs -n 2 tests
