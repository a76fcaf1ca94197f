// process.*: processes of this machine, in the folder of a sandbox.
//
// One that runs in the foreground hangs on a pipe of this program and ends with it. One in the background outlives it: a keeper
// (this program again, --keep) starts it, waits for it and writes down its end; its output goes to files. Each has
// jobs/pPID.json; its mark in the environment finds all that it started.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setImmediate as round } from "node:timers/promises";
import { accept, Box, killMarked, readJson, sleep, writeJson } from "./boxes.mjs";
import { bytesOf, Fault } from "./epp.mjs";

const CHUNK = 64 * 1024;
const running = new Map(); // id -> those in the foreground

// --- starting ---------------------------------------------------------------------------------------------

function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

/** What spawn needs: arguments, folder, environment with the mark; or E6006. */
function prepare(box, p) {
  const cmd = p.shell ? ["sh", "-c", p.cmd] : p.cmd;
  const cwd = path.resolve(box.home, p.cwd ?? "");
  const mark = randomBytes(8).toString("hex");
  const env = {
    PATH: process.env.PATH ?? "/usr/bin:/bin", HOME: box.home, USER: os.userInfo().username, LANG: process.env.LANG ?? "C.UTF-8",
    ...box.about.env, ...p.env, ABX_SANDBOX: box.id, ABX_JOB: mark,
  };
  if (!fs.statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) throw new Fault("E6006", `'${cwd}' is no folder`);
  const places = cmd[0].includes("/") ? [path.resolve(cwd, cmd[0])] : env.PATH.split(":").map((dir) => path.join(dir, cmd[0]));
  if (!places.some(isProgram)) throw new Fault("E6006", `'${cmd[0]}' cannot be run: there is no such program`);
  return { cmd, cwd, env, mark: `ABX_JOB=${mark}` };
}

/** A child in a session of its own, once it runs. */
async function start(plan, stdio) {
  const { cmd, cwd, env } = plan;
  const child = spawn(cmd[0], cmd.slice(1), { cwd, env, stdio, detached: true });
  child.ended = new Promise((done) => child.once("exit", (code, signal) => done({ code, signal })));
  // Who listens from the beginning loses nothing: what nobody has asked for is thrown away at the exit.
  for (const stream of [child.stdout, child.stderr]) stream?.on("readable", () => {});
  await new Promise((done, fail) => {
    child.once("spawn", done);
    child.once("error", (e) => fail(new Fault("E6006", `'${cmd[0]}' cannot be run: ${e.code}`)));
  });
  return child;
}

function note(box, pid, plan, background) {
  const job = {
    id: `p${pid}`, pid, cmd: plan.cmd, cwd: plan.cwd, startedAt: new Date().toISOString(), background, mark: plan.mark,
    keeper: process.pid,
  };
  writeJson(path.join(box.jobs, `${job.id}.json`), job);
  return job;
}

/** The result of a process. */
function endOf({ code, signal }, timedOut) {
  return { ...(signal ? { signal } : { exitCode: code }), ...(timedOut ? { timedOut } : {}) };
}

// --- foreground -------------------------------------------------------------------------------------------

/** Pass on what comes until the process has ended and nothing waits: what others still hold open does not delay it. */
async function pump(call, stream, channel, child) {
  let ended = false;
  let wake = () => {};
  child.ended.then(() => ((ended = true), wake()));
  for (const event of ["readable", "end", "close"]) stream.on(event, () => wake());
  for (let quiet = 0; quiet < 4; ) {
    const data = stream.read();
    if (data) {
      quiet = 0;
      await call.sendBytes("process.output", data, { channel });
    } else if (stream.readableEnded || stream.destroyed) {
      return;
    } else if (ended) {
      quiet++;
      await round();
    } else {
      await new Promise((done) => (wake = done));
    }
  }
}

