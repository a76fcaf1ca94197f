// Sandboxes by the lifecycle server: made, found, prolonged, paused, kept as snapshots, ended.

import { Failure, unsupported } from "./errors.mjs";
import { limited, sleep } from "./client.mjs";
import { script } from "./shell.mjs";

const MINUTE = 60000;
const FAR = 30 * 24 * 60 * MINUTE; // expiry of a sandbox that is paused: its life stands still, which the server does not know
const ENDED = new Set(["Terminated", "Failed", "Stopping"]);
const LABEL = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const OURS = "abx-"; // what this provider keeps among a sandbox's labels
const KEY = "abx-key"; // a label of the host's, by which it finds what a killed create made: it goes as it is
const MIB = 1 << 20;
const OWN_PORTS = new Set([44772, 44771, 18080]); // of execd, of the kernels, of the egress sidecar

const path = (id) => `/sandboxes/${encodeURIComponent(id)}`;
const isUsers = (name) => name === KEY || !name.startsWith(OURS);
const hex = (text) => [...new TextEncoder().encode(text)].map((b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (text) => new TextDecoder().decode(new Uint8Array((text.match(/../g) ?? []).map((pair) => parseInt(pair, 16))));

/** A user's labels as the server takes them: those that are none for it, all together, as pieces of hexadecimal. */
export function packLabels(labels = {}) {
  const packed = {}, rest = {};
  for (const [name, value] of Object.entries(labels)) {
    const plain = LABEL.test(value) && LABEL.test(name) && name && isUsers(name);
    (plain ? packed : rest)[name] = value;
  }
  const text = Object.keys(rest).length ? hex(JSON.stringify(rest)) : "";
  for (let i = 0; i * 60 < text.length; i++) packed[`${OURS}labels-${i}`] = text.slice(i * 60, i * 60 + 60);
  return packed;
}

export function unpackLabels(packed = {}) {
  const labels = {};
  let text = "";
  for (let i = 0; packed[`${OURS}labels-${i}`] !== undefined; i++) text += packed[`${OURS}labels-${i}`];
  for (const [name, value] of Object.entries(packed)) if (isUsers(name)) labels[name] = value;
  try {
    return { ...labels, ...(text ? JSON.parse(unhex(text)) : {}) };
  } catch {
    return labels;
  }
}

/** The words of --network as the server's policy. */
export function policyOf(network) {
  if (network === "none") return { defaultAction: "deny", egress: [] };
  if (network === "internet") return { defaultAction: "allow", egress: [] };
  const targets = network.split(",").map((word) => word.replace(/^allow:/, "").trim());
  if (targets.some((t) => /:\d+$/.test(t))) throw unsupported("a network that is limited to ports");
  return { defaultAction: "deny", egress: targets.map((target) => ({ action: "allow", target })) };
}

export class Sandboxes {
  constructor(client, defaults) {
    Object.assign(this, { client, defaults });
  }

  now() {
    return Date.now() + this.client.skew;
  }

  said(box) {
    const paused = ["Paused", "Pausing"].includes(box.status?.state);
    return {
      id: box.id, name: box.metadata?.[`${OURS}name`], state: paused ? "paused" : "running", template: box.image?.uri,
      createdAt: box.createdAt, expiresAt: paused ? undefined : box.expiresAt, metadata: unpackLabels(box.metadata),
    };
  }

  async find(id) {
    const box = await this.client.look(id);
    if (!box || ENDED.has(box.status?.state)) throw new Failure("E3001", `no such sandbox: '${id}'`);
    return box;
  }

  async body(params) {
    const d = this.defaults, image = params.template ?? d.image;
    const body = { resourceLimits: { ...(d.resources ?? { cpu: "1", memory: "2Gi" }) }, env: params.env ?? {}, metadata: packLabels(params.metadata) };
    for (const name of ["image", "idleMs", "diskBytes", "processes", "openFiles"]) if (params[name]) throw unsupported(`'${name}'`);
    if (params.allowWeaker?.length) throw unsupported("'allowWeaker'");
    if (params.onTimeout === "pause") throw unsupported("a sandbox that is paused at the end of its time");
    if (params.snapshot !== undefined) {
      body.snapshotId = (await this.snapshot(params.snapshot)).id;
    } else {
      body.image = { uri: image, ...(d.imageUser ? { auth: { username: d.imageUser, password: d.imagePassword ?? "" } } : {}) };
      body.entrypoint = d.entrypoint ?? (/code-interpreter/.test(image) ? ["/opt/code-interpreter/code-interpreter.sh"] : ["tail", "-f", "/dev/null"]);
    }
    if (params.name) body.metadata[`${OURS}name`] = params.name;
    if (params.memoryBytes) body.resourceLimits.memory = `${Math.ceil(params.memoryBytes / MIB)}Mi`;
    if (params.cpus) body.resourceLimits.cpu = `${Math.ceil(params.cpus * 1000)}m`;
    if (params.network !== undefined && params.network !== "internet") {
      if (!d.egress) throw Object.assign(unsupported("a limited network"), { hint: "set the option 'egress' where the server has an egress image" });
      body.networkPolicy = policyOf(params.network);
    } else if (d.networkPolicy && params.network === undefined) {
      body.networkPolicy = d.networkPolicy;
    }
    if (d.volumes) body.volumes = d.volumes;
    if (d.extensions) body.extensions = d.extensions;
    if (d.platform) body.platform = { os: d.platform.split("/")[0], arch: d.platform.split("/")[1] };
    return body;
  }

  async create(params, signal) {
    const body = await this.body(params), life = params.timeoutMs ?? this.defaults.timeoutMs;
    if (life > 0) body.timeout = Math.max(60, Math.ceil(life / 1000));
    const mark = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 12)}0`;
    body.metadata[`${OURS}create`] = mark;
    let box;
    try {
      box = await this.client.json("POST", "/sandboxes", { body, what: "create", timeoutMs: this.client.timeoutMs * 10 });
    } catch (e) {
      if (e.code === "E6001" || e.code === "E5001") await this.clear(mark); // its answer was lost: it may be there nevertheless
      throw e;
    }
    try {
      signal.throwIfAborted();
      await this.ready(box, signal);
      if (life > 0 && life < MINUTE) box.expiresAt = (await this.renew(box.id, life)).expiresAt;
      return this.said({ ...box, image: body.image, status: { state: "Running" } });
    } catch (e) {
      await this.kill(box.id).catch(() => {});
      throw e;
    }
  }

  async clear(mark) {
    const found = await this.client.json("GET", `/sandboxes?metadata=${encodeURIComponent(`${OURS}create=${mark}`)}`).catch(() => ({}));
    for (const box of found.items ?? []) await this.kill(box.id).catch(() => {});
  }

  /** Waits until a sandbox is Running and its execd answers. */
  async ready(box, signal) {
    const limit = Date.now() + Math.max(30000, this.client.timeoutMs * 2);
    let state = box.status?.state, why = "";
    for (let wait = 25; ; wait = Math.min(wait * 1.5, 500)) {
      if (state === "Running" || state === "Allocated") {
        const answer = await this.ping(box.id, signal);
        if (answer === true) return;
        why = answer;
      }
      if (Date.now() > limit) throw new Failure("E5001", `sandbox '${box.id}' was not ready in time: ${why || `it is ${state}`}`);
      await sleep(wait, signal);
      const now = await this.client.look(box.id);
      if (!now) throw new Failure("E6004", `sandbox '${box.id}' has ended before it was ready`);
      state = now.status?.state;
      if (ENDED.has(state)) {
        const words = [now.status.reason, now.status.message].filter(Boolean).join(": ");
        throw new Failure("E6004", `sandbox '${box.id}' has ended before it was ready: ${words || state}`,
          { hint: "its entrypoint must run as long as the sandbox shall live: see the option 'entrypoint'" });
      }
    }
  }

  /** Does execd answer? true, or why not. */
  async ping(id, signal) {
    const limit = limited(5000, signal);
    try {
      const place = await this.client.address(id, 44772);
      const response = await fetch(`${place.url}/ping`, { headers: place.headers, redirect: "manual", signal: limit.signal });
      await response.arrayBuffer();
      if (response.status !== 200) return `execd answers ${response.status}`;
      this.client.endpoints.set(id, Promise.resolve(place));
      return true;
    } catch (e) {
      if (signal.aborted || e.code === "E3001" || e.code === "E2001") throw e;
      return String(e.cause?.message ?? e.message);
    } finally {
      limit.free();
    }
  }

  async info(id) {
    return this.said(await this.find(id));
  }

  async kill(id) {
    this.client.forget(id);
    const { status } = await this.client.server("DELETE", path(id), { what: "kill", allow: [404] });
    if (status === 404) throw new Failure("E3001", `no such sandbox: '${id}'`);
  }

  async list(labels) {
    const found = new Map();
    const plain = Object.entries(packLabels(labels)).filter(([name, value]) => value && isUsers(name));
    const filter = plain.map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
    const query = filter ? `&metadata=${encodeURIComponent(filter)}` : "";
    for (let page = 1, more = true; more; page++) {
      const said = await this.client.json("GET", `/sandboxes?page=${page}&pageSize=200${query}`, { what: "list" });
      for (const box of said.items ?? []) if (!ENDED.has(box.status?.state)) found.set(box.id, this.said(box));
      more = said.pagination?.hasNextPage === true;
    }
    return [...found.values()].filter((b) => Object.entries(labels ?? {}).every(([name, value]) => b.metadata[name] === value));
  }

  async connect(id, params, signal) {
    let box = await this.find(id);
    if (["Paused", "Pausing"].includes(box.status?.state)) return this.resume(box, params.timeoutMs, signal);
    await this.ready(box, signal);
    if (params.timeoutMs > 0 && box.expiresAt && Date.parse(box.expiresAt) < this.now() + params.timeoutMs)
      box = { ...box, ...(await this.renew(id, params.timeoutMs)) };
    return this.said(box);
  }

  async resume(box, life, signal) {
    const left = Number(box.metadata?.[`${OURS}left`] ?? 0);
    this.client.forget(box.id);
    await this.client.server("POST", `${path(box.id)}/resume`, { what: "resume", allow: [409] });
    await this.until(box.id, "Running", signal);
    if (box.expiresAt && (life || left)) await this.renew(box.id, life || left);
    if (left) await this.label(box.id, { [`${OURS}left`]: null });
    await this.ready({ id: box.id, status: { state: "Running" } }, signal);
    return this.info(box.id);
  }

  async until(id, state, signal) {
    for (let wait = 25; ; wait = Math.min(wait * 1.5, 1000)) {
      const box = await this.find(id);
      if (box.status?.state === state) return box;
      await sleep(wait, signal);
    }
  }

  async renew(id, life) {
    const body = { expiresAt: new Date(this.now() + life).toISOString() };
    try {
      return await this.client.json("POST", `${path(id)}/renew-expiration`, { body, what: "time limit" });
    } catch (e) {
      if (e.code !== "E4001") throw e;
      throw Object.assign(unsupported(`a time limit for a sandbox that was made without one ('${id}')`), { cause: e });
    }
  }

  async setTimeout(id, life) {
    await this.find(id);
    if (!life) throw unsupported("a life without limit for a sandbox that has one");
    return { expiresAt: (await this.renew(id, life)).expiresAt };
  }

  async label(id, labels) {
    await this.client.server("PATCH", `${path(id)}/metadata`, { body: labels, what: "labels", allow: [404, 405] });
  }

  /** The server's clock runs on in a pause; what was left of the life is kept as a label, and the expiry put off. */
  async pause(id, signal) {
    const box = await this.find(id);
    if (box.status?.state === "Paused") return { paused: false };
    this.client.forget(id);
    const left = box.expiresAt && Math.max(1000, Date.parse(box.expiresAt) - this.now());
    if (left) await this.label(id, { [`${OURS}left`]: String(Math.round(left)) });
    if (left) await this.renew(id, FAR);
    const { status } = await this.client.server("POST", `${path(id)}/pause`, { what: "pause", allow: [409, 500] });
    const now = status < 400 ? await this.until(id, "Paused", signal) : await this.find(id);
    if (now.status?.state === "Paused") return { paused: status < 400 };
    if (left) await this.renew(id, left);
    throw new Failure("E6002", `the server cannot pause sandbox '${id}' (${status})`);
  }

  async logs(id, params) {
    await this.find(id);
    const query = params.limit ? `?tail=${params.limit}` : "";
    const { text } = await this.client.server("GET", `${path(id)}/diagnostics/logs${query}`, { what: "logs" });
    const entries = text.split("\n").filter(Boolean).map((line) => {
      const [first, ...rest] = line.split(" "), time = Date.parse(first);
      return Number.isNaN(time) ? { message: line } : { timestamp: new Date(time).toISOString(), message: rest.join(" ") };
    });
    return { entries: params.since ? entries.filter((e) => Date.parse(e.timestamp) >= Date.parse(params.since)) : entries };
  }

  async metrics(id) {
    const m = await this.client.ask(id, "GET", "/metrics");
    return {
      timestamp: new Date(m.timestamp).toISOString(), cpuCount: Math.max(1, Math.round(m.cpu_count)), cpuUsedPct: Math.max(0, m.cpu_used_pct),
      memUsed: Math.max(1, Math.round(m.mem_used_mib * MIB)), memTotal: Math.round(m.mem_total_mib * MIB),
    };
  }

  // --- network and ports

  async setNetwork(id, network) {
    const policy = policyOf(network), place = await this.client.address(id, 18080);
    const headers = { ...place.headers, "Content-Type": "application/json" };
    const limit = limited(this.client.timeoutMs);
    const send = async (method, body) => {
      const response = await fetch(`${place.url}/policy`, { method, headers, body, signal: limit.signal });
      const text = await response.text();
      if (!response.ok) throw new Failure("E6002", `the network of '${id}' cannot be changed: ${text.slice(0, 200)}`);
      return text ? JSON.parse(text) : {};
    };
    const now = (await send("GET")).policy ?? {};
    if (now.defaultAction !== policy.defaultAction) throw unsupported("a change between limited and unlimited networks");
    const gone = (now.egress ?? []).map((rule) => rule.target).filter((t) => !policy.egress.some((rule) => rule.target === t));
    if (policy.egress.length) await send("PATCH", JSON.stringify(policy.egress));
    if (gone.length) await send("DELETE", JSON.stringify(gone));
    limit.free();
  }

  async host(id, port) {
    this.client.check(id, await this.client.look(id));
    return this.client.address(id, port);
  }

  async ports(id) {
    const { out } = await script(this.client, id, "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null");
    const ports = new Map();
    for (const line of out.split("\n")) {
      const [, address, number, state] = /^ *\d+: ([0-9A-F]+):([0-9A-F]{4}) \S+ ([0-9A-F]{2})/.exec(line) ?? [];
      if (state === "0A" && !OWN_PORTS.has(parseInt(number, 16))) ports.set(`${number}${address}`, { port: parseInt(number, 16), address: dotted(address) });
    }
    return { ports: [...ports.values()].sort((a, b) => a.port - b.port || (a.address < b.address ? -1 : 1)) };
  }

  // --- snapshots

  async snapshots() {
    const found = [];
    for (let page = 1, more = true; more; page++) {
      const said = await this.client.json("GET", `/snapshots?page=${page}&pageSize=200`, { what: "snapshots" });
      found.push(...(said.items ?? []));
      more = said.pagination?.hasNextPage === true;
    }
    return found.sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
  }

  async snapshot(word) {
    const one = (await this.snapshots()).find((s) => s.id === word || s.name === word);
    if (!one) throw new Failure("E3006", `no such snapshot: '${word}'`);
    return one;
  }

  async snapshotCreate(id, name, emit, signal) {
    if (name && (await this.snapshots()).some((s) => s.name === name)) throw new Failure("E4001", `there is a snapshot '${name}' already`);
    const made = await this.client.json("POST", `${path(id)}/snapshots`, { body: name ? { name } : {}, what: "snapshot" });
    emit("sandbox.event", { stream: emit.stream, kind: "started" });
    for (let wait = 50; ; wait = Math.min(wait * 1.5, 1000)) {
      const now = await this.client.json("GET", `/snapshots/${made.id}`, { what: "snapshot" });
      if (now.status?.state === "Ready") return snapshotOf(now);
      if (now.status?.state === "Failed") throw new Failure("E6002", `the snapshot failed: ${now.status.message ?? ""}`);
      await sleep(wait, signal);
    }
  }

  async snapshotRemove(word) {
    await this.client.server("DELETE", `/snapshots/${(await this.snapshot(word)).id}`, { what: "snapshot" });
  }

  async snapshotList() {
    return { snapshots: (await this.snapshots()).map(snapshotOf) };
  }
}

const snapshotOf = (s) => ({ id: s.id, name: s.name, sandboxId: s.sandboxId, createdAt: s.createdAt });

/** An address of /proc/net/tcp in the usual way. */
function dotted(text) {
  const groups = text.match(/.{8}/g).map((word) => word.match(/../g).reverse());
  if (groups.length === 1) return groups[0].map((b) => parseInt(b, 16)).join(".");
  const bytes = groups.flat();
  if (bytes.every((b) => b === "00")) return "::";
  if (bytes.slice(0, 15).every((b) => b === "00")) return `::${parseInt(bytes[15], 16)}`;
  return bytes.join("").match(/.{4}/g).map((g) => g.toLowerCase().replace(/^0{1,3}/, "")).join(":");
}

export function jsonOption(options, name, kind) {
  if (options[name] === undefined || options[name] === "") return undefined;
  let value;
  try {
    value = JSON.parse(options[name]);
  } catch {
    throw new Failure("E1003", `option '${name}' is no JSON`);
  }
  if (kind === "list" ? !Array.isArray(value) : typeof value !== "object" || value === null || Array.isArray(value))
    throw new Failure("E1003", `option '${name}' must be ${kind === "list" ? "a list" : "an object"}`);
  return value;
}

