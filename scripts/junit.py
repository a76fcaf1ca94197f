#!/usr/bin/env python3
"""Prints "passed failed skipped" of a JUnit file written by pytest or ctest.

A ctest entry is a cmocka program: its output is read, so that each test of it counts. A program that
failed without naming a test (a crash, a leak) counts as one failure.

junit.py FILE              the counts
junit.py --failed FILE     pytest's or ctest's names of the tests that failed, a line each
junit.py --steadied FILE   these passed when they were tried again: the file says so
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def cmocka_counts(output):
    passed = len(re.findall(r"^\[ +OK \]", output, re.M))
    failed = len(set(re.findall(r"^\[  FAILED  \] [A-Za-z_]\w*$", output, re.M)))
    skipped = len(set(re.findall(r"^\[  SKIPPED \] [A-Za-z_]\w*$", output, re.M)))
    return passed, failed, skipped


def is_bad(case):
    return case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"


def case_counts(case):
    bad = is_bad(case)
    output = case.findtext("system-out") or ""
    if "[==========]" in output:
        passed, failed, skipped = cmocka_counts(output)
        if case.find("unsteady") is not None:
            return passed + failed, 0, skipped
        return passed, max(failed, 1) if bad else 0, skipped
    if bad:
        return 0, 1, 0
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return 0, 0, 1
    return 1, 0, 0


def failed_cases(tree):
    return [case for case in tree.iter("testcase") if is_bad(case)]


def name_of(case):
    if case.get("status"):  # ctest's
        return case.get("name")
    return case.get("classname").replace(".", "/") + ".py::" + case.get("name")


def count(tree):
    total = [0, 0, 0]
    for case in tree.iter("testcase"):
        total = [a + b for a, b in zip(total, case_counts(case))]
    print(*total)


def steady(tree, file):
    for case in failed_cases(tree):
        if case.get("status"):
            case.set("status", "run")
            ElementTree.SubElement(case, "unsteady")
        for bad in case.findall("failure") + case.findall("error"):
            bad.tag = "unsteady"
    tree.write(file)


def main():
    *how, file = sys.argv[1:]
    tree = ElementTree.parse(file)
    if how == ["--failed"]:
        print("".join(f"{name}\n" for name in dict.fromkeys(map(name_of, failed_cases(tree)))), end="")
    elif how == ["--steadied"]:
        steady(tree, file)
    else:
        count(tree)


main()
