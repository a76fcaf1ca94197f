// Code with kept state: execd's contexts. A run ends where its stream ends, not at "complete", which comes too early at times.

import { Failure, cancelled, errorOf, unsupported, usage } from "./errors.mjs";
import { eventsOf } from "./events.mjs";
import { script } from "./shell.mjs";
import { limited, sleep } from "./client.mjs";

const LANGUAGES = ["python", "javascript", "typescript", "bash", "java", "go"];
const MIME = { "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
  "application/pdf": "pdf", "text/latex": "latex", "application/json": "json", "application/javascript": "javascript" };
const SETTLING = 200; // milliseconds after an error in which a kernel throws away what comes, and execd never tells of it
const noted = (context) => `/tmp/.abx-context-${context}`; // the name of the context that took its place

export class Code {
  constructor(client, files, timeoutMs) {
    Object.assign(this, { client, files, timeoutMs, queues: new Map(), shared: new Map(), renewed: new Map(), cwds: new Map(), runs: new Set(), failed: new Map() });
  }

  language(word = "python") {
    const language = { js: "javascript", sh: "bash", py: "python", ts: "typescript" }[word] ?? word;
    if (!LANGUAGES.includes(language)) throw usage(`no such language: '${word}'`, `known are ${LANGUAGES.join(", ")}`);
    return language;
  }

  /** Waits for what hangs where there is no kernel; then the language counts as missing. */
  async patiently(language, signal, work) {
    const limit = limited(this.timeoutMs, signal);
    try {
      return await work(limit.signal);
    } catch (e) {
      if (signal.aborted) throw signal.reason;
      if (!limit.signal.aborted) throw e;
      throw Object.assign(unsupported(`'${language}' in this image`), { hint: "code needs an image with kernels, such as opensandbox/code-interpreter" });
    } finally {
      limit.free();
    }
  }

  failure(status, text, language) {
    const { message } = errorOf(text);
    if (/not configured/.test(message)) return Object.assign(unsupported(`code in this image (${message.replace(/^error running codes /, "")})`), {
      hint: "make the sandbox from opensandbox/code-interpreter" });
    if (/unknown language/.test(message)) return unsupported(`'${language}'`);
    if (status === 404 || /context not found|context .* not found/.test(message)) return new Failure("E3007", "no such context");
    return new Failure("E6002", `execd answered ${status}: ${message}`);
  }

  /** A context by its id → {id, language}; one that was made fresh has another id inside. */
  async find(id, contextId) {
    let inner = this.renewed.get(contextId) ?? contextId;
    for (let turn = 0; turn < 20; turn++) {
      const response = await this.client.execd(id, "GET", `/code/contexts/${encodeURIComponent(inner)}`);
      const text = await response.text();
      if (response.ok) return { ...JSON.parse(text), id: inner };
      if (response.status !== 404 || !/^[-\w]+$/.test(inner)) break;
      const { out } = await script(this.client, id, `cat ${noted(inner)} 2>/dev/null`);
      if (!out.trim()) break;
      inner = out.trim();
    }
    throw new Failure("E3007", `no such context: '${contextId}'`);
  }

  async create(id, params, signal) {
    const language = this.language(params.language);
    await this.probe(id, language, signal);
    const json = { language, cwd: params.cwd };
    const made = await this.patiently(language, signal, (limit) => this.client.ask(id, "POST", "/code/context", { json, signal: limit, again: false },
      (status, text) => this.failure(status, text, language)));
    await this.furnish(id, made, params, signal);
    if (params.cwd) this.cwds.set(made.id, params.cwd);
    return { id: made.id, language, cwd: params.cwd };
  }

  /** Is there a server of kernels at all? Told at once by a run in a context that nobody has; making one would hang. */
  async probe(id, language, signal) {
    const json = { code: "1", context: { language, id: "none" } };
    const response = await this.client.execd(id, "POST", "/code", { json, signal });
    const text = await response.text();
    if (!response.ok && /not configured|unknown language/.test(text)) throw this.failure(response.status, text, language);
  }