async function startForeground(call, box, plan, p) {
  const streams = p.stdin === "stream" || p.input !== undefined;
  const child = await start(plan, [streams ? "pipe" : "ignore", "pipe", "pipe"]);
  const job = note(box, child.pid, plan, false);
  let timedOut = false;
  const kill = () => killMarked(plan.mark, child.exitCode === null && child.signalCode === null ? [child.pid] : []);
  const timer = p.timeoutMs ? setTimeout(() => ((timedOut = true), kill()), p.timeoutMs) : null;
  running.set(job.id, { box, job, child, kill });
  call.onCancel = kill;
  child.stdin?.on("error", () => {}); // it does not read to the end: that is its own matter
  if (p.input) child.stdin.end(bytesOf(p.input));
  try {
    if (call.cancelled) kill();
    await call.notify("process.started", { id: job.id, pid: job.pid });
    await Promise.all([pump(call, child.stdout, "stdout", child), pump(call, child.stderr, "stderr", child)]);
    const end = endOf(await child.ended, timedOut);
    if (!new Box(box.id).about) throw new Fault("E6004", `sandbox '${box.id}' was ended`);
    await call.notify("process.exit", end);
    return { id: job.id, pid: job.pid, ...end };
  } catch (e) {
    await kill();
    throw e;
  } finally {
    clearTimeout(timer);
    running.delete(job.id);
    for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
    fs.rmSync(path.join(box.jobs, `${job.id}.json`), { force: true });
  }
}

export function endAll() {
  for (const { child } of running.values()) process.kill(-child.pid, "SIGKILL");
}

async function startProcess(call) {
  const p = call.params;
  accept(p, "sandboxId", "cmd", "shell", "cwd", "env", "stdin", "input", "background", "timeoutMs");
  const box = await Box.of(p);
  const plan = prepare(box, p);
  return p.background ? startBackground(box, plan, p) : startForeground(call, box, plan, p);
}

// --- background -------------------------------------------------------------------------------------------

async function startBackground(box, plan, p) {
  const asked = JSON.stringify({ box: box.id, plan, timeoutMs: p.timeoutMs });
  const keeper = spawn(process.execPath, [process.argv[1], "--keep", asked], { stdio: ["ignore", "pipe", "ignore"], detached: true });
  let text = "";
  for await (const piece of keeper.stdout) {
    text += piece;
    if (text.endsWith("\n")) break;
  }
  keeper.unref();
  const answer = JSON.parse(text || '{"error": "its keeper failed"}');
  if (answer.error) throw new Fault("E6006", answer.error);
  return answer;
}

/** The keeper: says the pid on stdout, then waits until the process, its time limit or the sandbox ends. */
export async function keep({ box: id, plan, timeoutMs }) {
  const box = new Box(id);
  const files = ["out", "err"].map((name) => path.join(box.jobs, `${process.pid}.${name}`));
  let child;
  try {
    child = await start(plan, ["ignore", ...files.map((file) => fs.openSync(file, "w"))]);
  } catch (e) {
    fs.writeSync(1, JSON.stringify({ error: e.message }) + "\n");
    return;
  }
  for (const file of files) fs.renameSync(file, file.replace(`/${process.pid}.`, `/p${child.pid}.`));
  const job = note(box, child.pid, plan, true);
  fs.writeSync(1, JSON.stringify({ id: job.id, pid: job.pid }) + "\n");
  let timedOut = false;
  if (timeoutMs) setTimeout(() => ((timedOut = true), killMarked(plan.mark, [child.pid])), timeoutMs).unref();
  setInterval(() => new Box(id).lives(), 5000).unref(); // its life may be over, and nobody else may look
  const end = endOf(await child.ended, timedOut);
  if (new Box(id).about) writeJson(path.join(box.jobs, `${job.id}.exit`), end);
}

// --- looking ----------------------------------------------------------------------------------------------

