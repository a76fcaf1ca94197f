#!/usr/bin/env python3
"""Measures the program against references in the same run. Every row is interleaved (ours and the reference in
turn) and a median; the table at the end shows the ratio and what is to be reached.

Usage: bench.py [--quick] [--json FILE] [--users root,user] [ROW...]
Rows: start size run exec burst memory throughput copy http tls store epp node (default: all). As root every row that makes sandboxes
is measured twice: as root and as an ordinary user without any right (a number without an entry in /etc/passwd).
ABX_BUILD names the folder with the program (default: build/release)."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tls as https

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ABX_BUILD") or HERE / "../../build/release").resolve()
ROWS = ["start", "size", "run", "exec", "burst", "memory", "throughput", "copy", "http", "tls", "store", "epp", "node"]
NOBODY = 64991  # an ordinary user for whom nothing is prepared
BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-all",
         "--die-with-parent", "true"]
MIB = 1 << 20


class Caller:
    """Who runs things: a home, an environment, and the words in front of a command."""

    def __init__(self, name, top):
        self.name = name
        self.folder = top / name
        self.folder.mkdir(mode=0o755)
        self.abx = str(top / "abx")
        self.prefix = []
        if name == "user" and os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            self.prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"]
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8",
                    "ABX_HOME": str(self.folder / "home"), "ABX_PROVIDER": "local"}

    def run(self, *words, **more):
        done = subprocess.run([*self.prefix, *words], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, **more)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def times(self, rounds, *commands):
        """Medians of whole processes, interleaved."""
        words = [str(self.folder.parent / "run_times"), str(rounds)]
        for n, command in enumerate(commands):
            words += ["---" if n else "--", *command]
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def shell(self, script):
        """Seconds that a pipeline takes."""
        begin = time.monotonic()
        self.run("bash", "-o", "pipefail", "-c", script)
        return time.monotonic() - begin

    def close(self):
        subprocess.run([*self.prefix, self.abx, "kill", "--all", "--yes"], env=self.env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, caller, ours, reference, ratio, goal, reached, **more):
        self.rows.append({"what": what, "caller": caller, "ours": ours, "reference": reference, "ratio": ratio,
                          "goal": goal, "reached": reached, **more})
        print(f"  {what} ({caller}): {ours}" + (f", {reference}" if reference else ""), flush=True)

    def compare(self, what, caller, ours, reference, name, most):
        """Times in microseconds: ours against a reference, at most `most` times it."""
        ratio = ours["median_us"] / reference["median_us"]
        self.add(what, caller, ms(ours), f"{name} {ms(reference)}", f"{ratio:.2f}",
                 "-" if most is None else f"<= {most:.1f}", most is None or ratio <= most, ours_times=ours,
                 reference_times=reference)

    def show(self):
        head = ["what", "caller", "ours", "reference", "ratio", "to reach", ""]
        lines = [[r["what"], r["caller"], r["ours"], r["reference"] or "-", r["ratio"] or "-", r["goal"] or "-",
                  "" if r["reached"] else "MISSED"] for r in self.rows]
        widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
        print()
        for line in [head, *lines]:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def ms(times):
    return f"{times['median_us'] / 1000:.2f} ms"


def rate(size, seconds):
    return f"{size / MIB / seconds:.0f} MiB/s"


# --- rows ------------------------------------------------------------------------------------------------


def start(table, caller, quick):
    rounds = 50 if quick else 300
    ours, true, git, again = caller.times(rounds, [caller.abx, "--version"], ["true"], ["git", "--version"],
                                          [caller.abx, "--help"])
    table.compare("abx --version", caller.name, ours, true, "true", None)
    reached = ours["median_us"] <= 2000
    table.add("abx --version, absolute", caller.name, ms(ours), f"git --version {ms(git)}", None, "<= 2 ms", reached)
    table.add("abx --version, peak memory", caller.name, f"{ours['peak_kb'] / 1024:.1f} MiB", None, None, "< 8 MB",
              ours["peak_kb"] * 1024 < 8_000_000)
    table.compare("abx --help", caller.name, again, true, "true", None)
    if shutil.which("node"):
        ours, node = caller.times(max(5, rounds // 10), [caller.abx, "--version"], ["node", "-e", "0"])
        table.compare("abx --version", caller.name, ours, node, "node -e 0", None)


def size(table, caller, quick):
    n = os.path.getsize(BUILD / "abx")
    table.add("the program, stripped", "-", f"{n / MIB:.2f} MiB", None, None, "<= 8 MB", n <= 8_000_000)
    library = BUILD / "libabx.so"
    if library.exists():
        table.add("libabx.so", "-", f"{library.stat().st_size / MIB:.2f} MiB", None, None, None, True)


def run(table, caller, quick):
    ours, reference = caller.times(30 if quick else 200, [caller.abx, "-P", "local", "run", "--", "true"], BWRAP)
    table.compare("abx run -- true", caller.name, ours, reference, "bwrap", 1.0)


def exec_(table, caller, quick):
    box = caller.run(caller.abx, "create").strip()
    rounds = 50 if quick else 300
    ours, reference = caller.times(rounds, [caller.abx, "exec", box, "--", "true"], BWRAP)
    table.compare("abx exec ID -- true", caller.name, ours, reference, "bwrap", 0.5)
    caller.run(caller.abx, "kill", box)
    made, reference = caller.times(max(10, rounds // 5), ["sh", "-c", f'"{caller.abx}" kill $("{caller.abx}" create)'],
                                   BWRAP)
    table.compare("create and kill", caller.name, made, reference, "bwrap", None)


def burst(table, caller, quick):
    """Many sandboxes made, used and removed: one after the other, and 8 at a time."""
    many = 40 if quick else 200
    for at_once in (1, 8):
        both = [f'seq {many} | xargs -P {at_once} -I N {words} > /dev/null'
                for words in (f"'{caller.abx}' -P local run -- true", " ".join(BWRAP))]
        seconds = [[caller.shell(script) for script in both] for _ in range(3)]
        mine, other = (statistics.median(s[i] for s in seconds) for i in (0, 1))
        table.add(f"{many} runs, {at_once} at a time", caller.name, f"{mine / many * 1000:.2f} ms each",
                  f"bwrap {other / many * 1000:.2f} ms", f"{mine / other:.2f}", None, True)


def pss_kb(pids):
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


def memory(table, caller, quick):
    many = 100 if quick else 1000
    ids, begin = [], time.monotonic()
    first = caller.run(caller.abx, "create").strip()
    pid = json.loads(caller.run(caller.abx, "info", "--json", first))["pid"]
    caller.run(caller.abx, "exec", first, "--", "true")
    if os.geteuid() == 0:
        time.sleep(2.5)  # idle: memory goes back a second after the last command
        kb = pss_kb([pid])
        table.add("memory of an idle sandbox (PSS)", caller.name, f"{kb / 1024:.2f} MiB", None, None, "<= 2 MB",
                  kb * 1024 <= 2_000_000)
    free = available_kb()
    begin = time.monotonic()
    script = f'for i in $(seq {many - 1}); do "{caller.abx}" create --timeout none || exit; done'
    ids = caller.run("bash", "-c", script).split()
    took = time.monotonic() - begin
    alive = json.loads(caller.run(caller.abx, "ls", "--json", "--limit", "0"))["sandboxes"]
    used = (free - available_kb()) / (many - 1)
    ends = caller.run(caller.abx, "exec", ids[-1], "--", "echo", "alive").strip()
    total = f", PSS together {pss_kb([s['pid'] for s in alive if 'pid' in s]) / 1024:.0f} MiB" if os.geteuid() == 0 else ""
    table.add(f"{many} idle sandboxes at once", caller.name,
              f"{len(alive)} live, {used / 1024:.2f} MiB of the machine's memory each{total}",
              f"made in {took / (many - 1) * 1000:.1f} ms each", None, "all live", len(alive) == many and ends == "alive")
    begin = time.monotonic()
    caller.run(caller.abx, "kill", "--all", "--yes")
    took = time.monotonic() - begin
    table.add(f"kill --all of {many}", caller.name, f"{took / many * 1000:.1f} ms each", None, None, None, True)


def available_kb():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1])
    return 0


def throughput(table, caller, quick):
    n = 100 * MIB if quick else 1024 * MIB
    rounds = 3 if quick else 5
    box = caller.run(caller.abx, "create").strip()
    big = caller.folder / "big"
    caller.run("bash", "-c", f"head -c {n} /dev/urandom > '{big}'")
    caller.run(caller.abx, "exec", box, "--", "sh", "-c", "ln -sf /work/big /tmp/big")
    caller.run("bash", "-c", f"'{caller.abx}' exec {box} -- sh -c 'cat > /work/big' < '{big}'")
    rows = {
        "stdout of exec": (f"'{caller.abx}' exec {box} -- cat /work/big | cat > /dev/null",
                           f"cat '{big}' | cat > /dev/null"),
        "stdin of exec": (f"cat '{big}' | '{caller.abx}' exec {box} -- sh -c 'cat > /dev/null'",
                          f"cat '{big}' | cat > /dev/null"),
    }
    for what, (ours, reference) in rows.items():
        seconds = [(caller.shell(ours), caller.shell(reference)) for _ in range(rounds)]
        mine, other = (statistics.median(s[i] for s in seconds) for i in (0, 1))
        table.add(f"{what}, {n // MIB} MiB", caller.name, rate(n, mine), f"a pipe through cat {rate(n, other)}",
                  f"{other / mine:.2f}", ">= 300 MiB/s", n / MIB / mine >= 300)
    caller.run(caller.abx, "kill", box)
    big.unlink()


def copy(table, caller, quick):
    n = 50 * MIB if quick else 500 * MIB
    box = caller.run(caller.abx, "create").strip()
    big = caller.folder / "big"
    caller.run("bash", "-c", f"head -c {n} /dev/urandom > '{big}'")
    rows = {"cp up": (f"'{caller.abx}' cp '{big}' {box}:/work/big", f"cp '{big}' '{big}.copy'"),
            "cp down": (f"'{caller.abx}' cp {box}:/work/big '{big}.back'", f"cp '{big}' '{big}.copy'")}
    for what, (ours, reference) in rows.items():
        seconds = []
        for _ in range(3):
            for path in (f"{big}.back", f"{big}.copy"):
                Path(path).unlink(missing_ok=True)
            seconds.append((caller.shell(ours), caller.shell(reference)))
        mine, other = (statistics.median(s[i] for s in seconds) for i in (0, 1))
        table.add(f"{what}, {n // MIB} MiB", caller.name, rate(n, mine), f"cp {rate(n, other)}", f"{other / mine:.2f}",
                  ">= 0.5", other / mine >= 0.5)
    caller.run(caller.abx, "kill", box)


def http(table, caller, quick):
    """The bare HTTP server against Node's; measured by net.py, which prints one JSON object a row."""
    script = HERE / "net.py"
    if not script.exists():
        return
    take_rows(table, "http server", [sys.executable, str(script), "--json"] + (["--quick"] if quick else []))