  /** Folder and environment of a context: said in its own language, since execd cannot always. */
  async furnish(id, context, { cwd, env = {} }, signal) {
    const q = JSON.stringify, lines = [];
    if (context.language === "python") {
      if (cwd) lines.push(`__import__("os").chdir(${q(cwd)})`);
      for (const [k, v] of Object.entries(env)) lines.push(`__import__("os").environ[${q(k)}] = ${q(v)}`);
      lines.push("None");
    } else if (context.language === "bash") {
      const quote = (w) => `'${w.replaceAll("'", "'\\''")}'`;
      if (cwd) lines.push(`cd ${quote(cwd)}`);
      for (const [k, v] of Object.entries(env)) lines.push(`export ${k}=${quote(v)}`);
    } else if (/script$/.test(context.language)) {
      if (cwd) lines.push(`process.chdir(${q(cwd)})`);
      for (const [k, v] of Object.entries(env)) lines.push(`process.env[${q(k)}] = ${q(v)}`);
    } else if (Object.keys(env).length) {
      throw unsupported(`'env' with ${context.language}`);
    }
    if (!cwd && !Object.keys(env).length) return;
    const response = await this.client.execd(id, "POST", "/code", { json: { code: lines.join("\n"), context }, signal });
    for await (const event of eventsOf(response))
      if (event.type === "error") throw new Failure("E6005", `the context cannot be set up: ${event.error?.evalue ?? ""}`);
  }

  async list(id) {
    const all = await this.client.ask(id, "GET", "/code/contexts");
    const names = new Map([...this.renewed].map(([name, inner]) => [inner, name]));
    return { contexts: all.map((c) => ({ id: names.get(c.id) ?? c.id, language: c.language, cwd: c.cwd ?? this.cwds.get(c.id) })) };
  }

  async remove(id, { contextId }) {
    const context = LANGUAGES.includes(contextId) ? await this.sharedOf(id, contextId) : await this.find(id, contextId);
    await this.client.ask(id, "DELETE", `/code/contexts/${context.id}`, { again: false }, (status, text) => this.failure(status, text));
    this.renewed.delete(contextId);
    this.shared.delete(`${id} ${contextId}`);
  }

  async restart(id, { contextId }, signal) {
    if (LANGUAGES.includes(contextId)) return this.remove(id, { contextId });
    const old = await this.find(id, contextId), cwd = old.cwd ?? this.cwds.get(old.id);
    await this.client.ask(id, "DELETE", `/code/contexts/${old.id}`, { again: false }, (status, text) => this.failure(status, text));
    const made = await this.create(id, { language: old.language, cwd }, signal);
    this.renewed.set(contextId, made.id);
    await this.files.put(id, noted(old.id), new TextEncoder().encode(made.id));
  }

  /** The context that all runs of a language share, as far as it is known. */
  async sharedOf(id, language) {
    const known = this.shared.get(`${id} ${language}`);
    if (known) return { id: known, language };
    const all = await this.client.ask(id, "GET", `/code/contexts?language=${language}`);
    if (all.length !== 1) throw new Failure("E3007", `which context of ${language} is meant is not known`);
    return all[0];
  }

  async interrupt(id, { contextId }) {
    const context = LANGUAGES.includes(contextId) ? await this.sharedOf(id, contextId) : await this.find(id, contextId);
    const busy = this.queues.has(`${id} ${context.id}`) || this.queues.has(`${id} ${contextId}`);
    for (const run of this.runs) if (run.id === id && run.inner === context.id) run.interrupted = true;
    await this.stop(id, context.id);
    return { interrupted: busy };
  }

  async stop(id, inner) {
    const response = await this.client.execd(id, "DELETE", `/code?id=${encodeURIComponent(inner)}`, { again: false });
    await response.text();
  }

  async run(id, params, emit, signal) {
    if (params.env && Object.keys(params.env).length) throw unsupported("'env' for one run of code");
    if (params.code === "") params = { ...params, code: " " };
    const context = params.contextId === undefined ? { language: this.language(params.language) } : await this.find(id, params.contextId);
    const key = `${id} ${params.contextId ?? context.language}`;
    const before = this.queues.get(key) ?? Promise.resolve();
    const mine = before.then(() => this.alone(id, context, params, emit, signal));
    const settled = mine.catch(() => {});
    this.queues.set(key, settled);
    try {
      return await mine;
    } catch (e) {
      throw signal.aborted ? cancelled() : e;
    } finally {
      if (this.queues.get(key) === settled) this.queues.delete(key);
    }
  }

  /** Opens the stream; a context that is busy for somebody else is waited for. */
  async opened(id, context, code, signal) {
    const json = { code, context: { id: context.id, language: context.language } };
    const response = await this.patiently(context.language, signal, (limit) => this.client.execd(id, "POST", "/code", { json, signal: limit, again: false }));
    if (!response.ok) throw this.failure(response.status, await response.text(), context.language);
    return response;
  }

