// @ts-check
// filesystem: a sandbox has a map of its paths; what is not a file is a folder.
import { accept, find } from './boxes.mjs';

const HOME = '/home/user';

function resolve(kit, path) {
  if (!path) throw new kit.errors.UsageError('an empty path is no path');
  const parts = [];
  for (const part of (path.startsWith('/') ? path : `${HOME}/${path}`).split('/')) {
    if (part === '..') parts.pop();
    else if (new TextEncoder().encode(part).length > 255) throw new kit.errors.FileError('a name has at most 255 bytes');
    else if (part && part !== '.') parts.push(part);
  }
  return `/${parts.join('/')}`;
}

const parent = (path) => path.slice(0, path.lastIndexOf('/')) || '/';
const isBelow = (path, folder) => path.startsWith(folder === '/' ? '/' : `${folder}/`);
const byPath = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);

/** @param {import('./kit.d.ts').Kit} kit @returns {import('./kit.d.ts').FilesystemObject} */
export function filesystem(kit) {
  const { FileNotFoundError, FileError, UsageError } = kit.errors;

  function entry(files, path) {
    if (path === '/' || path === HOME || path === '/home') return files.get(path) ?? { type: 'dir', mode: 0o755, modified: 0 };
    return files.get(path);
  }
  function need(files, path) {
    const e = entry(files, path);
    if (!e) throw new FileNotFoundError(`'${path}' does not exist`);
    return e;
  }
  function makeFolders(files, path) {
    const there = entry(files, path);
    if (there && there.type !== 'dir') throw new FileError(`'${path}' is no folder`);
    if (there) return false;
    makeFolders(files, parent(path));
    files.set(path, { type: 'dir', mode: 0o755, modified: Date.now() });
    return true;
  }
  function describe(path, e) {
    return {
      path, name: path.slice(path.lastIndexOf('/') + 1), type: e.type, size: e.bytes?.length ?? 0, mode: e.mode, owner: 'user', group: 'user',
      modifiedAt: new Date(e.modified).toISOString(),
    };
  }
  async function collect(input) {
    const parts = [];
    let size = 0;
    for await (const part of input) {
      parts.push(part);
      size += part.length;
    }
    const bytes = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }

  return {
    async *read(id, params) {
      accept(kit, params, 'path');
      const { files } = find(kit, id), path = resolve(kit, params.path), e = need(files, path);
      if (e.type !== 'file') throw new FileError(`'${path}' is a folder`);
      for (let at = 0; at < e.bytes.length; at += 262144) yield e.bytes.subarray(at, at + 262144);
    },
    async write(id, params, call) {
      accept(kit, params, 'path', 'size', 'mode', 'whole', 'modifiedAt');
      const { files } = find(kit, id), path = resolve(kit, params.path), former = entry(files, path);
      if (former?.type === 'dir') throw new FileError(`'${path}' is a folder`);
      makeFolders(files, parent(path));
      const bytes = await collect(call.input);
      if (bytes.length !== (params.size ?? bytes.length)) throw new UsageError(`${params.size} bytes were announced, ${bytes.length} came`);
      const modified = params.modifiedAt ? Date.parse(params.modifiedAt) : Date.now();
      files.set(path, { type: 'file', bytes, mode: params.mode ?? former?.mode ?? 0o644, modified });
      return { path, size: bytes.length };
    },
    stat(id, params) {
      accept(kit, params, 'path');
      const path = resolve(kit, params.path);
      return describe(path, need(find(kit, id).files, path));
    },
    list(id, params) {
      accept(kit, params, 'path', 'depth');
      const { files } = find(kit, id), folder = resolve(kit, params.path);
      if (need(files, folder).type !== 'dir') throw new FileError(`'${folder}' is no folder`);
      const levels = (path) => path.slice(folder === '/' ? 0 : folder.length).split('/').length - 1;
      const found = [...files].filter(([path]) => isBelow(path, folder) && levels(path) <= (params.depth ?? 1));
      return { files: found.map(([path, e]) => describe(path, e)).sort(byPath) };
    },
    makeDir(id, params) {
      accept(kit, params, 'path');
      return { created: makeFolders(find(kit, id).files, resolve(kit, params.path)) };
    },
    rename(id, params) {
      accept(kit, params, 'from', 'to');
      const { files } = find(kit, id), from = resolve(kit, params.from), to = resolve(kit, params.to);
      const moved = need(files, from), over = entry(files, to);
      if (need(files, parent(to)).type !== 'dir' || isBelow(to, from)) throw new FileError(`'${to}' cannot be made`);
      if (over?.type === 'dir' && moved.type !== 'dir') throw new FileError(`'${to}' is a folder`);
      for (const [path, e] of [...files]) {
        if (path !== from && !isBelow(path, from)) continue;
        files.delete(path);
        files.set(to + path.slice(from.length), e);
      }
    },
    /** What is not there is removed already. */
    remove(id, params) {
      accept(kit, params, 'path');
      const { files } = find(kit, id), gone = resolve(kit, params.path);
      for (const path of [...files.keys()]) if (path === gone || isBelow(path, gone)) files.delete(path);
    },
  };
}
