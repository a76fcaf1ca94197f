// fs.*: the files of a sandbox. A relative path begins at its home; an absolute one is one of this machine.

import { randomBytes } from "node:crypto";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { accept, Box } from "./boxes.mjs";
import { Fault } from "./epp.mjs";

const CHUNK = 256 * 1024;

async function place(call, name = "path") {
  const box = await Box.of(call.params);
  const asked = call.params[name];
  if (!asked) throw new Fault("E1001", "an empty path is no path");
  return path.resolve(box.home, asked);
}

/** lstat or stat, or null when nothing is there. */
async function look(how, file) {
  try {
    return await how(file);
  } catch (e) {
    if (e.code === "ENOENT") return null;
    throw e;
  }
}

/** True when it was made; not by { recursive: true }, which never comes back where nothing can be made. */
async function makeFolders(folder) {
  const there = await look(fs.stat, folder);
  if (there?.isDirectory()) return false;
  if (!there && folder !== "/") await makeFolders(path.dirname(folder));
  await fs.mkdir(folder).catch((e) => {
    if (e.code !== "EEXIST" || there) throw e; // another was faster
  });
  return true;
}

async function describe(file) {
  const at = await fs.lstat(file);
  const me = os.userInfo();
  const type = at.isSymbolicLink() ? "symlink" : at.isDirectory() ? "dir" : at.isFile() ? "file" : "other";
  return {
    path: file, name: path.basename(file), type, size: at.size, mode: at.mode & 0o7777,
    owner: at.uid === me.uid ? me.username : String(at.uid), group: String(at.gid), modifiedAt: at.mtime.toISOString(),
    target: type === "symlink" ? await fs.readlink(file) : undefined,
  };
}

async function read(call) {
  accept(call.params, "sandboxId", "path");
  const file = await fs.open(await place(call));
  let size = 0;
  try {
    const buffer = Buffer.alloc(CHUNK);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, CHUNK);
      if (bytesRead === 0) return { size };
      await call.sendBytes("fs.output", buffer.subarray(0, bytesRead));
      size += bytesRead;
    }
  } finally {
    await file.close();
  }
}

/** Into a file beside it, which takes its place when all is there: nobody ever sees a half. */
async function write(call) {
  const p = call.params;
  accept(p, "sandboxId", "path", "size", "mode", "whole", "modifiedAt");
  const asked = await place(call);
  await makeFolders(path.dirname(asked));
  const former = await look(fs.stat, asked);
  const target = former ? await fs.realpath(asked) : asked;
  if (former?.isDirectory()) throw new Fault("E6005", `'${asked}' is a folder`);
  const fresh = path.join(path.dirname(target), `.new-${randomBytes(6).toString("hex")}`);
  const file = await fs.open(fresh, "wx");
  try {
    let size = 0;
    for await (const piece of call.body()) {
      await file.writeFile(piece);
      size += piece.length;
    }
    if (size !== (p.size ?? size)) throw new Fault("E1001", `${p.size} bytes were announced, ${size} came`);
    await file.chmod(p.mode ?? (former ? former.mode & 0o7777 : 0o644));
    if (p.modifiedAt) await file.utimes(new Date(), new Date(p.modifiedAt));
    await fs.rename(fresh, target);
    return { path: asked, size };
  } catch (e) {
    await fs.unlink(fresh);
    throw e;
  } finally {
    await file.close();
  }
}

async function below(folder, depth) {
  const found = [];
  for (const entry of await fs.readdir(folder, { withFileTypes: true })) {
    const file = path.join(folder, entry.name);
    found.push(file);
    if (depth > 1 && entry.isDirectory()) found.push(...(await below(file, depth - 1)));
  }
  return found;
}

async function list(call) {
  accept(call.params, "sandboxId", "path", "depth");
  const found = await below(await place(call), call.params.depth ?? 1);
  found.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return { files: await Promise.all(found.map(describe)) };
}

async function makeDir(call) {
  accept(call.params, "sandboxId", "path");
  return { created: await makeFolders(await place(call)) };
}

async function rename(call) {
  accept(call.params, "sandboxId", "from", "to");
  await fs.rename(await place(call, "from"), await place(call, "to"));
}

/** What is not there is removed already. */
async function remove(call) {
  accept(call.params, "sandboxId", "path");
  await fs.rm(await place(call), { recursive: true, force: true });
}

export const methods = {
  "fs.read": read,
  "fs.write": write,
  "fs.stat": async (call) => describe(await place(call)),
  "fs.list": list,
  "fs.make_dir": makeDir,
  "fs.rename": rename,
  "fs.remove": remove,
};
