#!/usr/bin/env python3
"""The conformance table: every provider over every door, docs/conformance.md. scripts/conformance.sh starts this.

    table.py [PROVIDER…] [--door DOOR]… [--only GROUP]… [--case NAME]… [--few] [--jobs N] [--json FILE]
    table.py --from FILE…

A cell runs in a process of its own (cell.py) against a home of its own; the service of a provider is shared by its cells. What differs is compared
with differences.json: a failure, or a case that has a way over one door and not over another, that is not written there is unexplained, and so
is one that is written there and does not happen. Either makes this exit with 1."""

import argparse
import contextlib
import itertools
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import differences
import doors
import interpreter
import providers
from cell import LANES, applies

HERE = Path(__file__).resolve().parent
# What every cell is tried with in the run of all tests: streams, files, errors.
FEW = ["process.events", "process.not-found", "stdin.stream", "output.two-streams", "output.as-it-comes", "files.binary", "files.list", "watch.create-write",
       "pty.type", "errors.file-missing"]
PROBE = "faults.one-slow-others-not"  # its outcome tells whether `flow` is there
LIMIT_S = 3000


def features_of(provider, cases):
    """As the suite in the program finds them; `flow` only where one of the cases needs it."""
    flow = any("flow" in case["needs"] for case in cases)
    with provider.home() as place:
        words = ["--case", PROBE] if flow else ["--case", "errors.file-missing"]
        report = place.home("provider", "test", place.connection["provider"], *words, "--json", timeout=120).json
    (one,) = report["cases"]
    return {**report["features"], "flow": "unsupported" if not flow or one["outcome"] == "notApplicable" else "native"}


class Cell:
    def __init__(self, provider, door, cases):
        self.provider, self.door, self.outcomes, self.took, self.problem = provider, door, {}, 0.0, None
        self.absent = {case["name"]: why for case in cases if (why := doors.missing(door, case))}
        self.cases = [case for case in cases if case["name"] not in self.absent]

    def run(self, started, lanes):
        began = time.monotonic()
        try:
            with started.home() as place, doors.DOORS[self.door](place) as told:
                given = {**told, "door": self.door, "connection": place.connection, "work": str(place.home.work), "lanes": lanes,
                         "cases": [case["name"] for case in self.cases]}
                done = subprocess.run([sys.executable, str(HERE / "cell.py")], input=json.dumps(given), env=told["environment"], cwd=place.home.work,
                                      text=True, stdout=subprocess.PIPE, timeout=LIMIT_S)
            self.outcomes = json.loads(done.stdout)
        except Exception as e:
            self.problem = repr(e)
        self.took = time.monotonic() - began

    @classmethod
    def of(cls, told):
        """One that Report.object told."""
        cell = cls(told["provider"], told["door"], [])
        cell.absent, cell.outcomes, cell.took, cell.problem = told["absent"], told["outcomes"], told["seconds"], told.get("problem")
        return cell

    def count(self, kind):
        return sum(1 for outcome in self.outcomes.values() if (outcome is None if kind is None else bool(outcome) and kind in outcome))

    def text(self):
        if self.problem:
            return "broken"
        return f"{self.count(None)}/{self.count(None) + self.count('failed')}"


