// Processes. execd's own streams are cut into lines and are not exact; so a process writes into two files of a folder of its own
// in the sandbox, which are read as they grow, and execd tells only how it ended. The folder makes it known to later sessions too.
//
//     /tmp/.abx-NAME/{out,err}  what it wrote      cmd  what it is, as JSON      pid, cwd, id  (id: of execd's command)

import { Failure, cancelled, noProcess, unsupported, usage } from "./errors.mjs";
import { eventsOf } from "./events.mjs";
import { NUMBERS, endOf, endOfEvent, quote, script } from "./shell.mjs";
import { sleep } from "./client.mjs";

const PIECE = 1 << 20; // bytes that are read at once
const AHEAD = 64 << 20; // so far a process may be ahead of its reader before it is stopped
const LONG = 120000; // longer commands go through a file: an argument may have 128 KiB

export const folderOf = (name) => `/tmp/.abx-${name}`;
export const newName = () => [...crypto.getRandomValues(new Uint8Array(10))].map((b) => (b % 36).toString(36)).join("");

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Ends all that bears a name in its environment, whatever its group. */
export const killScript = (name) => `f=${folderOf(name)}; p=$(cat $f/pid 2>/dev/null); [ -n "$p" ] && kill -KILL -- "-$p" 2>/dev/null
i=0; while [ $i -lt 40 ]; do
  l=$(grep -slF ABX_PROCESS=${name} /proc/[0-9]*/environ | cut -d/ -f3); [ -n "$l" ] || break
  kill -KILL $l 2>/dev/null; i=$((i+1))
done; true`;

/** What finds a program, without a process more: its first word must be one that can be executed. */
export const findProgram = (program, otherwise) => {
  const word = quote(program);
  const there = (path) => `[ -f ${path} ] && [ -x ${path} ]`;
  if (program.includes("/")) return `{ ${there(word)}; } || { ${otherwise}; }\n`;
  return `i=$IFS; IFS=:; w=; for d in $PATH; do ${there(`"$d/"${word}`)} && { w=1; break; }; done; IFS=$i; unset i d\n` +
    `[ -n "$w" ] || { ${otherwise}; }\nunset w\n`;
};

export const setUp = `export HOME="\${HOME:-$(cd && pwd)}" USER="\${USER:-$(id -un 2>/dev/null)}" PATH\n`;

/** "SIGTERM", "term" or "15" → "TERM". */
export const signalName = (word) => {
  const plain = word.toUpperCase().replace(/^SIG/, "");
  const name = /^\d+$/.test(plain) ? NUMBERS[Number(plain)] : plain;
  if (!name || !NUMBERS.includes(name)) throw usage(`no such signal: '${word}'`);
  return name;
};

export class Processes {
  constructor(client, files) {
    Object.assign(this, { client, files, running: new Map() });
  }

  /** The text that execd runs for a process. */
  text(name, params, uploaded) {
    const folder = folderOf(name), told = JSON.stringify({ cmd: params.cmd, background: params.background === true, timeoutMs: params.timeoutMs });
    const meta = told.length < 8192 ? told : JSON.stringify({ cmd: [String([params.cmd].flat()[0]).slice(0, 200)], background: params.background === true });
    const run = params.shell ? `"\${BASH:-sh}" -c ${quote(params.cmd)}` : params.cmd.map(quote).join(" ");
    const escaped = meta.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
    return `f=${folder}; mkdir -p -m 700 $f && echo $$ >$f/pid && pwd >$f/cwd || { echo "abx no folder"; exit 125; }\n` +
      `readlink /proc/$$/fd/1 >$f/id; printf %s ${quote(escaped)} >$f/cmd\n${setUp}` +
      (params.shell ? "" : findProgram(params.cmd[0], 'echo "abx not found"; rm -rf $f; exit 127')) +
      `echo "abx pid $$"; unset f; exec ${run} >${folder}/out 2>${folder}/err <${uploaded ? `${folder}/in` : "/dev/null"}\n`;
  }

