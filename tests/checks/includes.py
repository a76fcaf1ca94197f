#!/usr/bin/env python3
"""Reads every #include of src/ and refuses an arrow against the layers, an arrow sideways (adapter to adapter, door to
door), a header of ours in angle brackets or by a path that is not relative to src/, a circle of headers and a circle
of areas."""

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
    "jshost": "base wire net ops e2b epp",
    "adapters": "base wire net ops host e2b epp local jshost",
    "doors": "base wire net ops host",
}
# … and what one folder of an area may use besides.
MORE = {"doors/e2b": "e2b"}
SIBLINGS_APART = ("adapters", "doors")
# The allowed exceptions: file, what it may include, why.
EXCEPTIONS = [
    ("adapters/registry.c", r"adapters/[a-z]+/[a-z]+\.h", "the one list of all adapters"),
    ("doors/cli/main.c", r"adapters/registry\.h", "the program hands that list to its host"),
    ("doors/capi/adapters.c", r"adapters/registry\.h", "the library hands that list to its hosts"),
    ("doors/cli/main.c", r"doors/e2b/serve\.h", "the program hands that door to its command line"),
    ("doors/cli/main.c", r"doors/engine/serve\.h", "… and that one"),
    ("doors/cli/main.c", r"jshost/jshost\.h", "the hidden word by which the process of a JavaScript module is started"),
    ("doors/cli/main.c", r"local/local\.h", "the hidden word by which a parent that holds secrets has a sandbox started"),
]
# Made by the build.
GENERATED = {"abx_build.h", "conformance.h", "scaffold.h", "kernels.h", "licenses.h", "seccomp_table.h", "js_compiled.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def includes_of(path):
    """(line, '"' or '<', target) of each include."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found[1], found[2]


def is_exception(source, target):
    return any(source == s and re.fullmatch(t, target) for s, t, _ in EXCEPTIONS)


def arrow_problem(source, target):
    """Why `source` may not include `target` (both relative to src/), or None."""
    if target in GENERATED or target.startswith("abx/") or is_exception(source, target):
        return None
    if not (SRC / target).is_file():
        return "no such file below src/"
    here, there = source.split("/"), target.split("/")
    if here[0] not in USES:
        return f"unknown area '{here[0]}'"
    if here[0] == there[0]:
        apart = here[0] in SIBLINGS_APART and len(there) > 2 and here[1] != there[1]
        return f"'{here[1]}' and '{there[1]}' are siblings" if apart else None
    more = MORE.get("/".join(here[:2]), "")
    if there[0] not in (USES[here[0]] + " " + more).split():
        return f"'{here[0]}' may not use '{there[0]}'"
    return None


def unready_openssl(path):
    """Why a file that calls OpenSSL may find its tables unrelocated (src/base/openssl_tables.h), or None."""
    text = path.read_text()
    if re.search(r"#include <openssl/(?!ssl\.h|sha\.h)", text) and "abx_openssl_ready()" not in text:
        return "calls OpenSSL without abx_openssl_ready"
    return None


def find_circle(graph):
    """The first circle of the graph as a list of nodes, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for target in sorted(graph.get(node, ())):
            if state.get(target) == "open":
                return path[path.index(target):] + [target]
            if target not in state:
                circle = visit(target)
                if circle:
                    return circle
        path.pop()
        state[node] = "done"
        return None

    for node in sorted(graph):
        if node not in state:
            circle = visit(node)
            if circle:
                return circle
    return None


def area_graph(files):
    areas = {}
    for source, targets in files.items():
        here = source.split("/")[0]
        areas.setdefault(here, set())
        for target in targets:
            there = target.split("/")[0]
            if there != here and not is_exception(source, target):
                areas[here].add(there)
    return areas


def main():
    problems, files, used = [], {}, set()
    for path in sorted(SRC.rglob("*")):
        if path.suffix not in (".c", ".h", ".cpp", ".def"):
            continue
        source = path.relative_to(SRC).as_posix()
        files[source] = []
        if unready_openssl(path):
            problems.append(f"src/{source}: {unready_openssl(path)}")
        for line, quote, target in includes_of(path):
            if quote == "<":
                if (SRC / target).is_file():
                    problems.append(f"src/{source}:{line}: '{target}' is ours: write it in quotes")
                continue
            if (SRC / target).is_file():
                files[source].append(target)
            used.update(n for n, (s, t, _) in enumerate(EXCEPTIONS) if s == source and re.fullmatch(t, target))
            why = arrow_problem(source, target)
            if why:
                problems.append(f"src/{source}:{line}: includes '{target}': {why}")
    for n, (source, target, _) in enumerate(EXCEPTIONS):
        if n not in used:
            problems.append(f"tests/checks/includes.py: nobody needs the exception of src/{source} for '{target}'")
    for name, graph in (("headers", files), ("areas", area_graph(files))):
        circle = find_circle(graph)
        if circle:
            problems.append(f"src: a circle of {name}: " + " -> ".join(circle))
    if problems:
        print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