  async alone(id, context, params, emit, signal) {
    signal.throwIfAborted();
    const run = { id, context, inner: context.id, emit, params, ended: false, timedOut: false, stateLost: false, stop: new AbortController() };
    const abort = () => {
      run.stop.abort(signal.reason);
      this.give(run, 0);
    };
    signal.addEventListener("abort", abort, { once: true });
    this.runs.add(run);
    const timer = params.timeoutMs > 0 ? setTimeout(() => ((run.timedOut = true), this.give(run, 5000)), params.timeoutMs) : null;
    try {
      await sleep(Math.max(0, (this.failed.get(run.inner ?? context.language) ?? 0) + SETTLING - Date.now()), signal);
      for (let wait = 50; ; wait = Math.min(wait * 2, 1000)) {
        const response = await this.opened(id, context, params.code, run.stop.signal);
        if (await this.taken(run, response)) break;
        await sleep(wait, signal);
      }
    } catch (e) {
      if (!run.stateLost) throw e;
    } finally {
      run.ended = true;
      this.runs.delete(run);
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
    return { contextId: params.contextId ?? run.inner, language: context.language, executionCount: run.count,
      ...(run.timedOut ? { timedOut: true } : {}), ...(run.stateLost ? { stateLost: true } : {}) };
  }

  settle(run) {
    for (const name of [run.inner, ...(run.params.contextId === undefined ? [run.context.language] : [])]) {
      const now = Date.now();
      this.failed.set(`${name}`, now);
      setTimeout(() => this.failed.get(`${name}`) === now && this.failed.delete(`${name}`), SETTLING).unref?.();
    }
  }

  /** Interrupts a run; one that does not end then loses its kernel. */
  async give(run, patience) {
    if (!run.inner || run.ended) return;
    await this.stop(run.id, run.inner).catch(() => {});
    if (!patience) return;
    await sleep(patience);
    if (run.ended) return;
    run.stateLost = true;
    await this.client.ask(run.id, "DELETE", `/code/contexts/${run.inner}`, { again: false }).catch(() => {});
    run.stop.abort();
  }

  /** All events of a run. False: the context was busy, nothing was run. */
  async taken(run, response) {
    let end = false;
    const say = (kind, members) => run.emit("code.event", { stream: run.emit.stream, kind, ...members });
    try {
      for await (const event of eventsOf(response)) {
        if (event.type === "init") {
          run.inner = event.text;
          this.shared.set(`${run.id} ${run.context.language}`, event.text);
          if (!run.started) say("started", {});
          run.started = true;
        } else if (event.type === "stdout" || event.type === "stderr") {
          await say(event.type, { bytes: new TextEncoder().encode(event.text ?? "") });
        } else if (event.type === "execution_count") {
          run.count = event.execution_count;
        } else if (event.type === "result") {
          say("result", { isMainResult: true, ...resultOf(event.results ?? {}) });
        } else if (event.type === "error") {
          end = run.told = true;
          say("error", errorEvent(event.error ?? {}));
        } else if (event.type === "execution_complete") {
          end = true;
        }
      }
    } catch (e) {
      if (e.bare && /busy/.test(e.message)) return false;
      if (e.bare || e.code) throw e;
      await this.client.gone(run.id);
      throw new Failure("E6001", "the connection to the sandbox broke; what the code does is not known", { cause: e });
    }
    // A kernel of bash tells no interrupt, and an end can be lost where one was asked for.
    if (run.interrupted && !run.told && (!end || run.context.language === "bash")) {
      end = run.told = true;
      say("error", run.context.language === "python" ? errorEvent({ ename: "KeyboardInterrupt" })
        : errorEvent({ ename: "Interrupted", evalue: "the code was interrupted" }));
    }
    if (run.told) this.settle(run);
    if (!end) throw new Failure("E6003", "the run ended without a word how");
    return true;
  }
}

function resultOf(mime) {
  const result = {}, extra = {};
  for (const [kind, value] of Object.entries(mime)) {
    if (kind === "text" || kind === "text/plain") result.text = String(value);
    else if (MIME[kind]) result[MIME[kind]] = value;
    else extra[kind] = value;
  }
  return { ...result, ...(Object.keys(extra).length ? { extra } : {}) };
}

function errorEvent({ ename = "", evalue = "", traceback }) {
  const chosen = (ename === "" || ename === "SystemExit") && /^\d+$/.test(evalue);
  return { name: ename, value: chosen && !ename ? `exit status ${evalue}` : evalue, traceback: (traceback ?? []).join("\n"),
    ...(chosen ? { exitCode: Number(evalue) } : {}) };
}
