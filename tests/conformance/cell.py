"""Runs cases over one door: `run` for a test that has a door, and as a program for one cell of the table, which reads what is to be done from
standard input, an object, and writes an object of the outcomes.

An outcome is None (passed), or an object: {"failed": why} or {"notApplicable": why}."""

import functools
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import doors
import interpreter

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import tables  # noqa: E402

LANES = 4


def steps_of(steps):
    for step in steps:
        yield step
        inner = step.get("parallel")
        for more in inner if isinstance(inner, list) else [step.get("steps", [])]:
            yield from steps_of(more)


@functools.lru_cache
def feature_of_operations():
    t = tables.load()
    names = {f.id: f.name for f in t.features}
    return {op.method: names[op.feature] for op in t.ops}


def has(features, name):
    """A feature, or an operation, whose own name may override its feature."""
    feature = feature_of_operations().get(name, name)
    return features.get(name, features.get(feature, "native" if feature == "sandbox" else "unsupported")) != "unsupported"


def applies(case, features):
    """Has the provider what the case needs and calls? One that has a part of a feature has the cases of that part; that ended processes are
    kept goes with the whole."""
    part = {feature for name, feature in feature_of_operations().items() if features.get(name, "unsupported") != "unsupported"} - {"process.replay"}
    calls = {step.get("call") or step.get("start") for step in steps_of(case["steps"])} - {None}
    return all(has(features, need) or need in part for need in case["needs"]) and all(has(features, name) for name in calls)


class Runner:
    """Runs cases over a door, each thread with a sandbox that its cases share."""

    def __init__(self, door, suite):
        self.door, self.suite = door, suite
        self.local, self.boxes = threading.local(), []

    def shared(self):
        if not hasattr(self.local, "box"):
            self.local.box = doors.finished(self.door, "sandbox.create", {"timeoutMs": interpreter.LIFE_MS})["id"]
            self.boxes.append(self.local.box)
        return self.local.box

    def run(self, case):
        """Raises what interpreter.Trial.run does."""
        try:
            interpreter.Trial(self.door, self.suite, case, self.shared).run()
        except BaseException:
            self.local.__dict__.pop("box", None)  # what a failed case did to it is not the next one's matter
            raise

    def outcome(self, case):
        try:
            self.run(case)
        except interpreter.NotApplicable as e:
            return {"notApplicable": str(e)}
        except BaseException as e:  # a bug of the door fails the case
            return {"failed": str(e) or repr(e)}
        return None

    def end(self):
        calls = [self.door.start("sandbox.kill", {"sandboxId": box}, None, True, 30000, False) for box in self.boxes]
        for call in calls:
            with call.changed:
                call.changed.wait_for(lambda: call.ended, 30)

    def features(self):
        """As a sandbox tells them."""
        return doors.finished(self.door, "sandbox.info", {"sandboxId": self.shared()})["features"]


def run(door, suite, cases, lanes=LANES):
    """name → outcome"""
    runner = Runner(door, suite)
    with ThreadPoolExecutor(lanes) as pool:
        outcomes = dict(zip([case["name"] for case in cases], pool.map(runner.outcome, cases)))
    runner.end()
    return outcomes


def failures(outcomes):
    return {name: outcome["failed"] for name, outcome in outcomes.items() if outcome and "failed" in outcome}


def main():
    given = json.load(sys.stdin)
    suite, cases = interpreter.load()
    names = set(given["cases"])
    door = doors.open_door(given["door"], given)
    outcomes = run(door, suite, [case for case in cases if case["name"] in names], given["lanes"])
    if hasattr(door, "close"):
        door.close()
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
