"""The layer rules of the broker, read from its source text.

Every file has one package clause, fully written, so that the clause and the names it mentions tell
all about its dependencies. Comments and strings are blanked out before anything is looked for.
"""

import re
from collections.abc import Iterator

ROOT_PACKAGE = "rmqordered"

# Which packages may be mentioned by which. The vocabulary (util, model) is open to every layer
# above it; `handler` is the broker's behaviour and may use everything but the network.
_BELOW_HANDLER = {
    "util",
    "model",
    "config",
    "protocol",
    "dedup",
    "auth",
    "store",
    "filter",
    "stats",
    "schedule",
    "lease",
    "offset",
    "group",
    "pop",
}
ALLOWED: dict[str, set[str]] = {
    "util": set(),
    "model": {"util"},
    "config": {"util"},
    "protocol": {"model"},
    "dedup": {"model", "protocol", "util"},
    "auth": {"model", "protocol", "config", "util"},
    "store": {"model", "protocol", "config", "util", "dedup"},
    "filter": {"model"},
    "stats": {"model", "util"},
    "schedule": {"model", "protocol", "store", "util"},
    "lease": {"model", "util"},
    "offset": {"model", "config", "util"},
    "group": {"model", "config", "util", "protocol"},
    "pop": {"model", "protocol", "store", "offset", "lease", "util"},
    "handler": _BELOW_HANDLER,
    "net": {"protocol", "handler", "config", "util", "model"},
}

# What may be used in one package only, or in none: settings come from files and flags.
NOWHERE = "none"
RESERVED = {
    "io.netty": "net",
    "java.nio.channels": "store",
    "System.currentTimeMillis": "util",
    "System.nanoTime": "util",
    "System.getenv": NOWHERE,
    "System.getProperty": NOWHERE,
}

_NOISE = re.compile(
    r'"""(?:.|\n)*?"""'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'"
    r"|/\*(?:.|\n)*?\*/"
    r"|//[^\n]*"
)
_PACKAGE = re.compile(r"^\s*package\s+(?!object\b)([\w.]+)", re.MULTILINE)
_GROUP_IMPORT = re.compile(rf"\bimport\s+{ROOT_PACKAGE}\.(?:\{{([^}}]*)\}}|(_))")
_MENTION = re.compile(rf"(?<![\w.]){ROOT_PACKAGE}\.([a-z]\w*)")


def violations(name: str, text: str) -> list[str]:
    """What one source file does that its package may not; each with the file's name."""
    code = _NOISE.sub(" ", text)
    return [f"{name}: {problem}" for problem in _problems(code)]


def _problems(code: str) -> Iterator[str]:
    clauses = _PACKAGE.findall(code)
    if len(clauses) != 1:
        yield f"should have one package clause, found {clauses}"
        return
    package = _layer(clauses[0])
    if package is None:
        yield f"package {clauses[0]} is not in the table of layers: decide where it belongs"
        return
    # The root package is the composition root: it may import everything.
    if package:
        yield from _forbidden_mentions(package, code)
    for thing, home in RESERVED.items():
        if package != home and re.search(rf"(?<![\w.]){re.escape(thing)}\b", code):
            who = "no package" if home == NOWHERE else f"only package {home}"
            yield f"{who} may use {thing}"


def _layer(clause: str) -> str | None:
    """The layer of a package clause; empty for the root, None if it is unknown."""
    if clause == ROOT_PACKAGE:
        return ""
    _, _, layer = clause.partition(f"{ROOT_PACKAGE}.")
    return layer if layer in ALLOWED else None


def _forbidden_mentions(package: str, code: str) -> Iterator[str]:
    for mentioned in sorted(_mentions(code) - {package} - ALLOWED[package]):
        allowed = ", ".join(sorted(ALLOWED[package])) or "nothing of ours"
        yield f"package {package} may import {allowed}, but not {mentioned}"


def _mentions(code: str) -> set[str]:
    mentioned = set(_MENTION.findall(_PACKAGE.sub("", code)))
    for selectors, wildcard in _GROUP_IMPORT.findall(code):
        names = ["everything (_)"] if wildcard else re.split(r"\s*,\s*", selectors.strip())
        mentioned |= {re.split(r"\s*=>\s*", one)[0] for one in names if one}
    return mentioned
