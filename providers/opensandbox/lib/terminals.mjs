// Terminals: execd's PTY sessions over WebSocket. What is asked for runs below the session's bash, not in its place: execd tells the
// end of a session before the last of its output, and bash has Ctrl-C switched off. Two marks say where the output begins and ends.

import { Failure, cancelled, unsupported, usage } from "./errors.mjs";
import { findProgram, folderOf, killScript, newName, setUp, signalName } from "./processes.mjs";
import { NUMBERS, quote, script } from "./shell.mjs";

const text = new TextEncoder();

/** Finds marks in bytes that come piece by piece; holds back what may be the beginning of one. */
class Scanner {
  constructor(mark) {
    this.mark = text.encode(mark);
    this.rest = new Uint8Array(0);
  }

  /** → {before, found}; found: the text between the mark and the next NUL. */
  take(bytes) {
    const all = new Uint8Array(this.rest.length + bytes.length);
    all.set(this.rest);
    all.set(bytes, this.rest.length);
    for (let i = all.indexOf(0); i >= 0; i = all.indexOf(0, i + 1)) {
      const room = Math.min(this.mark.length, all.length - i - 1);
      let same = 0;
      while (same < room && all[i + 1 + same] === this.mark[same]) same++;
      if (same < room) continue;
      const end = same === this.mark.length ? all.indexOf(0, i + 1 + same) : -1;
      if (end < 0 && all.length - i < 200) {
        this.rest = all.slice(i);
        return { before: all.slice(0, i) };
      }
      if (end < 0) continue;
      this.rest = all.slice(end + 1);
      return { before: all.slice(0, i), found: new TextDecoder().decode(all.slice(i + 1 + this.mark.length, end)) };
    }
    this.rest = new Uint8Array(0);
    return { before: all };
  }
}

export class Terminals {
  constructor(client, files, processes) {
    Object.assign(this, { client, files, processes, open: new Map() });
  }

  get(id, ptyId) {
    const one = this.open.get(ptyId);
    if (one?.id !== id) throw new Failure("E3003", `no such terminal: '${ptyId}'`);
    return one;
  }

  /** What bash is told to read: the marks, and between them the program. */
  text(name, mark, params, cwd) {
    const env = Object.entries({ ...params.env, TERM: params.term ?? "xterm-256color", ABX_PROCESS: name });
    const exports = env.map(([key, value]) => `export ${key}=${quote(value)}\n`).join("");
    const words = params.cmd ? params.cmd.map(quote).join(" ") : '"${SHELL:-$(command -v bash || echo sh)}"';
    const say = (what) => `printf '\\000%s%s\\000' ${quote(mark)} ${what}`;
    const limit = params.timeoutMs > 0 ? `( sleep ${params.timeoutMs / 1000}; ${killScript(`${name}L`)} ) >/dev/null 2>&1 </dev/null &\n` : "";
    return `exec 9>&2 2>/dev/null; set +m; stty -echo; ${exports}${setUp}mkdir -p -m 700 ${folderOf(name)}; cd ${cwd} || { ${say('"!cd"')}; sleep 60; exit; }\n` +
      (params.cmd ? findProgram(params.cmd[0], `${say('"!program"')}; sleep 60; exit`) : "") +
      `e="env --default-signal=INT,QUIT"; $e true || e=; stty echo sane cols ${params.cols ?? 80} rows ${params.rows ?? 24}\n` +
      `${limit}${say('"+$$"')}\n${limit ? `export ABX_PROCESS=${name}L\n` : ""}$e ${words} 2>&9 9>&-\nr=$?; stty sane; ${say('"=$r"')}; sleep 60; exit\n`;
  }

  async start(id, params, emit, signal) {
    if (params.user !== undefined) throw unsupported("'user' with terminals");
    if (params.onDisconnect === "detach") throw unsupported("a terminal that lives on");
    if (params.cmd && (!Array.isArray(params.cmd) || !params.cmd.length)) throw usage("'cmd' must be a list");
    const name = newName(), mark = newName() + newName(), folder = folderOf(name);
    await this.files.put(id, `${folder}/run`, text.encode(this.text(name, mark, params, params.cwd ? this.files.words(params.cwd) : "~")));
    const { session_id: session } = await this.client.ask(id, "POST", "/pty", { json: {} });
    const one = { id, name, session, emit, signal, begun: false, began: Date.now(), limit: params.timeoutMs, scanner: new Scanner(mark),
      chain: Promise.resolve() };
    const size = { cols: params.cols ?? 80, rows: params.rows ?? 24 };
    try {
      return await this.serve(one, size, `. ${folder}/run\n`);
    } catch (e) {
      throw signal.aborted ? cancelled() : e;
    } finally {
      this.open.delete(name);
      await this.end(one);
    }
  }