class Report:
    def __init__(self, cells):
        self.cells, self.explained, self.unexplained = cells, {}, []
        for cell in cells:
            if cell.problem:
                self.unexplained.append(f"{cell.provider} over {cell.door}: {cell.problem}")
            known = differences.known(cell.provider, cell.door)
            for name, outcome in cell.outcomes.items():
                self.judge(cell, name, outcome, known.get(name))

    def judge(self, cell, name, outcome, known):
        """known: what is said of this difference, or None."""
        place = f"{cell.provider} over {cell.door}: {name}"
        if outcome is None:
            if known:
                self.unexplained.append(f"{place} passes, although it is said to differ: {known[1]}")
            return
        why = outcome.get("failed")
        if not why and self.passes_elsewhere(cell, name):
            why = outcome["notApplicable"] + ", which it has over another door"
        if why and known and re.search(known[0], why):
            self.explained.setdefault(known[1], []).append((cell, name))
        elif why:
            self.unexplained.append(f"{place}: {why}")

    def passes_elsewhere(self, cell, name):
        return any(other.provider == cell.provider and name in other.outcomes and other.outcomes[name] is None for other in self.cells)

    def markdown(self):
        names = list(dict.fromkeys(cell.door for cell in self.cells))
        rows = ["| | " + " | ".join(doors.TITLES[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
        for provider in dict.fromkeys(cell.provider for cell in self.cells):
            texts = {cell.door: cell.text() for cell in self.cells if cell.provider == provider}
            rows.append(f"| `{provider}` | " + " | ".join(texts.get(name, "–") for name in names) + " |")
        return "\n".join(rows)

    def lists(self):
        lines = []
        if self.explained:
            lines += ["", "Differences that are explained:", ""]
            for reason, places in self.explained.items():
                by_case = {}
                for cell, name in places:
                    by_case.setdefault(name, []).append(f"{cell.provider} over {cell.door}")
                lines += [f"- {reason}:"] + [f"    - `{name}`: {', '.join(where)}" for name, where in by_case.items()]
        if self.unexplained:
            lines += ["", "Unexplained:", ""] + [f"- {line}" for line in self.unexplained]
        return "\n".join(lines)

    def object(self):
        return {"cells": [{"provider": cell.provider, "door": cell.door, "passed": cell.count(None), "failed": cell.count("failed"),
                           "notApplicable": cell.count("notApplicable"), "absent": cell.absent, "outcomes": cell.outcomes, "seconds": round(cell.took, 1),
                           "problem": cell.problem}
                          for cell in self.cells], "unexplained": self.unexplained}


def run(names, door_names, chosen, jobs=2, lanes=LANES, tell=lambda line: None):
    """The report of these cells; chosen: does a case belong to the run?"""
    _, cases = interpreter.load()
    cases = [case for case in cases if chosen(case)]
    cells = []
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:

        def one_provider(name):
            with providers.start(name) as started:
                features = features_of(started, cases)
                row = [Cell(name, door, [case for case in cases if applies(case, features)]) for door in door_names]
                for cell in row:
                    tell(f"{cell.provider} over {cell.door}: {len(cell.cases)} cases")
                    cell.run(started, lanes)
                    tell(f"{cell.provider} over {cell.door}: {cell.text()}, {cell.took:.0f} s {cell.problem or ''}")
                    for case, outcome in cell.outcomes.items():
                        if outcome and "failed" in outcome:
                            tell(f"    {case}: {outcome['failed']}")
            return row

        for row in pool.map(one_provider, names):
            cells += row
    return Report(cells)


def earlier(files):
    """The report of cells that were run before; of a cell that stands in several files, the last."""
    cells = {}
    for name in files:
        for told in json.loads(Path(name).read_text(encoding="utf-8"))["cells"]:
            cells[told["provider"], told["door"]] = Cell.of(told)
    return Report([cells[place] for place in itertools.product(providers.STARTS, doors.DOORS) if place in cells])


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/conformance.sh", description="Every provider over every door: passed of the cases that apply.")
    parser.add_argument("provider", nargs="*", help=f"one of {', '.join(providers.STARTS)} (default: all)")
    parser.add_argument("--door", action="append", choices=list(doors.DOORS), help="only this door (default: all)")
    parser.add_argument("--only", action="append", metavar="GROUP", help="only the cases of this group")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case")
    parser.add_argument("--few", action="store_true", help="only a few cases: a cell takes some seconds")
    parser.add_argument("--list", action="store_true", help="only list the providers")
    parser.add_argument("--jobs", type=int, default=2, help="providers at once (default: 2)")
    parser.add_argument("--json", metavar="FILE", help="write every outcome there")
    parser.add_argument("--from", dest="earlier", nargs="+", metavar="FILE", help="run nothing: the table of what --json wrote, the last of each cell")
    given = parser.parse_args()
    for name in given.provider:
        if name not in providers.STARTS:
            parser.error(f"there is no provider '{name}': {', '.join(providers.STARTS)}")
    return given


def told(report, file):
    """Print it, and write it there; the exit code."""
    print(report.markdown() + "\n" + report.lists())
    if file:
        Path(file).write_text(json.dumps(report.object(), indent=1), encoding="utf-8")
    return 1 if report.unexplained else 0


def main():
    given = arguments()
    if given.list:
        print("\n".join(given.provider or providers.STARTS))
        return 0

    if given.earlier:
        return told(earlier(given.earlier), given.json)

    def chosen(case):
        return (not given.only or case["name"].split(".")[0] in given.only) and (not given.case or case["name"] in given.case) \
            and (not given.few or case["name"] in FEW)

    providers.become_subreaper()
    report = run(given.provider or list(providers.STARTS), given.door or list(doors.DOORS), chosen, given.jobs,
                 tell=lambda line: print(line, file=sys.stderr, flush=True))
    return told(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
