#!/usr/bin/env python3
"""Runs clang-tidy over src/, one job a core. A file whose preprocessed text, and our settings, have not
changed since they were found clean is not read again (build/tidy).
Usage: tidy.py [--beside] [FILE...]     --beside: with what others leave of the processors, and not after the caller"""

import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATABASE = ROOT / "build" / "fuzz"  # the clang build: its flags are clang's
CACHE = ROOT / "build" / "tidy"
TOOL = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
# The analyzer leaves a function after so many steps. Its own limit takes twice the time for little: of 95 mistakes put
# into 12 files (a missing check, a second free, a variable without a value) it found one more than a third of it does.
# So the whole tree has the third, files that are named (what one has changed) and ABX_SOAK=1 its own.
STEPS = ["--extra-arg=" + word for word in ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000")]

PR_SET_PDEATHSIG = 1
WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


def step_aside():
    """Idle priority, alone and as a group of the scheduler's (a session is one); dies with the caller."""
    caller = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != caller:
        sys.exit(1)
    if os.getpgrp() != os.getpid():
        os.setsid()
    try:
        pathlib.Path("/proc/self/autogroup").write_text("19")
    except OSError:
        pass  # a kernel without such groups
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def digest_of(entry):
    command = [a for a in entry["command"].split() if a not in ("-c",)]
    command = command[: command.index("-o")] + ["-E", entry["file"]]
    text = subprocess.run(command, cwd=entry["directory"], stdout=subprocess.PIPE, check=True).stdout
    settings = (ROOT / ".clang-tidy").read_bytes() + " ".join(STEPS).encode()
    return hashlib.sha256(settings + b"\0" + text).hexdigest()


def tidy(entry):
    stamp = CACHE / digest_of(entry)
    if stamp.exists():
        return 0, ""
    run = subprocess.run(
        [*WITH_PARENT, TOOL, "-p", str(DATABASE), "--quiet", *STEPS, entry["file"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if run.returncode == 0:
        stamp.touch()
    findings = [line for line in run.stdout.splitlines() if ": error: " in line]
    return run.returncode, "\n".join(findings).replace(str(ROOT) + "/", "") or run.stdout


def main():
    names = sys.argv[1:]
    if names[:1] == ["--beside"]:
        names = names[1:]
        step_aside()
    if names or os.environ.get("ABX_SOAK"):
        STEPS.clear()
    CACHE.mkdir(parents=True, exist_ok=True)
    entries = json.loads((DATABASE / "compile_commands.json").read_text())
    wanted = [str(pathlib.Path(a).resolve()) for a in names]
    entries = [
        e
        for e in entries
        if e["file"].startswith(str(ROOT / "src")) and e["file"].endswith(".c")
        and (not wanted or e["file"] in wanted)
    ]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, text in pool.map(tidy, entries):
            if code != 0:
                bad += 1
                print(text.strip())
    print(f"{len(entries)} files, {bad} with findings")
    return 1 if bad else 0


sys.exit(main())
