"""The plugin by itself: speaks EPP/1 to it as abx would."""

import json
import subprocess
import sys
import unittest
from pathlib import Path


class Plugin:
    def __init__(self):
        self.child = subprocess.Popen([sys.executable, "plugin.py"], cwd=Path(__file__).resolve().parent,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0

    def call(self, method, **params):
        """The answer of a request, and the notifications before it."""
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.child.stdin.write(json.dumps(message).encode() + b"\n")
        self.child.stdin.flush()
        seen = []
        for line in self.child.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last:
                return answer, seen
            seen.append(answer)
        raise AssertionError("the plugin has ended")

    def close(self):
        self.call("shutdown")
        self.child.stdin.close()
        self.child.stdout.close()
        return self.child.wait(20)


class TestPlugin(unittest.TestCase):
    def test_a_sandbox_and_a_command(self):
        plugin = Plugin()
        hello, _ = plugin.call("initialize", protocol="epp/1", hostVersion="0", id="@NAME@", options={}, core={},
                               secretKeys=[], callTimeoutMs=60000)
        self.assertEqual(hello["result"]["protocol"], "epp/1")
        box = plugin.call("sandbox.create", timeoutMs=60000)[0]["result"]["id"]
        answer, seen = plugin.call("process.start", sandboxId=box, cmd=["echo", "hi"])
        self.assertIn("result", answer)
        self.assertEqual([m["method"] for m in seen], ["process.started", "process.output", "process.exit"])
        self.assertEqual(seen[1]["params"]["text"], "hi\n")
        self.assertEqual(seen[2]["params"]["exitCode"], 0)
        self.assertIn("result", plugin.call("sandbox.kill", sandboxId=box)[0])
        answer, _ = plugin.call("process.start", sandboxId=box, cmd=["echo", "hi"])
        self.assertEqual(answer["error"]["data"]["code"], "E3001")
        self.assertEqual(plugin.close(), 0)


if __name__ == "__main__":
    unittest.main()
