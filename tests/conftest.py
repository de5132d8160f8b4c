"""Helpers of the tests are importable by name from every folder of tests."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end: the folders here are named like the packages they test.
sys.path.append(str(Path(__file__).parent))