  async end(one) {
    one.socket?.close();
    await script(this.client, one.id, `${killScript(one.name)}; rm -rf ${folderOf(one.name)}`).catch(() => {});
    const gone = await this.client.execd(one.id, "DELETE", `/pty/${one.session}`, { again: true }).catch(() => null);
    await gone?.text();
  }

  async serve(one, size, line) {
    const socket = (one.socket = await this.client.socket(one.id, `/pty/${one.session}/ws`));
    socket.binaryType = "arraybuffer";
    return new Promise((resolve, reject) => {
      const over = (e) => (e instanceof Error ? reject(e) : resolve(e));
      one.over = over;
      one.signal.addEventListener("abort", () => reject(cancelled()), { once: true });
      if (one.signal.aborted) reject(cancelled());
      socket.onmessage = ({ data }) => {
        const work = () => (typeof data === "string" ? this.said(one, JSON.parse(data), size, line) : this.bytes(one, new Uint8Array(data)));
        one.chain = one.chain.then(work).catch(over);
      };
      socket.onerror = (event) => reject(new Failure("E6001", `the terminal's connection failed: ${event.message ?? event.error?.message ?? ""}`));
      socket.onclose = ({ code }) => {
        one.chain = one.chain.then(() => this.client.gone(one.id)).then(
          () => over(one.closed ? { signal: "SIGKILL" } : new Failure("E6001", `the terminal's connection was closed (${code})`)), over);
      };
    });
  }

  said(one, message, size, line) {
    if (message.type === "connected") {
      one.socket.send(JSON.stringify({ type: "resize", ...size }));
      this.type(one, text.encode(` ${line}`));
    } else if (message.type === "exit") {
      this.finish(one, one.closed || !one.begun ? { signal: "SIGKILL" } : message.exit_code >= 0 ? { exitCode: message.exit_code } : { signal: "SIGKILL" });
    } else if (message.type === "error" && message.code !== "INVALID_FRAME") {
      const why = message.code === "START_FAILED" ? `${message.error} (the image needs bash)` : message.error;
      one.over(new Failure("E6006", `no terminal: ${why}`));
    }
  }

  async bytes(one, frame) {
    let data = frame.subarray(frame[0] === 3 ? 9 : 1);
    for (;;) {
      const { before, found } = one.scanner.take(data);
      if (one.begun && before.length) await one.emit("pty.output", { stream: one.emit.stream, bytes: before });
      if (found === undefined) return;
      data = new Uint8Array(0);
      if (found[0] === "+") {
        one.begun = true;
        this.open.set(one.name, one);
        one.pid = Number(found.slice(1));
        one.emit("pty.started", { stream: one.emit.stream, id: one.name, pid: one.pid });
      } else if (found[0] === "!") {
        return one.over(new Failure("E6006", found === "!cd" ? "the folder is none that a process can start in" : "no such program"));
      } else {
        return this.finish(one, this.endOf(Number(found.slice(1)), one));
      }
    }
  }

  /** A shell tells a signal as 128 and its number. */
  endOf(code, one) {
    const signal = code > 128 && NUMBERS[code - 128] ? `SIG${NUMBERS[code - 128]}` : undefined;
    const late = signal === "SIGKILL" && one.limit > 0 && Date.now() - one.began >= one.limit;
    return signal ? { signal, ...(late ? { timedOut: true } : {}) } : { exitCode: code };
  }

  finish(one, how) {
    if (one.finished) return;
    one.finished = true;
    one.emit("pty.exit", { stream: one.emit.stream, ...how });
    one.over(how);
  }

  type(one, bytes) {
    for (let at = 0; at < bytes.length; at += 16384) {
      const piece = bytes.subarray(at, at + 16384), frame = new Uint8Array(piece.length + 1);
      frame.set(piece, 1);
      one.socket.send(frame);
    }
  }

  async write(id, params, input) {
    const one = this.get(id, params.ptyId);
    for await (const bytes of input) {
      this.type(one, bytes);
      while (one.socket.bufferedAmount > 1 << 20 && one.socket.readyState === 1) await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  resize(id, params) {
    this.get(id, params.ptyId).socket.send(JSON.stringify({ type: "resize", cols: params.cols, rows: params.rows }));
  }

  has(id, ptyId) {
    return this.open.get(ptyId)?.id === id;
  }

  /** To all that runs on it; KILL closes it. */
  async signal(id, ptyId, word) {
    const name = signalName(word), one = this.get(id, ptyId);
    if (name === "KILL") return this.close(id, { ptyId });
    if (one.pid) await script(this.client, id, `kill -s ${name} -- -${one.pid} 2>/dev/null || kill -s ${name} ${one.pid}`);
  }

  async close(id, params) {
    const one = this.get(id, params.ptyId);
    one.closed = true;
    await script(this.client, id, killScript(one.name));
    this.finish(one, { signal: "SIGKILL" });
  }
}
