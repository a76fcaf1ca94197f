// The JavaScript kernel of a sandbox: runs cells with kept state in node's main context, by the mode that the engine
// has for consoles: names may be declared again, and await stands at the top level. What descriptor 3 speaks is told
// in python_channel.py. `load` is an import() that works, given by whoever evaluates this.
/* global load */
"use strict";
const fs = require("fs");
const inspector = require("inspector");
const { createRequire } = require("module");
const net = require("net");
const path = require("path");
const { Writable } = require("stream");
const { pathToFileURL } = require("url");
const util = require("util");
const vm = require("vm");

const CONTROL = 3;
const MAX_LINE = 24 * 1024 * 1024;
const state = { running: false, last: 0, count: 0, strip: false, interrupt: null, early: false };
const stderrOf = (text) => process.stderr.write(text);

// --- the control channel --------------------------------------------------------------------------------------------
function pause() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}

function writeAll(fd, bytes) {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += fs.writeSync(fd, bytes, at, bytes.length - at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      pause();
    }
  }
}

function send(word, body = Buffer.alloc(0)) {
  writeAll(CONTROL, Buffer.concat([Buffer.from(`${word} ${body.length}\n`), body]));
}

// The ack of what was just sent. The socket does not block: it is asked often at first, then each millisecond.
function waitForAck() {
  const byte = Buffer.alloc(1);
  for (let tries = 0; ; ) {
    try {
      if (fs.readSync(CONTROL, byte, 0, 1) === 0) process.exit(0);
      if (byte[0] === 10) return;
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      if (++tries > 200) pause();
    }
  }
}

function sync() {
  state.last = 0;
  if (!state.running) return;
  send("sync");
  waitForAck();
}

function sendLine(line) {
  if (!state.running) return;
  state.last = 0;
  send("line", Buffer.from(JSON.stringify(line).replace(/[\ud800-\udfff]/gu, "\ufffd")));
  waitForAck();
}

// --- standard streams -------------------------------------------------------------------------------------------------
class Out extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = fd;
    this._type = "pipe";
  }
  _write(chunk, encoding, done) {
    if (state.last !== 0 && state.last !== this.fd) sync();
    state.last = this.fd;
    writeAll(this.fd, chunk);
    done();
  }
  _destroy(error, done) {
    done();
  }
}

function putStream(name, fd) {
  const stream = new Out(fd);
  Object.defineProperty(process, name, { get: () => stream, configurable: true, enumerable: true });
}

// --- results --------------------------------------------------------------------------------------------------------------
const KEYS = {
  "text/plain": "text",
  "text/html": "html",
  "text/markdown": "markdown",
  "image/svg+xml": "svg",
  "image/png": "png",
  "image/jpeg": "jpeg",
  "application/pdf": "pdf",
  "text/latex": "latex",
  "application/json": "json",
  "application/javascript": "javascript",
};
const METHODS = {
  _toHtml: "text/html",
  _toMarkdown: "text/markdown",
  _toSvg: "image/svg+xml",
  _toPng: "image/png",
  _toJpeg: "image/jpeg",
};
const inspect = (value) => util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 100000 });

function bundleOf(value) {
  const bundle = {};
  const object = (typeof value === "object" || typeof value === "function") && value !== null;
  const custom = Symbol.for("Jupyter.display");
  try {
    if (object && typeof value[custom] === "function") Object.assign(bundle, value[custom]());
    if (object && typeof value._toMime === "function") Object.assign(bundle, value._toMime());
    for (const [name, mime] of Object.entries(METHODS))
      if (object && typeof value[name] === "function") bundle[mime] = value[name]();
  } catch (error) {
    stderrOf(stackOf(error) + "\n");
  }
  if (!("text/plain" in bundle)) bundle["text/plain"] = inspect(value);
  return bundle;
}

function textOf(mime, value) {
  if (value instanceof Uint8Array)
    return Buffer.from(value).toString(mime.startsWith("text/") || mime.endsWith("+xml") ? "utf8" : "base64");
  if (mime === "application/json") return typeof value === "string" ? JSON.parse(value) : value;
  return mime in KEYS ? String(value) : value;
}

