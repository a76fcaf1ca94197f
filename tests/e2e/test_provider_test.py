"""abx provider test: every case on local, what it prints, its filters and codes, and that it leaves nothing behind."""

import json
import signal
import subprocess
import time
import xml.etree.ElementTree as xml

from harness import ABX, HELPERS, Terminal, wait_for


def test_every_case_passes_on_local(abx, tmp_path):
    junit = tmp_path / "cases.xml"
    r = abx("provider", "test", "local", "--json", "--junit", junit, timeout=300)
    report = r.json
    bad = [(c["name"], c.get("why")) for c in report["cases"] if c["outcome"] != "passed"]
    assert r.code == 0 and not bad, bad
    assert report["provider"] == "local" and report["score"] == 100 and report["features"]["pty"] == "native"
    assert report["summary"] == {"passed": len(report["cases"]), "failed": 0, "notApplicable": 0}
    assert len(report["cases"]) >= 80
    suite = xml.parse(junit).getroot().find("testsuite")
    assert int(suite.get("tests")) == len(report["cases"]) and suite.get("failures") == "0"
    assert [c.get("name") for c in suite] == [c["name"] for c in report["cases"]]
    assert abx.sandboxes() == [] and abx.ledger() == []
    wait_for(lambda: not abx.left())


def test_filters_and_formats(shared):
    groups = {c["group"] for c in shared.ok("provider", "test", "local", "--dry-run", "--json").json["cases"]}
    assert {"lifecycle", "process", "files", "pty"} <= groups
    names = shared.ok("provider", "test", "local", "--dry-run", "-o", "name", "--only", "errors").text.split()
    assert names and all(n.startswith("errors.") for n in names)
    one = shared.ok("provider", "test", "local", "--case", names[0], "-o", "wide")
    assert names[0] in one.text and "1 passed, 0 failed, 0 not applicable; score 100%" in one.text
    assert "FEATURE" in one.text and one.err == b""
    quiet = shared.ok("provider", "test", "local", "--case", names[0], "-q").text.splitlines()
    assert len(quiet) == 1 and quiet[0].startswith("local: 1 passed")
    assert shared.ok("provider", "test", "local", "--case", names[0], "-o", "jsonl").lines[0]["outcome"] == "passed"


def test_what_cannot_be_tested_says_so(shared):
    assert shared("provider", "test", "nope", "--json", code=3).error["code"] == "E3004"
    assert shared("provider", "test", "alicloud-express", "--json", code=4).error["code"] == "E2001"
    r = shared("provider", "test", "local", "--only", "procces", code=2)
    assert "there is no group 'procces'" in r.errors and "did you mean 'process'" in r.errors
    r = shared("provider", "test", "local", "--case", "process.argv-exakt", code=2)
    assert "did you mean 'process.argv-exact'" in r.errors
    assert shared("provider", "test", code=2).out == b""


def test_failures_are_counted_and_told(abx, tmp_path):
    """Where no sandbox can be made, every case fails."""
    junit = tmp_path / "cases.xml"
    r = subprocess.run([HELPERS / "deny_userns", "filter", ABX, "provider", "test", "local", "--only", "pty", "--json",
                        "--junit", junit], env=abx.environment(), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    report = json.loads(r.stdout)
    assert r.returncode == 1 and report["score"] == 0
    assert report["summary"]["failed"] == len(report["cases"]) > 0 and report["summary"]["passed"] == 0
    assert all(c["outcome"] == "failed" and "no sandbox could be made" in c["why"] for c in report["cases"])
    one = report["cases"][0]
    assert one["exchange"].startswith("> sandbox.create {") and '< error {"code":"E7001"' in one["exchange"]
    assert one["rule"].startswith("docs/providers/epp.md, sandbox.create: ")
    failures = xml.parse(junit).getroot().findall(".//failure")
    assert len(failures) == len(report["cases"]) and failures[0].get("message")
    assert "> sandbox.create {" in failures[0].text


def test_interrupted_it_ends_its_sandboxes(abx, spawn):
    p = spawn(abx, "provider", "test", "local", "--only", "signals")
    wait_for(lambda: abx.sandboxes())
    time.sleep(0.1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 130, (out, err)
    assert b"interrupted" in err
    assert abx.sandboxes() == []


def test_its_time_can_be_limited(abx):
    r = abx("provider", "test", "local", "--only", "signals", "--wait-timeout", "50ms", "--json", code=9)
    assert r.error["code"] == "E5001"
    assert abx.sandboxes() == []


def test_a_terminal_sees_progress(abx):
    t = Terminal(abx, "provider", "test", "local", "--only", "errors")
    t.expect(" of ")
    t.expect("errors.")
    t.expect("score 100%")
    assert t.end() == 0
