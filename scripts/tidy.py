#!/usr/bin/env python3
"""Runs clang-tidy over src/, one job a core. A file whose preprocessed text, and our settings, have not
changed since they were found clean is not read again (build/tidy)."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATABASE = ROOT / "build" / "fuzz"  # the clang build: its flags are clang's
CACHE = ROOT / "build" / "tidy"
TOOL = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")


def digest_of(entry):
    command = [a for a in entry["command"].split() if a not in ("-c",)]
    command = command[: command.index("-o")] + ["-E", entry["file"]]
    text = subprocess.run(command, cwd=entry["directory"], stdout=subprocess.PIPE, check=True).stdout
    settings = (ROOT / ".clang-tidy").read_bytes()
    return hashlib.sha256(settings + b"\0" + text).hexdigest()


def tidy(entry):
    stamp = CACHE / digest_of(entry)
    if stamp.exists():
        return 0, ""
    run = subprocess.run(
        [TOOL, "-p", str(DATABASE), "--quiet", entry["file"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if run.returncode == 0:
        stamp.touch()
    findings = [line for line in run.stdout.splitlines() if ": error: " in line]
    return run.returncode, "\n".join(findings).replace(str(ROOT) + "/", "") or run.stdout


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    entries = json.loads((DATABASE / "compile_commands.json").read_text())
    wanted = [str(pathlib.Path(a).resolve()) for a in sys.argv[1:]]
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
