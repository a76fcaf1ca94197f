"""What differs in the conformance table and why, from differences.json: a list of objects of

    cases       names of cases
    providers   words of the table, or regular expressions for them; absent: all
    doors       the same for doors; `suite` is `abx provider test`; absent: all
    says        optional: a regular expression that the failure must fit
    passes      optional, true: what a door does otherwise whoever provides is not so here
    why         one line

What the SDKs of E2B do otherwise, whoever provides, is in door_e2b.py."""

import json
import re
from pathlib import Path

import doors

ENTRIES = json.loads((Path(__file__).resolve().parent / "differences.json").read_text(encoding="utf-8"))["differences"]


def selected(entry, name, value):
    return name not in entry or any(re.fullmatch(pattern, value) for pattern in entry[name])


def entries_for(provider, door):
    return [entry for entry in ENTRIES if selected(entry, "providers", provider) and selected(entry, "doors", door)]


def known(provider, door):
    """Case → what its failure says (a regular expression), why."""
    found = dict(doors.known_differences(door))
    for entry in entries_for(provider, door):
        for name in entry["cases"]:
            if entry.get("passes"):
                found.pop(name, None)
            else:
                found[name] = (entry.get("says", ""), entry["why"])
    return found
