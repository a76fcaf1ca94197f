#!/usr/bin/env python3
"""Measures the bare HTTP server against Node's: requests a second with 1 and with 32 connections (wrk, in turns,
medians), and the memory of both after that load (PSS).

Usage: net.py [--quick] [--json]     --json: one JSON object a row, as bench.py reads them
ABX_BUILD names the folder with the bench program in tests/bench/ (default: build/release)."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ABX_BUILD") or HERE / "../../build/release").resolve()


class Server:
    """A server that prints its port and ends when its input closes."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/"

    def load(self, connections, seconds):
        """Requests a second; every answer must have been a success."""
        threads = 2 if connections > 1 else 1
        out = subprocess.run(["wrk", f"-c{connections}", f"-t{threads}", f"-d{seconds}", self.url], check=True,
                             capture_output=True, text=True).stdout
        if "Non-2xx" in out or "Socket errors" in out:
            raise RuntimeError(out)
        return float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))

    def pss(self):
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s+(\d+) kB", text, re.M).group(1))

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def speed(ours, node, connections, rounds, seconds):
    pairs = [(ours.load(connections, seconds), node.load(connections, seconds)) for _ in range(rounds)]
    mine, other = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    ratio = mine / other
    return {"what": f"http server, {connections} connection{'s' if connections > 1 else ''}",
            "ours": f"{mine / 1000:.1f} k/s", "reference": f"node {other / 1000:.1f} k/s", "ratio": f"{ratio:.2f}",
            "goal": ">= 1.5", "reached": ratio >= 1.5}


def memory(ours, node):
    mine, other = ours.pss(), node.pss()
    return {"what": "http server, memory", "ours": f"{mine / 1024:.1f} MiB",
            "reference": f"node {other / 1024:.1f} MiB", "ratio": f"{mine / other:.3f}", "goal": "<= 0.125",
            "reached": mine / other <= 0.125}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rounds, seconds = (1, 1) if given.quick else (5, 2)
    ours = Server(str(BUILD / "tests/bench/http_server_bench"))
    node = Server("node", str(HERE / "node_http.mjs"))
    for server in (ours, node):
        server.load(8, 1)  # warm: Node compiles what is hot
    rows = [speed(ours, node, 1, rounds, seconds), speed(ours, node, 32, rounds, seconds), memory(ours, node)]
    if ours.end() != 0:
        sys.exit("the bench server did not close its loop clean")
    node.end()
    for row in rows:
        if given.json:
            print(json.dumps(row))
        else:
            print(f"{row['what']:28} {row['ours']:>12}  {row['reference']:>16}  ratio {row['ratio']:>6}  "
                  f"(to reach {row['goal']}){'' if row['reached'] else '  MISSED'}")


if __name__ == "__main__":
    main()
