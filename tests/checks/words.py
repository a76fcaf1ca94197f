#!/usr/bin/env python3
"""Words that must not stand in our files: C functions that are easy to get wrong (src/), paths of one machine, hosts of
package registries, and talk about how the work was done instead of what the program does."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Function → what to use.
FUNCTIONS = {
    "strcpy": "abx_strdup, abx_buf_add_str or snprintf",
    "strcat": "abx_buf_add_str or abx_format",
    "strncpy": "abx_strndup or memcpy",
    "strncat": "abx_buf_add",
    "stpcpy": "abx_buf_add_str",
    "sprintf": "snprintf or abx_format",
    "vsprintf": "vsnprintf or abx_vformat",
    "gets": "read",
    "strtok": "strcspn, strsep or strtok_r",
    "atoi": "abx_parse_uint",
    "atol": "abx_parse_uint",
    "atoll": "abx_parse_uint",
    "alloca": "abx_alloc",
    "rand": "abx_random_bytes",
    "srand": "abx_random_bytes",
    "random": "abx_random_bytes",
    "mktemp": "openat with O_EXCL",
    "tmpnam": "openat with O_EXCL",
    "tempnam": "openat with O_EXCL",
    "system": "a child of net/child.h",
    "popen": "a child of net/child.h",
    "gethostbyname": "the loop",
    "asctime": "abx_format_rfc3339",
    "ctime": "abx_format_rfc3339",
    "localtime": "abx_format_rfc3339",
    "gmtime": "gmtime_r",
    "setenv": "an environment of the child's own",
    "putenv": "an environment of the child's own",
}
# Where one of them is right after all: file, function, why.
ALLOWED = []
CALL = re.compile(r"(?<![\w.>])(" + "|".join(FUNCTIONS) + r")\s*\(")
LITERAL_OR_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)

# In every text file. The strings are split so that this file passes its own check.
EVERYWHERE = [
    (r"/work/" + r"(main|shared)\b|/tmp/" + r"abx/", "a path of one machine"),
    (r"\b(static\.|index\.)?crates" + r"\.io\b|\bpypi" + r"\.org\b|\bnpmjs" + r"\.(org|com)\b|\bproxy\.golang" + r"\.org\b"
     r"|\bdeb\.debian" + r"\.org\b", "the host of a package registry"),
    (r"(?i)\b(this|that|last|previous|next|later|earlier|another) " + r"session'?s? (wrote|did|will|made|of the project)\b"
     r"|\bhelper " + r"(session|agent|engineer)s?\b|\bsub-?" + r"agents?\b|\bthe lead " + r"(engineer|wrote|owns|will)\b"
     r"|\b(in|by|of|until|before|after) issue " + r"[A-F1-9]\b|\bmy " + r"(brief|task)\b", "talk about how the work was done"),
]
EVERYWHERE = [(re.compile(pattern), why) for pattern, why in EVERYWHERE]
# The lock file of the source packages names their registry; that is its job.
EXEMPT = {"deps/Cargo.lock"}


def our_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True,
    ).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def without_comments(text):
    """The code alone, with the newlines of what was taken out."""
    return LITERAL_OR_COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", text)


def bad_calls(name, text):
    allowed = {function for file, function, _ in ALLOWED if file == name}
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        for found in CALL.finditer(line):
            if found[1] not in allowed:
                yield f"{name}:{number}: {found[1]}() is not used here: {FUNCTIONS[found[1]]}"


def bad_words(name, text):
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in EVERYWHERE:
            found = pattern.search(line)
            if found:
                yield f"{name}:{number}: '{found[0]}': {why}"


def problems_of(name):
    data = (ROOT / name).read_bytes()
    if b"\0" in data or name in EXEMPT:
        return
    text = data.decode("utf-8", errors="replace")
    yield from bad_words(name, text)
    if name.startswith("src/") and name.endswith((".c", ".h", ".cpp")):
        yield from bad_calls(name, text)


def main():
    problems = [p for name in our_files() for p in problems_of(name)]
    if problems:
        print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
