"""The official clients, unchanged, against the door: each documented call, by the programs of this folder. A program runs
once, all of them at the same time; then each of its cases is a test. docs/e2b.md's table must name what was tried."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from door import HERE, LIMIT, NAMES, ROOT, command

PROGRAMS = {"python": [("python_core.py", "sync"), ("python_core.py", "async"), ("python_code.py", "sync"), ("python_code.py", "async")],
            "js": [("core.mjs",), ("code.mjs",)]}
CASE = re.compile(r"""^(?:@case|test)\((["'])(.+?)\1, (["'])(.+?)\3""", re.M)


def cases_of(program):
    return [(call, about) for _, call, _, about in CASE.findall((HERE / program).read_text())]


def label(client, program):
    return " ".join([client, *program])


RUNS = [(client, program) for client in NAMES for program in PROGRAMS[client.split("-")[0]]]
CASES = [(label(client, program), call, about) for client, program in RUNS for call, about in cases_of(program[0])]


def run(door, client, program):
    words, more, folder = command(client, *program)
    done = subprocess.run(words, env=door.environment(**more), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=LIMIT)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            found[one["call"], one["about"]] = one
    return found, done.stderr[-3000:]


@pytest.fixture(scope="session")
def results(door):
    with ThreadPoolExecutor(len(RUNS)) as pool:
        found = pool.map(lambda one: run(door, *one), RUNS)
        return {label(*one): got for one, got in zip(RUNS, found)}


@pytest.mark.parametrize("program,call,about", CASES, ids=lambda text: text.replace(" ", "-"))
def test_call(results, program, call, about):
    found, errors = results[program]
    assert (call, about) in found, errors
    one = found[call, about]
    assert one["passed"], one["why"]


def rows():
    """The table's rows: the calls of the first column, and whether they work."""
    text = (ROOT / "docs/e2b.md").read_text().partition("\n## Calls of the SDKs\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 4 and cells[0].startswith("`"):
            yield cells[0].strip("`"), cells[2]


def test_the_table_names_what_was_tried():
    told = [call for call, _ in rows()]
    tried = {call for _, call, _ in CASES}
    assert sorted(told) == sorted(tried)


def state_of(call):
    """What the table must say: all cases of the call are that it is refused, or one shows a difference ("differs: …")."""
    about = {text for _, name, text in CASES if name == call}
    if all(text.startswith("is refused") for text in about):
        return "refused"
    return "differs" if any(text.startswith("differs: ") for text in about) else "works"


@pytest.mark.parametrize("call,state", list(rows()))
def test_a_word_of_the_table_is_what_its_cases_show(call, state):
    assert state == state_of(call)
