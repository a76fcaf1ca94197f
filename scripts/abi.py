#!/usr/bin/env python3
"""The interface of libabx as a program sees it: each function, structure, callback and constant of include/abx/abx.h, without
its comments, one a line. cmake/libabx.abi is that of the last release, or of what is on its way to the first one.

    scripts/abi.py            compare: what is gone or different is an error, what is new is to be written down
    scripts/abi.py --write    write it down"""

import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEADER, KEPT = ROOT / "include" / "abx" / "abx.h", ROOT / "cmake" / "libabx.abi"


def interface():
    text = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(encoding="utf-8"), flags=re.S)
    lines = re.findall(r"^#define (ABX_KIND_\w+ +\S+)", text, re.M)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M).replace('extern "C" {', "")
    for part in re.findall(r"(typedef struct \w+ \{.*?\} \w+;|[^;{}]*;)", text, re.S):
        one = re.sub(r"\s+", " ", part).strip()
        one = one.removeprefix("ABX_API ")
        if len(one) > 1:
            lines.append(re.sub(r"(?<=\() | (?=\))", "", one))
    return sorted(re.sub(r" +", " ", line) for line in lines)


def main():
    now = interface()
    if sys.argv[1:] == ["--write"]:
        KEPT.write_text("\n".join(now) + "\n", encoding="utf-8")
        return 0
    kept = KEPT.read_text(encoding="utf-8").splitlines()
    if now == kept:
        return 0
    print("the interface of libabx is not what cmake/libabx.abi says:")
    print("\n".join(difflib.unified_diff(kept, now, "kept", "now", lineterm="", n=0)))
    print("what is there must stay as it is; for what is new: scripts/abi.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
