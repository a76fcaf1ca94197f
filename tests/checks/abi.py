#!/usr/bin/env python3
"""The interface of libabx is the one that was written down (scripts/abi.py)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import abi  # noqa: E402

sys.argv[1:] = []
sys.exit(abi.main())
