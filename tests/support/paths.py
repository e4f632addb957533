"""Where things are in the working tree. Tests write to the cache and temporary folders only."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
GOLDEN = ROOT / "tests" / "golden"
JAVA_SOURCES = ROOT / "tests" / "support" / "java"