  check(params) {
    const words = [params.cmd].flat();
    if (params.shell !== true && !Array.isArray(params.cmd)) throw usage("'cmd' must be a list, or a text with shell");
    if (!words.length || words[0] === "") throw usage("'cmd' is empty");
    const all = [...words, params.cwd ?? "", ...Object.entries(params.env ?? {}).flat()];
    if (all.some((w) => w.includes("\0"))) throw usage("an argument holds a zero byte");
    if (params.stdin === "stream") throw unsupported("a standard input that is streamed");
  }

  /** execd's numbers of a user, or nothing for the one that it runs as. */
  async user(id, user) {
    if (user === undefined) return {};
    const { out } = await script(this.client, id, `u=${quote(user)}; id -u; id -u "$u" 2>/dev/null || echo none; id -g "$u" 2>/dev/null`);
    const [own, uid, gid] = out.split("\n");
    if (uid === "none") throw usage(`the sandbox has no user '${user}'`);
    if (own === uid) return {};
    if (own !== "0") throw unsupported(`another user than the one that execd runs as ('${user}')`);
    return { uid: Number(uid), gid: Number(gid) };
  }

  async start(id, params, emit, signal) {
    this.check(params);
    const name = newName(), folder = folderOf(name), who = await this.user(id, params.user);
    const input = params.input === undefined ? null : bytesOf(params.input);
    if (input) await this.files.put(id, `${folder}/in`, input);
    let command = this.text(name, params, input !== null);
    if (command.length > LONG || new TextEncoder().encode(command).length > LONG) {
      await this.files.put(id, `${folder}/run`, new TextEncoder().encode(command));
      command = `. ${folder}/run`;
    }
    const envs = { ...params.env, ABX_PROCESS: name };
    const json = { command, cwd: this.files.place(params.cwd ?? ""), envs, timeout: params.timeoutMs || undefined,
      background: params.background || undefined, ...who };
    const call = { id, name, folder, emit, signal, detached: params.onDisconnect === "detach", begun: Date.now(), params };
    const response = await this.client.execd(id, "POST", "/command", { json });
    if (!response.ok) throw this.refused(response.status, await response.text(), params);
    this.running.set(name, call);
    try {
      return await (params.background ? this.startBackground(call, response) : this.follow(call, response));
    } catch (e) {
      throw signal.aborted ? cancelled() : e;
    } finally {
      this.running.delete(name);
    }
  }

  refused(status, text, params) {
    if (/working directory/.test(text)) return new Failure("E6006", `the folder '${params.cwd ?? "~"}' is none that a process can start in`);
    return new Failure("E6006", `the process cannot be started: execd answered ${status}: ${text.slice(0, 300)}`);
  }

  notStarted(call, word) {
    const program = call.params.shell ? "sh" : call.params.cmd[0];
    if (/not found/.test(word)) return new Failure("E6006", `no such program: '${program}'`);
    return new Failure("E6006", `the process cannot be started: ${word.replace(/^abx /, "")}`);
  }

  /** Until the process says that it runs → its pid. */
  async startBackground(call, response) {
    for await (const event of eventsOf(response)) if (event.type === "execution_complete") break;
    for (let wait = 10; ; wait = Math.min(wait * 2, 200)) {
      call.signal.throwIfAborted();
      const command = await this.command(call.id, call.name);
      const said = command && (await this.logs(call.id, command.id));
      const pid = /^abx pid (\d+)/m.exec(said ?? "")?.[1];
      if (pid) return this.started(call, Number(pid)), { id: call.name, pid: Number(pid) };
      if (/^abx no/m.test(said ?? "")) throw this.notStarted(call, said.trim());
      if (command && !command.running) throw this.notStarted(call, command.error ?? "it ended at once");
      if (Date.now() > call.begun + 10000 && !command) throw this.notStarted(call, "abx not found");
      await sleep(wait, call.signal);
    }
  }

  started(call, pid) {
    if (call.told) return;
    call.told = true;
    call.emit("process.started", { stream: call.emit.stream, id: call.name, pid });
  }

