// Requests to the lifecycle server, and to execd in each sandbox by the address that the server tells.

import { Failure, errorOf, serverFailure } from "./errors.mjs";

const AGAIN = new Set([429, 502, 503, 504]);
const TRIES = 4;

export const sleep = (ms, signal) => new Promise((resolve, reject) => {
  if (signal?.aborted) return reject(signal.reason);
  const stop = () => (clearTimeout(timer), reject(signal.reason));
  const timer = setTimeout(() => (signal?.removeEventListener("abort", stop), resolve()), ms);
  signal?.addEventListener("abort", stop, { once: true });
});

/** A signal that ends with another one and after a time; free() gives both back. */
export function limited(ms, signal) {
  const stop = new AbortController();
  const end = () => stop.abort(signal.reason);
  const timer = setTimeout(() => stop.abort(new DOMException("no answer in time", "TimeoutError")), ms);
  if (signal?.aborted) end();
  signal?.addEventListener("abort", end, { once: true });
  return { signal: stop.signal, free: () => (clearTimeout(timer), signal?.removeEventListener("abort", end)) };
}

/** Why a fetch did not work, in words. */
function words(e) {
  const causes = [];
  for (let one = e; one && causes.length < 4; one = one.cause ?? one.errors?.[0]) causes.push(one.code ?? one.message);
  return causes.filter((w) => w && w !== "fetch failed").join(": ") || "fetch failed";
}

/** Was nothing sent, so that even a request with an effect may be sent once more? */
const unsent = (e) => /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT|EHOSTUNREACH|ENETUNREACH/.test(words(e));

export class Client {
  constructor({ url, key, protocol, serverProxy, endpointHost, timeoutMs }) {
    Object.assign(this, { url, key, protocol, serverProxy, endpointHost, timeoutMs });
    this.endpoints = new Map(); // sandbox → promise of {url, headers}
    this.skew = 0; // the server's clock minus ours, in milliseconds
  }

  /** One request to the server → {status, text, headers}; throws what is no success unless `allow` has its status. */
  async server(method, path, { body, what = path, timeoutMs = this.timeoutMs, allow = [] } = {}) {
    for (let turn = 1; ; turn++) {
      let response, text;
      const limit = limited(timeoutMs);
      try {
        response = await fetch(`${this.url}${path}`, {
          method, redirect: "manual", signal: limit.signal, body: body === undefined ? undefined : JSON.stringify(body),
          headers: { ...(this.key ? { "OPEN-SANDBOX-API-KEY": this.key } : {}), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
        });
        text = await response.text();
      } catch (e) {
        if (e?.name === "TimeoutError") throw new Failure("E5001", `${what}: the server did not answer within ${timeoutMs / 1000} s`);
        if (turn < TRIES && (method === "GET" || unsent(e)) && !/ECONNREFUSED|ENOTFOUND/.test(words(e))) {
          await sleep(250 * turn);
          continue;
        }
        throw new Failure("E6001", `cannot reach the server at '${this.url}': ${words(e)}`);
      } finally {
        limit.free();
      }
      this.mind(response.headers.get("date"));
      if (response.ok || allow.includes(response.status)) return { status: response.status, text, headers: response.headers };
      if (turn < TRIES && (response.status === 429 || (AGAIN.has(response.status) && method === "GET"))) {
        await sleep(this.pause(response, turn));
        continue;
      }
      throw serverFailure(response.status, text, what, this.url);
    }
  }

  async json(method, path, more) {
    const { text } = await this.server(method, path, more);
    try {
      return JSON.parse(text);
    } catch {
      throw new Failure("E6003", `${more?.what ?? path}: the server answered with something that is no JSON: '${text.slice(0, 80)}'`,
        { hint: `is '${this.url}' an OpenSandbox server?` });
    }
  }

  mind(date) {
    const time = Date.parse(date ?? "");
    if (time) this.skew = Math.abs(time + 500 - Date.now()) < 2000 ? 0 : time + 500 - Date.now();
  }

  pause(response, turn) {
    const asked = Number(response.headers.get("retry-after"));
    return asked > 0 ? Math.min(asked * 1000, 10000) : 250 * 2 ** turn * (0.75 + Math.random() / 2);
  }

  /** What the server knows of a sandbox, or null. */
  async look(id) {
    const { status, text } = await this.server("GET", `/sandboxes/${encodeURIComponent(id)}`, { what: "sandbox", allow: [404] });
    return status === 404 && /NOT_FOUND/.test(text) ? null : JSON.parse(text);
  }

  /** Where a port answers → {url, headers}. */
  async address(id, port) {
    const said = await this.json("GET", `/sandboxes/${encodeURIComponent(id)}/endpoints/${port}?use_server_proxy=${this.serverProxy}`,
      { what: `the address of port ${port}` });
    let place = String(said.endpoint ?? "").replace(/\/$/, "");
    if (!place) throw new Failure("E6003", "the server told no address of the sandbox");
    if (this.endpointHost && !this.serverProxy) place = place.replace(/^(\[[^\]]*\]|[^:/]*)/, this.endpointHost);
    return { url: place.includes("://") ? place : `${this.protocol}://${place}`, headers: said.headers ?? {} };
  }

