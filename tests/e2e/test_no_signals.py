"""A provider whose processes take no signal: a command that is interrupted is left, and not waited for."""

import signal
import time

import pytest

pytestmark = pytest.mark.once

MANIFEST = """schema = 1
id = "deaf"
name = "Deaf"
version = "1.0.0"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["python3", "plugin.py"]
features = ["process"]
"""

PLUGIN = """import json, sys
for line in sys.stdin:
    m = json.loads(line)
    method, answer = m.get("method"), {}
    if method == "initialize":
        answer = {"protocol": "epp/1", "features": {"process": "native", "process.signal": "unsupported"}}
    elif method == "sandbox.create":
        answer = {"id": "sandbox00000000001", "state": "running"}
    elif method == "process.start":
        stream = m["id"]
        print(json.dumps({"jsonrpc": "2.0", "method": "process.started", "params": {"stream": stream, "id": "1"}}), flush=True)
        continue
    elif method == "cancel":
        continue
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": answer}), flush=True)
"""


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command(abx, spawn, tmp_path, sig):
    folder = tmp_path / "deaf"
    folder.mkdir()
    (folder / "abx-provider.toml").write_text(MANIFEST)
    (folder / "plugin.py").write_text(PLUGIN)
    p = spawn(abx, "-P", str(folder), "run", "--json", "--", "sleep", "1000")
    line = p.stdout.readline()
    assert b"started" in line, (line, p.stderr.read())
    time.sleep(0.05)
    p.send_signal(sig)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 128 + sig, (p.returncode, out, err)
