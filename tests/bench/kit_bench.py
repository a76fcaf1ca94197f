#!/usr/bin/python3
"""A provider of kind node whose protocol classes are the kit's, against kind rest, both over the E2B door of a third home: calls a second, bytes of a
download a second, processor time of each, memory of the module's process. 'copy' is a module that copies every chunk itself.
    ABX_BUILD=build/release tests/bench/kit_bench.py [MIB]"""

import http.client
import json
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "conformance")]
os.environ["ABX_BUILD"] = str(Path(os.environ.get("ABX_BUILD", ROOT / "build" / "release")).resolve())
os.environ.setdefault("ABX_HELPERS", os.environ["ABX_BUILD"] + "/tests/e2e")

from door import Door  # noqa: E402
from harness import Abx  # noqa: E402
from providers import MANIFEST  # noqa: E402

MIB = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
TICK = os.sysconf("SC_CLK_TCK")
COPY = """filesystem: kit.e2b.overlay(new kit.FilesystemProtocol({ sandbox }), {
          async *read(id, params, call, base) { for await (const chunk of base.read(id, params)) yield new Uint8Array(chunk); } }),"""


def installed(service, name):
    home = Abx()
    folder = home.folder / name
    if name == "rest":
        folder.mkdir()
        (folder / "abx-provider.toml").write_text(MANIFEST.replace('"cloud"', '"rest"'), encoding="utf-8")
    else:
        shutil.copytree(ROOT / "providers" / "e2b", folder)
        manifest = folder / "abx-provider.toml"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace('id = "e2b"', f'id = "{name}"'), encoding="utf-8")
    if name == "copy":
        module = folder / "provider.mjs"
        module.write_text(module.read_text(encoding="utf-8").replace(
            "filesystem: new kit.FilesystemProtocol({ http, sandbox }),", COPY), encoding="utf-8")
    home.ok("provider", "install", folder, "--yes")
    home.env.update(CLOUD_URL=service.url, CLOUD_KEY=service.key, E2B_API_URL=service.url, E2B_SANDBOX_URL=service.url,
                    E2B_API_KEY=service.key, ABX_PROVIDER=name)
    return home


def processes(pid):
    out = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        out += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return out


def processor_seconds(pids):
    fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / TICK


def headers(box):
    return {"X-Access-Token": box.get("envdAccessToken") or "", "E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983",
            "Content-Type": "application/json", "Authorization": "Basic dXNlcjo="}


def calls(door, box, seconds=3):
    c, n, end = http.client.HTTPConnection("127.0.0.1", door.port), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        c.request("POST", "/filesystem.Filesystem/Stat", json.dumps({"path": "/etc/hostname"}), headers(box))
        answer = c.getresponse()
        answer.read()
        assert answer.status == 200
        n += 1
    return n, seconds


def download(door, box):
    c, begun, n, buffer = http.client.HTTPConnection("127.0.0.1", door.port), time.perf_counter(), 0, bytearray(1 << 20)
    c.request("GET", "/files?path=/home/user/big&username=user", headers=headers(box))
    answer = c.getresponse()
    while got := answer.readinto(buffer):
        n += got
    assert answer.status == 200 and n == MIB << 20
    return n, time.perf_counter() - begun


def main():
    backend = Abx(furnished=True)
    service = Door(backend, "--provider", "local")
    homes = {name: installed(service, name) for name in ("rest", "node", "copy")}
    doors = {name: Door(home, "--provider", name) for name, home in homes.items()}
    boxes = {name: door.create() for name, door in doors.items()}
    for name, home in homes.items():
        home.ok("exec", boxes[name]["sandboxID"], "--", "sh", "-c", f"head -c {MIB}M /dev/zero > /home/user/big", timeout=300)
    for what, run, unit, scale in (("calls", calls, "calls/s", 1), ("download", download, "MB/s", 1e-6)):
        best = dict.fromkeys(doors, 0)
        for _ in range(5):
            for name, door in doors.items():
                pids = processes(door.pid)
                before = processor_seconds(pids)
                n, took = run(door, boxes[name])
                used = (processor_seconds(pids) - before) / (n * scale)
                best[name] = max(best[name], n * scale / took)
                print(f"{what:9} {name:5} {n * scale / took:8.0f} {unit:8} {used * 1e6:6.0f} us of processor each")
        print(f"{what:9} best of node / rest: {best['node'] / best['rest']:.2f}, of copy / rest: {best['copy'] / best['rest']:.2f}")
    for pid in processes(doors["node"].pid)[1:]:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        print("memory of the module's process:", *[line for line in rollup.splitlines() if line.startswith(("Pss:", "Rss:"))])
    for name, door in doors.items():
        door("DELETE", "/sandboxes/" + boxes[name]["sandboxID"])
        door.stop()
    service.stop()
    for home in (*homes.values(), backend):
        home.close()


main()