def tls(table, caller, quick):
    """What https costs, at the first request of a program and later; measured by tls.py."""
    take_rows(table, "TLS", [sys.executable, str(HERE / "tls.py"), "--json"] + (["--quick"] if quick else []))


def epp(table, caller, quick):
    """EPP/1 against bare pipes, by a program of its own."""
    take_rows(table, "EPP/1", [str(BUILD / "tests/bench/epp_bench")] + (["--quick"] if quick else []))


def take_rows(table, what, words):
    """Run a program that prints one JSON object a row."""
    done = subprocess.run(words, env={**os.environ, "ABX_BUILD": str(BUILD)}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        table.add(what, "-", f"{words[-1]} failed", None, None, None, False)
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            r = json.loads(line)
            table.add(r["what"], "-", r["ours"], r.get("reference"), r.get("ratio"), r.get("goal"),
                      r.get("reached", True))


def make_plugin(folder, id, files):
    """A plugin's folder with so many files of 1 MiB."""
    folder.mkdir(mode=0o755)
    (folder / "abx-provider.toml").write_text(
        f'schema = 1\nid = "{id}"\nname = "{id}"\nversion = "1.0.0"\n[runtime]\nkind = "exec"\nprotocol = "epp/1"\n'
        'command = ["./plugin"]\nfeatures = ["process"]\n')
    (folder / "plugin").write_text("#!/bin/sh\n")
    (folder / "plugin").chmod(0o755)
    for i in range(files):
        (folder / f"file{i}").write_bytes(os.urandom(MIB))


def store(table, caller, quick):
    """The digest of an installed plugin of 50 MiB; a list of 50 plugins."""
    rounds = 10 if quick else 40
    source = caller.folder.parent / f"plugins-{caller.name}"
    source.mkdir(mode=0o755)
    make_plugin(source / "big", "big", 50)
    caller.run(caller.abx, "provider", "install", str(source / "big"))
    big = Path(caller.env["ABX_HOME"]) / "providers" / "big"
    files = sorted(str(x) for x in big.iterdir())
    ours, reference = caller.times(rounds, [caller.abx, "provider", "verify", "big"], ["sha256sum", *files])
    table.compare("provider verify, 50 MiB", caller.name, ours, reference, "sha256sum", 1.5)
    caller.run(caller.abx, "provider", "remove", "big")
    for i in range(50):
        make_plugin(source / f"p{i}", f"p{i}", 0)
        caller.run(caller.abx, "provider", "install", str(source / f"p{i}"))
    ours, reference = caller.times(rounds * 5, [caller.abx, "provider", "list"], [caller.abx, "--version"])
    table.compare("provider list, 50 plugins", caller.name, ours, reference, "abx --version", 2.0)
    shutil.rmtree(source)


def node(table, caller, quick):
    """A JavaScript module: loaded and asked for the first time by a whole command; memory of its processes."""
    source, rounds = caller.folder / "module", 30 if quick else 150
    caller.run(caller.abx, "provider", "new", "module", "--lang", "js", "--dir", str(source))
    caller.run(caller.abx, "provider", "install", str(source), "--yes")
    words = [caller.abx, "-P", "module", "ls"]
    if shutil.which("node"):
        version = caller.run("node", "--version").strip()
        ours, reference = caller.times(rounds, words, ["node", "-e", "0"])
        table.compare("load a JavaScript module and its first call", caller.name, ours, reference, f"node {version} -e 0", 0.2)
    ours, reference = caller.times(rounds, words, [caller.abx, "--version"])
    table.compare("load a JavaScript module and its first call", caller.name, ours, reference, "abx --version", None)
    if os.geteuid() == 0 and caller.name == "root":
        module_memory(table, caller, source, 10 if quick else 50)


def module_memory(table, caller, source, many):
    """Memory of one module's process and of many in one host (tests/e2e/node_host.c), idle and after a request to our own https server by the
    authorities of this machine and one more."""
    ca, cert, key = https.certificates(caller.folder)
    bundle = caller.folder / "bundle.pem"
    bundle.write_text(https.BUNDLE.read_text() + ca.read_text())
    server = https.Server(cert, key)
    host = subprocess.Popen([BUILD / "tests/e2e/node_host", caller.abx], env={**caller.env, "SSL_CERT_FILE": str(bundle)},
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(i, method):
        host.stdin.write(f"{i} m{i} {method} {{}}\n")
        answer = json.loads(host.stdout.readline())
        if "result" not in answer:
            raise RuntimeError(answer)

    def mib(count):
        time.sleep(1)
        return pss_kb(Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split()) / 1024 / count

    def add(what, size, most, **more):
        table.add(what, caller.name, f"{size:.2f} MiB{' each' if 'each_ms' in more else ''}",
                  f"made in {more['each_ms']:.1f} ms each" if more.get("each_ms") else None, None, f"<= {most} MB",
                  size * MIB <= most * 1e6)

    try:
        for i in range(many):
            install_caller_of_https(caller, source, f"m{i}", server.tls)
        ask(0, "sandbox.create")
        add("memory of a module's process (PSS), alone", mib(1), 5)
        ask(0, "sandbox.list")
        add("the same after a request by https", mib(1), 8)
        begin = time.monotonic()
        for i in range(1, many):
            ask(i, "sandbox.create")
        each_ms = (time.monotonic() - begin) * 1000 / (many - 1)
        add(f"memory of {many} modules' processes at once (PSS)", mib(many), 5, each_ms=each_ms)
        for i in range(1, many):
            ask(i, "sandbox.list")
        add("the same after a request of each by https", mib(many), 8, each_ms=0)
    finally:
        host.kill()
        host.wait()
        server.end()


def install_caller_of_https(caller, source, name, port):
    folder = source.parent / name
    shutil.copytree(source, folder)
    manifest, entry = folder / "abx-provider.toml", folder / "provider.mjs"
    manifest.write_text(manifest.read_text().replace('"module"', f'"{name}"'))
    asks = f"async list() {{ await (await fetch('https://localhost:{port}/')).text(); return {{ sandboxes: [] }}; }}"
    entry.write_text(entry.read_text().replace("sandbox: sandbox(kit)", f"sandbox: {{ ...sandbox(kit), {asks} }}"))
    caller.run(caller.abx, "provider", "install", str(folder), "--yes")


FUNCTIONS = {"start": start, "size": size, "run": run, "exec": exec_, "burst": burst, "memory": memory, "throughput": throughput,
             "copy": copy, "http": http, "tls": tls, "store": store, "epp": epp, "node": node}
ONCE = {"size", "http", "tls", "epp"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="few rounds: an impression in half a minute")
    parser.add_argument("--json", metavar="FILE", help="write the rows to FILE ('-': standard output)")
    parser.add_argument("--users", default="root,user" if os.geteuid() == 0 else "user")
    args = parser.parse_args()
    unknown = set(args.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; rows: {' '.join(ROWS)}")
    top = Path(tempfile.mkdtemp(prefix="abx-bench.", dir="/var/tmp"))
    top.chmod(0o755)
    table, callers = Table(), []
    out = sys.stdout
    if args.json == "-":
        sys.stdout = sys.stderr
    try:
        shutil.copy(BUILD / "abx", top / "abx")
        shutil.copy(BUILD / "tests/bench/run_times", top / "run_times")
        callers = [Caller(name, top) for name in args.users.split(",")]
        for row in args.rows or ROWS:
            for caller in callers[:1] if row in ONCE else callers:
                print(f"{row}:", flush=True)
                FUNCTIONS[row](table, caller, args.quick)
    finally:
        for caller in callers:
            caller.close()
        shutil.rmtree(top, ignore_errors=True)
    table.show()
    if args.json:
        text = json.dumps({"rows": table.rows}, indent=1) + "\n"
        if args.json == "-":
            out.write(text)
        else:
            Path(args.json).write_text(text)


if __name__ == "__main__":
    main()