  endpoint(id) {
    if (!this.endpoints.has(id)) {
      const found = Promise.all([this.look(id), this.address(id, 44772).catch((e) => e)]).then(([box, address]) => {
        this.check(id, box);
        if (address instanceof Error) throw address;
        return address;
      });
      found.catch(() => this.endpoints.delete(id));
      this.endpoints.set(id, found);
    }
    return this.endpoints.get(id);
  }

  /** Where execd is spoken to. On Docker the address that is told leads to execd, which then passes each request on to itself: streams break
   *  on that way at times, with an end as if all were well, and every request costs it a connection for ten minutes. So without it. */
  async straight(id) {
    const place = await this.endpoint(id);
    const [, origin] = /^(\w+:\/\/[^/]+)\/proxy\/44772$/.exec(place.url) ?? [];
    if (origin) place.tried ??= this.isExecd(origin, place.headers).then((yes) => yes && (place.url = origin));
    await place.tried;
    return place;
  }

  async isExecd(origin, headers) {
    const limit = limited(3000);
    try {
      const response = await fetch(`${origin}/ping`, { headers, redirect: "manual", signal: limit.signal });
      return (await response.text()) === "" && response.status === 200;
    } catch {
      return false;
    } finally {
      limit.free();
    }
  }

  /** Throws when a sandbox is none that commands can run in. */
  check(id, box) {
    const state = box?.status?.state;
    if (!box) throw new Failure("E3001", `no such sandbox: '${id}'`);
    if (state === "Paused" || state === "Pausing") throw new Failure("E4001", `sandbox '${id}' is paused`, { hint: `abx resume ${id}` });
    if (["Terminated", "Failed", "Stopping"].includes(state))
      throw new Failure("E6004", `sandbox '${id}' has ended: ${box.status.reason ?? state} ${box.status.message ?? ""}`.trim());
  }

  forget(id) {
    this.endpoints.delete(id);
  }

  /** One request to execd → Response, whatever its status. A sandbox that turns out paused or gone is a failure. */
  async execd(id, method, path, { body, headers, signal, json, patience = 3000, again = method === "GET" } = {}) {
    for (let turn = 1; ; turn++) {
      const place = await this.straight(id);
      const stop = new AbortController();
      if (signal?.aborted) throw signal.reason;
      signal?.addEventListener("abort", () => stop.abort(signal.reason), { once: true });
      const init = { method, redirect: "manual", signal: stop.signal,
        headers: { ...place.headers, ...(json ? { "Content-Type": "application/json" } : {}), ...headers } };
      if (json !== undefined || body !== undefined) init.body = json !== undefined ? JSON.stringify(json) : body;
      if (body instanceof ReadableStream) init.duplex = "half";
      try {
        const response = await this.answered(id, fetch(place.url + path, init), stop, patience);
        if (turn < TRIES && !(body instanceof ReadableStream) && (await this.mayRepeat(id, response, again, turn))) continue;
        return response;
      } catch (e) {
        if (signal?.aborted || e instanceof Failure) throw e;
        const repeat = turn < TRIES && (again || unsent(e)) && !(body instanceof ReadableStream);
        await this.gone(id);
        if (!repeat) throw new Failure("E6001", `cannot reach sandbox '${id}' at '${place.url}': ${words(e)}`,
          { hint: "where sandboxes cannot be reached from here, set the option 'server-proxy'" });
        this.forget(id);
        await sleep(100 * turn);
      }
    }
  }

  /** Waits for an answer; meanwhile looks now and then whether the sandbox still is one that can answer. */
  async answered(id, promise, stop, patience) {
    promise.catch(() => {});
    for (let wait = patience; ; wait = 15000) {
      let timer;
      const response = await Promise.race([promise, new Promise((resolve) => (timer = setTimeout(resolve, wait)))]);
      clearTimeout(timer);
      if (response) return response;
      try {
        this.check(id, await this.look(id));
      } catch (e) {
        this.forget(id);
        stop.abort();
        throw e;
      }
    }
  }

  /** Is this answer one of somebody on the way, behind which a repeated request may be lucky? */
  async mayRepeat(id, response, again, turn) {
    if (response.status === 401 && turn === 1) {
      this.forget(id); // its token may have changed
    } else if (AGAIN.has(response.status)) {
      const text = await response.clone().text();
      if (!again && !/could not connect/i.test(text)) return false;
      await sleep(this.pause(response, turn));
    } else {
      return false;
    }
    response.body?.cancel().catch(() => {});
    return true;
  }

  /** Throws when a sandbox has ended or is paused; for a connection that broke. */
  async gone(id) {
    const box = await this.look(id).catch(() => undefined);
    if (box === undefined) return;
    try {
      this.check(id, box);
    } catch (e) {
      this.forget(id);
      throw e;
    }
  }

  /** The JSON that execd answers with; `failure(status, text)` makes the error of anything else. */
  async ask(id, method, path, more, failure = (status, text) => new Failure("E6002", `execd answered ${status}: ${errorOf(text).message}`)) {
    const response = await this.execd(id, method, path, more);
    const text = await response.text();
    if (!response.ok) throw failure(response.status, text);
    return text ? JSON.parse(text) : {};
  }

  /** A WebSocket to execd. */
  async socket(id, path) {
    const place = await this.straight(id);
    const url = place.url.replace(/^http/, "ws") + path;
    return Object.keys(place.headers).length ? new WebSocket(url, { headers: place.headers }) : new WebSocket(url);
  }
}
