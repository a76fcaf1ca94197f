// sandbox.*: a sandbox is a folder of this machine, known by what lies in it, so that any run of this program finds it.

import { randomBytes } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { Fault } from "./epp.mjs";

const ROOT = path.join(os.tmpdir(), `abx-@NAME@-${process.getuid()}`);
const DEFAULT_LIFE_MS = 3600 * 1000;

/** A parameter that cannot be honoured is an error, never ignored. */
export function accept(params, ...known) {
  for (const name of Object.keys(params)) {
    if (!known.includes(name)) throw new Fault("E8004", `this provider has no '${name}' here`);
  }
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export function readJson(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch {
    return null;
  }
}

/** All of it is there or nothing, whoever looks. */
export function writeJson(file, value) {
  fs.writeFileSync(`${file}.${process.pid}.new`, JSON.stringify(value));
  fs.renameSync(`${file}.${process.pid}.new`, file);
}

/** KILL to the groups of these processes, then to all that have this mark in their environment, until there is none. */
export async function killMarked(mark, pids = []) {
  for (const pid of pids) tryKill(-pid);
  for (let quiet = 0; quiet < 2; quiet++) {
    // twice: one that is just becoming another program shows no environment
    for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        if (fs.readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(mark) && tryKill(Number(pid))) quiet = -1;
      } catch {
        // it has gone, or is not ours
      }
    }
    await sleep(5);
  }
}

function tryKill(pid) {
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    return false;
  }
}

/** A sandbox: ROOT/ID holds box.json (what is known of it), home (what is in it) and jobs (its processes). */
export class Box {
  constructor(id) {
    this.id = id;
    this.folder = path.join(ROOT, id);
    this.home = path.join(this.folder, "home");
    this.jobs = path.join(this.folder, "jobs");
    this.about = readJson(path.join(this.folder, "box.json"));
  }

  /** The living sandbox that a call names. */
  static async of(params) {
    const box = /^[a-z0-9]+$/.test(params.sandboxId) ? new Box(params.sandboxId) : null;
    if (!(await box?.lives())) throw new Fault("E3001", `there is no sandbox '${params.sandboxId}'`);
    return box;
  }

  /** One whose life is over is removed by whoever looks at it. */
  async lives() {
    if (this.about?.expires && this.about.expires < Date.now()) await this.remove();
    return this.about !== null;
  }

  save() {
    writeJson(path.join(this.folder, "box.json"), this.about);
  }

  /** First it is not there any more, then what runs in it is ended, then its files go. */
  async remove() {
    this.about = null;
    const gone = path.join(ROOT, `.gone-${this.id}`);
    try {
      fs.renameSync(this.folder, gone);
    } catch {
      return; // another was faster
    }
    const jobs = fs.readdirSync(path.join(gone, "jobs")).filter((name) => name.endsWith(".json"));
    const living = jobs.filter((name) => !fs.existsSync(path.join(gone, "jobs", name.replace(".json", ".exit"))));
    await killMarked(`ABX_SANDBOX=${this.id}`, living.map((name) => readJson(path.join(gone, "jobs", name))?.pid).filter(Boolean));
    fs.rmSync(gone, { recursive: true, force: true, maxRetries: 3 });
  }

  setLife(ms) {
    this.about.expires = ms ? Date.now() + ms : 0;
    this.save();
  }

  describe() {
    const { name, created, expires, metadata } = this.about;
    return {
      id: this.id, name, state: "running", createdAt: new Date(created).toISOString(), metadata,
      expiresAt: expires ? new Date(expires).toISOString() : undefined,
    };
  }
}

async function create({ params }) {
  accept(params, "id", "name", "metadata", "env", "timeoutMs", "idempotencyKey");
  const box = new Box(params.id ?? randomBytes(8).toString("hex"));
  fs.mkdirSync(box.home, { recursive: true, mode: 0o700 });
  fs.mkdirSync(box.jobs);
  box.about = { created: Date.now(), name: params.name, metadata: params.metadata ?? {}, env: params.env ?? {} };
  box.setLife(params.timeoutMs ?? DEFAULT_LIFE_MS);
  return box.describe();
}

async function kill({ params }) {
  await (await Box.of(params)).remove();
}

/** Renews the life of a sandbox, never shortens it. */
async function connect({ params }) {
  const box = await Box.of(params);
  const { expires } = box.about;
  const ms = params.timeoutMs;
  if (ms !== undefined && expires && (ms === 0 || Date.now() + ms > expires)) box.setLife(ms);
  return box.describe();
}

async function list({ params }) {
  const wanted = Object.entries(params.metadata ?? {});
  const names = fs.existsSync(ROOT) ? fs.readdirSync(ROOT).filter((name) => /^[a-z0-9]+$/.test(name)) : [];
  const sandboxes = [];
  for (const box of names.map((name) => new Box(name))) {
    if (!(await box.lives())) continue;
    if (wanted.every(([key, value]) => box.about.metadata[key] === value)) sandboxes.push(box.describe());
  }
  return { sandboxes };
}

async function setTimeoutOf({ params }) {
  const box = await Box.of(params);
  box.setLife(params.timeoutMs);
  return { expiresAt: box.describe().expiresAt };
}

export const methods = {
  "sandbox.create": create,
  "sandbox.info": async ({ params }) => (await Box.of(params)).describe(),
  "sandbox.kill": kill,
  "sandbox.connect": connect,
  "sandbox.list": list,
  "sandbox.set_timeout": setTimeoutOf,
};
