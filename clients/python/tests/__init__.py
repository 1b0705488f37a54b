"""Tests of the client. They run from clients/python: python3 -m unittest"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
