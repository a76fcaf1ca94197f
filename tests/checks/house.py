#!/usr/bin/env python3
"""House rules about the text of our files that no other tool checks: length of files and functions, marks of
unfinished work, stray whitespace, files named after nothing."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 700
MOST_FUNCTION_LINES = 80
MARKS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX|HA" + r"CK)\b")
CODE = {".c", ".h", ".cpp", ".def", ".py", ".sh"}
TEXT = CODE | {".md", ".cmake", ".json", ".toml", ".txt"}


def our_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def long_functions(path, lines):
    """clang-format puts the braces of a function, and of nothing else, in the first column."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start - 1 >= MOST_FUNCTION_LINES:
                yield f"{path}:{start}: a function of {number - start - 1} lines"
            start = None


def problems_of(path):
    name = path.relative_to(ROOT).as_posix()
    if path.suffix not in TEXT:
        return
    data = path.read_bytes()
    if b"\r" in data and "/seeds/" not in name:
        yield f"{name}: carriage returns"
    text = data.decode("utf-8", errors="replace")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip() and path.suffix != ".md":
            yield f"{name}:{number}: white space at the end"
        if path.suffix in CODE and MARKS.search(line):
            yield f"{name}:{number}: a mark of unfinished work"
    if path.suffix in (".c", ".h", ".cpp") and name.startswith("src/"):
        if len(lines) > MOST_LINES:
            yield f"{name}: {len(lines)} lines, at most {MOST_LINES}"
        if path.stem in ("util", "utils", "helpers", "misc", "common"):
            yield f"{name}: named after nothing"
        yield from long_functions(name, lines)


def main():
    problems = [p for path in our_files() for p in problems_of(path)]
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
