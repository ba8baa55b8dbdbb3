"""Naming the likely mistake in a wrong gradient."""
from __future__ import annotations
from typing import Any
def diagnose(pair: Any, report: Any, subject: Any, settings: Any) -> list[str]:
    return []