function sendResult(bundle, main) {
  const line = { type: "result", extra: {}, is_main_result: main };
  for (const [mime, data] of Object.entries(bundle)) {
    if (data === undefined || data === null) continue;
    let value = textOf(mime, data);
    if (mime === "text/plain" && state.strip) value = value.replace(/^(['"])([^]*)\1$/, "$2");
    if (mime in KEYS) line[KEYS[mime]] = value;
    else line.extra[mime] = value;
  }
  for (const key of Object.keys(line)) {
    const size = (JSON.stringify(line[key]) || "").length;
    if (size <= MAX_LINE) continue;
    stderrOf(`abx: a result's '${key}' of ${size} bytes is too large to be shown\n`);
    delete line[key];
  }
  sendLine(line);
}

function display(...values) {
  for (const value of values) sendResult(bundleOf(value), false);
}
for (const [name, mime] of [
  ["html", "text/html"],
  ["markdown", "text/markdown"],
  ["svg", "image/svg+xml"],
  ["png", "image/png"],
  ["jpeg", "image/jpeg"],
  ["json", "application/json"],
  ["text", "text/plain"],
])
  display[name] = (value) => sendResult({ [mime]: value }, false);

// --- errors ---------------------------------------------------------------------------------------------------------------
const OURS = /abx-kernel\.js|node:inspector|evalmachine|node:internal\/process\/task_queues/;

function stackOf(error) {
  if (!util.types.isNativeError(error)) return "Uncaught " + inspect(error);
  const lines = String(error.stack || error).split("\n");
  const end = lines.findIndex((line) => /^\s+at /.test(line) && OURS.test(line));
  const stack = (end < 0 ? lines : lines.slice(0, end)).join("\n");
  const cause = error.cause === undefined ? "" : "\n[cause]: " + stackOf(error.cause);
  return stack + cause;
}

function sendError(error) {
  const native = util.types.isNativeError(error);
  const line = { type: "error", name: native ? String(error.name) : "Error" };
  line.value = native ? String(error.message) : inspect(error);
  line.traceback = stackOf(error) + "\n";
  sendLine(line);
}

function sendSyntaxError(details, code, name) {
  const text = (details.exception && details.exception.description) || details.text;
  const at = code.split("\n")[details.lineNumber] || "";
  const where = `${name}:${details.lineNumber + 1}\n${at}\n${" ".repeat(details.columnNumber)}^\n`;
  const value = text.split("\n")[0].replace(/^SyntaxError: /, "");
  sendLine({ type: "error", name: "SyntaxError", value, traceback: `${where}SyntaxError: ${value}\n` });
}

// --- import, where the engine's console has none -----------------------------------------------------------------------------
function importFrom(name) {
  const text = String(name);
  if (/^(\.{0,2}\/)/.test(text)) return load(pathToFileURL(path.resolve(text)).href);
  if (/^[a-z]+:/.test(text)) return load(text);
  try {
    const found = createRequire(path.join(process.cwd(), "cell.js")).resolve(text);
    if (path.isAbsolute(found)) return load(pathToFileURL(found).href);
  } catch (error) {
    if (error.code !== "ERR_PACKAGE_PATH_NOT_EXPORTED") return load(text);
  }
  return load(text);
}

const WORD = /[\p{ID_Continue}$\u200c\u200d]/u;
const BEFORE_REGEX = /(^|[([{,;=:?!&|+\-*%<>~^]|\b(return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield))$/;
const STATIC = /^import\s*(?:([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*)?(?:,\s*)?(?:\{([^}]*)\}\s*|\*\s*as\s+([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*)?(?:from\s*)?(['"])(.*?)\4(?:\s*(?:with|assert)\s*\{[^}]*\})?/u;

// The index behind a string, a comment or a pattern that begins at i, or i.
function skip(code, i, before) {
  const c = code[i];
  if (c === '"' || c === "'") {
    let k = i + 1;
    while (k < code.length && code[k] !== c && code[k] !== "\n") k += code[k] === "\\" ? 2 : 1;
    return k + 1;
  }
  if (c !== "/") return i;
  if (code[i + 1] === "/") {
    const end = code.indexOf("\n", i);
    return end < 0 ? code.length : end;
  }
  if (code[i + 1] === "*") {
    const end = code.indexOf("*/", i + 2);
    return end < 0 ? code.length : end + 2;
  }
  if (!BEFORE_REGEX.test(before)) return i;
  let set = false;
  for (let k = i + 1; k < code.length && code[k] !== "\n"; k++) {
    if (code[k] === "\\") k++;
    else if (code[k] === "[") set = true;
    else if (code[k] === "]") set = false;
    else if (code[k] === "/" && !set) return k + 1;
  }
  return i;
}

function staticImport(code, i) {
  const found = STATIC.exec(code.slice(i));
  if (!found) return null;
  const [all, only, names, space, quote, from] = found;
  const load = `await __abx_import(${quote}${from}${quote})`;
  const parts = [];
  if (only) parts.push(`default: ${only}`);
  if (names) parts.push(names.replace(/\s+as\s+/g, ": "));
  let text = load;
  if (space) text = `const ${space} = ${load}${only ? `, { default: ${only} } = ${space}` : ""}`;
  else if (parts.length > 0) text = `const { ${parts.join(", ")} } = ${load}`;
  const lines = all.split("\n").length - 1;
  return { length: all.length, text: text.replace(/\n/g, " ") + "\n".repeat(lines) };
}

// Code with its imports, in both forms, as calls of ours. Strings, comments and patterns stay as they are.
function withImports(code) {
  if (!/\bimport\b/.test(code)) return code;
  let out = "";
  const open = []; // brackets; "`" for a template
  for (let i = 0; i < code.length; ) {
    const c = code[i];
    if (open[open.length - 1] === "`") {
      if (c === "`") open.pop();
      if (c === "$" && code[i + 1] === "{") {
        open.push("${");
        out += c + code[++i];
        i++;
        continue;
      }
      const width = c === "\\" ? 2 : 1;
      out += code.slice(i, i + width);
      i += width;
      continue;
    }
    const before = out.slice(-40).trimEnd();
    const end = skip(code, i, before);
    if (end > i) {
      out += code.slice(i, end);
      i = end;
      continue;
    }
    if (c === "`" || c === "(" || c === "[" || c === "{") open.push(c);
    else if (c === ")" || c === "]" || c === "}") open.pop();
    if (!WORD.test(c)) {
      out += c;
      i++;
      continue;
    }
    let k = i;
    while (k < code.length && WORD.test(code[k])) k++;
    const word = code.slice(i, k);
    const dot = before.endsWith(".") && !before.endsWith("...");
    const change = word === "import" && !dot && open.length === 0 ? staticImport(code, i) : null;
    if (change) {
      out += change.text;
      i += change.length;
    } else {
      out += word === "import" && !dot && /^\s*\(/.test(code.slice(k)) ? "__abx_import" : word;
      i = k;
    }
  }
  return out;
}

// --- running ----------------------------------------------------------------------------------------------------------------
const session = new inspector.Session();
let taken;

function evaluate(code, name) {
  return new Promise((resolve) => {
    const request = {
      expression: `${code}\n//# sourceURL=${name.replace(/ /g, "-")}`,
      replMode: true,
      objectGroup: "abx",
    };
    state.interrupt = () => resolve({ interrupted: true });
    begin = () => session.post("Runtime.evaluate", request, (error, answer) => resolve({ error, answer }));
    try {
      start.runInThisContext({ breakOnSigint: true });
    } catch (error) {
      resolve({ interrupted: error.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED", error });
    }
  });
}
let begin;
const start = new vm.Script("globalThis[Symbol.for('abx.begin')]()", { filename: "abx-kernel.js" });

// The value itself of what the engine only describes.
function valueOf(remote) {
  if (remote.objectId === undefined) return remote.value;
  taken = undefined;
  session.post("Runtime.callFunctionOn", {
    objectId: remote.objectId,
    functionDeclaration: "function () { 'use strict'; globalThis[Symbol.for('abx.take')](this); }",
  });
  return taken;
}

function report(outcome, code, name) {
  if (outcome.interrupted) {
    sendLine({ type: "error", name: "Interrupted", value: "the code was interrupted", traceback: "" });
    return;
  }
  if (outcome.error) throw outcome.error;
  const { result, exceptionDetails } = outcome.answer;
  if (exceptionDetails) {
    const thrown = exceptionDetails.exception;
    const early = thrown && thrown.className === "SyntaxError" && !exceptionDetails.stackTrace;
    if (early) sendSyntaxError(exceptionDetails, code, name);
    else sendError(thrown ? valueOf(thrown) : new Error(exceptionDetails.text));
    return;
  }
  if (result.type === "undefined") return;
  if (result.unserializableValue !== undefined) sendResult({ "text/plain": result.unserializableValue }, true);
  else sendResult(bundleOf(valueOf(result)), true);
}

async function run(body, env, strip) {
  const name = `cell ${++state.count}`;
  const code = body.toString("utf8");
  const old = new Map();
  for (const [key, value] of env) {
    if (!old.has(key)) old.set(key, process.env[key]);
    process.env[key] = value;
  }
  state.strip = strip;
  state.last = 0;
  state.running = true;
  state.early = false;
  try {
    sendLine({ type: "number_of_executions", execution_count: state.count });
    // An interrupt may come from that line on; one that is here already is noticed by the loop alone.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    report(state.early ? { interrupted: true } : await evaluate(withImports(code), name), code, name);
    session.post("Runtime.releaseObjectGroup", { objectGroup: "abx" });
  } catch (error) {
    sendError(error);
  }
  for (const [key, value] of old) {
    if (value === undefined) delete process.env[key];
    else process.env[key] = value;
  }
  state.interrupt = null;
  state.running = false;
  send("done");
}

// --- the start ----------------------------------------------------------------------------------------------------------------
function hidden(name, value) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true, enumerable: false });
}

function listen() {
  const socket = new net.Socket({ fd: CONTROL, readable: true, writable: true });
  let waiting = Buffer.alloc(0);
  let env = [];
  socket.on("error", () => process.exit(0));
  socket.on("close", () => process.exit(0));
  socket.on("data", (bytes) => {
    waiting = waiting.length > 0 ? Buffer.concat([waiting, bytes]) : bytes;
    for (;;) {
      const head = waiting.indexOf(10);
      if (head < 0) return;
      const [word, length] = waiting.toString("latin1", 0, head).split(" ");
      if (waiting.length < head + 1 + Number(length)) return;
      const body = waiting.subarray(head + 1, head + 1 + Number(length));
      waiting = waiting.subarray(head + 1 + Number(length));
      if (word === "__abx_env") {
        const text = body.toString("utf8");
        const at = text.indexOf("=");
        env.push([text.slice(0, at), text.slice(at + 1)]);
      } else if (word === "__abx_run" || word === "__abx_run_e2b") {
        run(body, env, word === "__abx_run_e2b");
        env = [];
      }
    }
  });
}

putStream("stdout", 1);
putStream("stderr", 2);
process.on("SIGINT", () => {
  if (state.interrupt) state.interrupt();
  else state.early = state.running;
});
process.on("uncaughtException", (error) => stderrOf(stackOf(error) + "\n"));
process.on("unhandledRejection", (error) => stderrOf(stackOf(error) + "\n"));
process.argv.splice(1);
process.execArgv.length = 0;
const local = createRequire(path.join(process.cwd(), "cell.js"));
hidden("require", local);
hidden("module", { exports: {} });
hidden("exports", globalThis.module.exports);
hidden("display", display);
hidden("__abx_import", importFrom);
hidden(Symbol.for("abx.begin"), () => begin());
hidden(Symbol.for("abx.take"), (value) => (taken = value));
session.connect();
listen();
send("ready");
