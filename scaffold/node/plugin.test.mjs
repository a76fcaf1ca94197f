// The plugin by itself: speaks EPP/1 to it as abx would.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const cwd = fileURLToPath(new URL(".", import.meta.url));
const child = spawn(process.execPath, ["plugin.mjs"], { cwd, stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((done) => child.once("exit", done));
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
let last = 0;

/** The answer of a request, and the notifications before it. */
async function call(method, params = {}) {
  const id = ++last;
  child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
  for (const seen = []; ; ) {
    const { value, done } = await lines.next();
    assert.ok(!done, "the plugin has ended");
    const message = JSON.parse(value);
    if (message.id === id) return { ...message, seen };
    seen.push(message);
  }
}

const hello = await call("initialize", { protocol: "epp/1", id: "@NAME@", options: {}, core: {}, secretKeys: [] });
assert.equal(hello.result.protocol, "epp/1");
const { id: sandboxId } = (await call("sandbox.create", { timeoutMs: 60000 })).result;
const echo = await call("process.start", { sandboxId, cmd: ["echo", "hi"] });
assert.deepEqual(echo.seen.map((m) => m.method), ["process.started", "process.output", "process.exit"]);
assert.equal(echo.seen[1].params.text, "hi\n");
assert.equal(echo.seen[2].params.exitCode, 0);
assert.ok((await call("sandbox.kill", { sandboxId })).result);
assert.equal((await call("process.start", { sandboxId, cmd: ["true"] })).error.data.code, "E3001");
assert.ok((await call("shutdown")).result);
child.stdin.end();
assert.equal(await ended, 0);
console.log("ok");