  /** Follows a foreground process to its end, or to the end of the call. */
  async follow(call, response) {
    const { signal } = call;
    const end = this.listen(call, response);
    end.catch(() => {});
    const sizes = { out: 0, err: 0 };
    try {
      await this.copy(call, sizes, end);
      const how = await end;
      if (how.failed) throw /^abx/.test(how.failed) ? this.notStarted(call, how.failed) : new Failure("E6006", `the process cannot be started: ${how.failed}`);
      const limit = call.params.timeoutMs, late = limit > 0 && how.signal === "SIGKILL" && Date.now() - call.begun >= limit;
      if (late || call.killed) await this.killAll(call.id, call.name);
      this.started(call);
      const told = { ...how, ...(late ? { timedOut: true } : {}) };
      call.emit("process.exit", { stream: call.emit.stream, ...told });
      await this.remove(call);
      return { id: call.name, ...told };
    } catch (e) {
      if (!call.detached || !signal.aborted) {
        await Promise.race([end.catch(() => {}), call.known, sleep(5000)]); // not before execd knows it
        await this.killAll(call.id, call.name).catch(() => {});
        await this.remove(call).catch(() => {});
      }
      throw e;
    }
  }

  remove(call) {
    return this.client.ask(call.id, "DELETE", `/directories?path=${encodeURIComponent(call.folder)}`, { again: true }).catch(() => {});
  }

  /** Takes the events of a command: tells when it has started, resolves with its end. */
  async listen(call, response) {
    let known, word;
    call.known = new Promise((resolve) => (known = resolve));
    try {
      for await (const event of eventsOf(response)) {
        if (event.type === "init") known();
        const pid = event.type === "stdout" && /^abx pid (\d+)/.exec(event.text ?? "")?.[1];
        if (pid) this.started(call, Number(pid));
        else if (event.type === "stdout" && /^abx /.test(event.text ?? "")) word = event.text;
        const how = endOfEvent(event);
        if (how) return word ? { failed: word } : how;
      }
    } catch (e) {
      if (e.bare || e.code === "E6003") throw e;
    }
    return this.lost(call, word);
  }

  /** The stream broke: execd still knows how the command ends, or the sandbox is gone. */
  async lost(call, word) {
    for (;;) {
      const command = await this.patiently(call, async () => (await this.client.gone(call.id), this.command(call.id, call.name)));
      if (command && !command.running) return word ? { failed: word } : endOf(command.exit_code, command.error) ?? { failed: command.error };
      if (!command) throw new Failure("E6001", "the connection to the sandbox broke, and nothing is known of the process");
      this.started(call);
      await sleep(250, call.signal);
    }
  }

  /** Both files as they grow, until `end` is there and all was told. offsets change as bytes are told. */
  async copy(call, offsets, end, follow = true) {
    let over = false;
    const done = end.then(() => (over = true), () => (over = true));
    for (let wait = 15; ; ) {
      call.signal.throwIfAborted();
      const last = over || !follow;
      let got = 0;
      const sizes = last ? null : await this.patiently(call, () => this.sizes(call));
      for (const [file, channel] of [["out", "stdout"], ["err", "stderr"]]) {
        if (offsets[file] === undefined) continue;
        while (sizes === null || sizes[file] > offsets[file]) {
          const bytes = await this.patiently(call, () => this.piece(call, file, offsets[file], sizes?.[file]));
          if (!bytes.length) break;
          offsets[file] += bytes.length;
          got += bytes.length;
          await this.tell(call, channel, bytes, offsets);
          if (sizes === null && bytes.length < PIECE) break;
        }
      }
      if (last && !got) return;
      if (!last) await Promise.race([done, sleep(got ? (wait = 15) : wait, call.signal)]);
      if (!got) wait = Math.min(wait * 1.5, 400);
    }
  }

  /** What is followed goes on after a pause of the sandbox. */
  async patiently(call, work) {
    for (;;) {
      try {
        return await work();
      } catch (e) {
        if (e.code !== "E4001") throw e;
        await sleep(300, call.signal);
      }
    }
  }

