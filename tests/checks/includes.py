#!/usr/bin/env python3
"""Reads every #include "..." of src/ and refuses an arrow against the layers, an arrow sideways (adapter to
adapter, door to door), a path that is not relative to src/, and a circle of headers."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"

# What each area may use besides itself. The same lines stand in CMakeLists.txt.
USES = {
    "base": "",
    "wire": "base",
    "net": "base wire",
    "ops": "base wire net",
    "host": "base wire net ops",
    "e2b": "base wire net ops",
    "epp": "base wire net ops",
    "local": "base wire net ops e2b",
    "jshost": "base wire net epp",
    "adapters": "base wire net ops host e2b epp local",
    "doors": "base wire net ops host",
}
SIBLINGS_APART = ("adapters", "doors")
# The program's main knows all adapters, to register them; nothing else in a door does.
REGISTRARS = {"doors/cli/main.c", "doors/capi/main.c"}
# The one file that local's own generator and the library may share lies in the area itself.
GENERATED = {"abx_build.h", "licenses.h", "seccomp_table.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def includes_of(path):
    return INCLUDE.findall(path.read_text())


def arrow_problem(source, target):
    """Why `source` may not include `target` (both relative to src/), or None."""
    if target in GENERATED or target.startswith("abx/"):
        return None
    if not (SRC / target).is_file():
        return "no such file below src/"
    here, there = source.split("/"), target.split("/")
    if here[0] not in USES:
        return f"unknown area '{here[0]}'"
    if here[0] == there[0]:
        apart = here[0] in SIBLINGS_APART and len(there) > 2 and here[1] != there[1]
        return f"'{here[1]}' and '{there[1]}' are siblings" if apart else None
    if there[0] == "adapters" and source in REGISTRARS:
        return None
    if there[0] not in USES[here[0]].split():
        return f"'{here[0]}' may not use '{there[0]}'"
    return None


def find_circle(graph):
    """The first circle of the graph as a list of files, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for target in graph.get(node, ()):
            if state.get(target) == "open":
                return path[path.index(target):] + [target]
            if target not in state:
                circle = visit(target)
                if circle:
                    return circle
        path.pop()
        state[node] = "done"
        return None

    for node in graph:
        if node not in state:
            circle = visit(node)
            if circle:
                return circle
    return None


def main():
    problems, graph = [], {}
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp", ".def"):
            continue
        source = path.relative_to(SRC).as_posix()
        targets = includes_of(path)
        graph[source] = [t for t in targets if (SRC / t).is_file()]
        for target in targets:
            why = arrow_problem(source, target)
            if why:
                problems.append(f"src/{source} includes '{target}': {why}")
    circle = find_circle(graph)
    if circle:
        problems.append("a circle of includes: " + " -> ".join(circle))
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