function lives(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/stat`, "latin1").split(")").pop().trim()[0] !== "Z";
  } catch {
    return false;
  }
}

/** What is known of a process of this sandbox, with its end; null: it runs. */
function readJob(box, id) {
  const job = /^[a-z0-9]+$/.test(id) ? readJson(path.join(box.jobs, `${id}.json`)) : null;
  if (!job) throw new Fault("E3003", `there is no process '${id}'`);
  const alive = lives(job.pid) || lives(job.keeper); // asked before its end is looked for
  job.end = readJson(path.join(box.jobs, `${id}.exit`)) ?? (alive ? null : {});
  return job;
}

async function list({ params }) {
  const box = await Box.of(params);
  const processes = [];
  for (const name of fs.readdirSync(box.jobs).filter((name) => name.endsWith(".json"))) {
    try {
      const { mark, keeper, end, ...job } = readJob(box, name.replace(".json", ""));
      processes.push({ ...job, state: end ? "exited" : "running", ...end });
    } catch {
      // it has gone just now
    }
  }
  processes.sort((a, b) => a.startedAt.localeCompare(b.startedAt));
  return { processes };
}

function signalOf(word) {
  const names = os.constants.signals;
  const name = `SIG${word.toUpperCase().replace(/^SIG/, "")}`;
  const number = /^\d+$/.test(word) ? Number(word) : names[name];
  if (!Object.values(names).includes(number)) throw new Fault("E1001", `'${word}' is no signal`);
  return number;
}

async function signal({ params }) {
  const number = signalOf(params.signal);
  const job = readJob(await Box.of(params), params.processId);
  try {
    if (job.end) throw new Error("ended");
    process.kill(-job.pid, number);
  } catch {
    throw new Fault("E3003", `process '${job.id}' has ended`);
  }
  if (number === os.constants.signals.SIGKILL) await killMarked(job.mark);
}

async function attach(call) {
  const p = call.params;
  accept(p, "sandboxId", "processId", "fromOffset", "follow");
  const box = await Box.of(p);
  const job = readJob(box, p.processId);
  if (!job.background) throw new Fault("E4001", `process '${job.id}' runs in the foreground: its output is its caller's`);
  await call.notify("process.started", { id: job.id, pid: job.pid });
  const files = ["stdout", "stderr"].map((channel) => {
    const fd = fs.openSync(path.join(box.jobs, `${job.id}.${channel.slice(3)}`));
    return { channel, fd, at: p.fromOffset ? (p.fromOffset[channel] ?? 0) : fs.fstatSync(fd).size };
  });
  try {
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const { end } = readJob(box, job.id); // first: what it wrote before is there then
      for (const file of files) {
        for (let n; (n = fs.readSync(file.fd, buffer, 0, CHUNK, file.at)) > 0; file.at += n) {
          await call.sendBytes("process.output", buffer.subarray(0, n), { channel: file.channel });
        }
      }
      if (end) await call.notify("process.exit", end);
      if (end || p.follow === false) return { id: job.id, pid: job.pid, ...end };
      call.check();
      await sleep(20);
    }
  } finally {
    for (const { fd } of files) fs.closeSync(fd);
  }
}

// --- input ------------------------------------------------------------------------------------------------

async function findRunning({ params }) {
  const box = await Box.of(params);
  const it = running.get(params.processId);
  if (it?.box.id !== box.id || !it.child.stdin?.writable) {
    throw new Fault("E3003", `no '${params.processId}' runs here with an open input`);
  }
  return it;
}

async function stdin(call) {
  const { child } = await findRunning(call);
  for await (const piece of call.body()) {
    await new Promise((done, fail) => {
      child.stdin.write(piece, (e) => (e ? fail(new Fault("E3003", "it does not read its input any more")) : done()));
    });
  }
  if (call.params.close) child.stdin.end();
}

async function closeStdin(call) {
  (await findRunning(call)).child.stdin.end();
}

export const methods = {
  "process.start": startProcess,
  "process.attach": attach,
  "process.signal": signal,
  "process.list": list,
  "process.stdin": stdin,
  "process.close_stdin": closeStdin,
};