  async sizes(call) {
    const query = ["out", "err"].map((f) => `path=${encodeURIComponent(`${call.folder}/${f}`)}`).join("&");
    const response = await this.client.execd(call.id, "GET", `/files/info?${query}`, { signal: call.signal, patience: 15000 });
    const text = await response.text();
    if (!response.ok) return {};
    return Object.fromEntries(Object.values(JSON.parse(text)).map((info) => [info.path.split("/").at(-1), info.size]));
  }

  /** Bytes of a file from `from` on; a connection that breaks in the middle is taken up again where it was. */
  async piece(call, file, from, upTo = Infinity) {
    const path = `/files/download?path=${encodeURIComponent(`${call.folder}/${file}`)}`, parts = [];
    for (let at = from, turn = 1; ; turn++) {
      const headers = { Range: `bytes=${at}-${Math.min(upTo, from + PIECE) - 1}` };
      const response = await this.client.execd(call.id, "GET", path, { headers, signal: call.signal, patience: 15000 });
      const reader = response.status === 206 || (response.status === 200 && at === 0) ? response.body.getReader() : null;
      if (!reader) return response.body?.cancel(), joined(parts);
      try {
        for (let part; !(part = await reader.read()).done; at += part.value.length, turn = 1) parts.push(part.value);
        return joined(parts);
      } catch (cause) {
        call.signal.throwIfAborted();
        await this.client.gone(call.id);
        if (turn > 4) throw new Failure("E6001", `the connection to sandbox '${call.id}' broke while output was read`, { cause });
        await sleep(100 * turn, call.signal);
      }
    }
  }

  /** Tells bytes. While the reader does not take them, a process that writes on is stopped at AHEAD. */
  async tell(call, channel, bytes, offsets) {
    this.started(call);
    let taken = false;
    const gone = call.emit("process.output", { stream: call.emit.stream, channel, bytes }).then(() => (taken = true));
    let stopped = false;
    for (;;) {
      await Promise.race([gone, sleep(200, call.signal)]);
      if (taken) break;
      if (stopped || call.attached) continue;
      const sizes = await this.sizes(call);
      if ((sizes.out ?? 0) - (offsets.out ?? 0) + (sizes.err ?? 0) - (offsets.err ?? 0) < AHEAD) continue;
      await this.send(call.id, call.name, "STOP");
      stopped = true;
    }
    if (stopped) await this.send(call.id, call.name, "CONT").catch(() => {});
  }

  // --- of other calls and sessions

  killAll(id, name) {
    return script(this.client, id, killScript(name));
  }

  /** A signal to the group of a process → did it live? */
  async send(id, name, signal) {
    const { out } = await script(this.client, id, `p=$(cat ${folderOf(name)}/pid 2>/dev/null) || { echo none; exit; }
kill -0 "$p" 2>/dev/null || { echo ended; exit; }; kill -s ${signal} -- "-$p" && echo sent`);
    return out.trim();
  }

  async signal(id, processId, word) {
    const name = signalName(word);
    this.checkName(processId);
    const went = await this.send(id, processId, name);
    if (went === "none" || went === "ended") throw noProcess(processId);
    const call = this.running.get(processId);
    if (name === "KILL") {
      if (call) call.killed = true;
      await this.killAll(id, processId);
    }
  }

  checkName(processId) {
    if (!/^[a-z0-9]{10}$/.test(processId)) throw noProcess(processId);
  }

  async detach(id, processId) {
    const call = this.running.get(processId);
    if (call?.id !== id) this.checkName(processId);
    if (!call && (await this.send(id, processId, "CONT")) !== "sent") throw noProcess(processId);
    if (call) call.detached = true;
  }

  async logs(id, command) {
    const response = await this.client.execd(id, "GET", `/command/${command}/logs?cursor=0`);
    const text = await response.text();
    return response.ok ? text : "";
  }

  /** What execd says of the command of a process, or null. */
  async command(id, name) {
    const response = await this.client.execd(id, "GET", `/files/download?path=${encodeURIComponent(`${folderOf(name)}/id`)}`);
    const text = await response.text();
    return response.ok ? this.status(id, text) : null;
  }

  async status(id, place) {
    const command = /([0-9a-f]{32})\.(stdout|output)/.exec(place)?.[1];
    if (!command) return null;
    const response = await this.client.execd(id, "GET", `/command/status/${command}`);
    const text = await response.text();
    return response.ok ? { id: command, ...JSON.parse(text) } : null;
  }

  async list(id) {
    const { out } = await script(this.client, id, `for f in /tmp/.abx-??????????; do [ -f $f/cmd ] || continue
p=$(cat $f/pid); kill -0 "$p" 2>/dev/null && a=1 || a=0; s=$(cat $f/id); echo "\${f##*-} $p $a $s"; cat $f/cwd; cat $f/cmd; echo; done`);
    const lines = out.split("\n"), found = [];
    for (let i = 0; i + 2 < lines.length; i += 3) {
      const [name, pid, alive, place] = lines[i].split(" ");
      let told = {};
      try {
        told = JSON.parse(lines[i + 2]);
      } catch {}
      found.push(this.status(id, place ?? "").then((command) => {
        const ended = command ? !command.running : alive === "0";
        const how = ended && command ? endOf(command.exit_code, command.error) ?? {} : {};
        return { id: name, pid: Number(pid), cmd: [told.cmd].flat(), cwd: lines[i + 1], background: told.background === true,
          startedAt: command ? new Date(command.started_at).toISOString() : undefined, state: ended ? "exited" : "running", ...how,
          told: { ...told, took: command?.finished_at ? Date.parse(command.finished_at) - Date.parse(command.started_at) : 0 } };
      }));
    }
    return (await Promise.all(found)).sort((a, b) => Date.parse(a.startedAt) - Date.parse(b.startedAt));
  }

  async attach(id, params, emit, signal) {
    this.checkName(params.processId);
    if (params.timestamps) throw unsupported("'timestamps'");
    if (params.missed) throw unsupported("'missed'");
    const name = params.processId, call = { id, name, folder: folderOf(name), emit, signal, attached: true };
    const one = (await this.list(id)).find((p) => p.id === name);
    if (!one) throw noProcess(name);
    this.started(call, one.pid);
    const from = params.fromOffset ?? {}, sizes = params.fromOffset ? {} : await this.sizes(call);
    const offsets = { out: from.stdout ?? sizes.out ?? (params.fromOffset ? undefined : 0), err: from.stderr ?? sizes.err ?? (params.fromOffset ? undefined : 0) };
    if (params.fromOffset && Object.keys(from).length) {
      const now = await this.sizes(call);
      offsets.out ??= now.out ?? 0;
      offsets.err ??= now.err ?? 0;
    }
    const follow = params.follow !== false;
    const end = follow ? this.ended(call) : Promise.resolve(one);
    end.catch(() => {});
    await this.copy(call, offsets, end, follow);
    const last = follow ? await end : one;
    if (last.state !== "exited") return {};
    const limit = last.told?.timeoutMs, late = limit > 0 && last.signal === "SIGKILL" && last.told.took >= limit;
    const how = { exitCode: last.exitCode, signal: last.signal, ...(late ? { timedOut: true } : {}) };
    emit("process.exit", { stream: emit.stream, ...how });
    return how;
  }

  async ended(call) {
    for (let wait = 30; ; wait = Math.min(wait * 1.3, 500)) {
      const one = (await this.patiently(call, () => this.list(call.id))).find((p) => p.id === call.name);
      if (!one) throw noProcess(call.name);
      if (one.state === "exited") return one;
      await sleep(wait, call.signal);
    }
  }
}

export function bytesOf(value) {
  if (value instanceof Uint8Array) return value;
  if (value?.bytes) return value.bytes;
  if (value?.base64 !== undefined) return Uint8Array.from(atob(value.base64), (c) => c.charCodeAt(0));
  return new TextEncoder().encode(typeof value === "string" ? value : value?.text ?? "");
}
