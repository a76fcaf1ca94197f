// A provider without a backend: sandboxes are objects of this module, commands are words that it knows, many of them bad.
import * as lib from './lib/boxes.mjs';

const never = () => new Promise(() => {});

const words = {
    async *echo(args) { yield { type: 'stdout', data: `${args.join(' ')}\n` }; },
    async *err(args) { yield { type: 'stderr', data: new TextEncoder().encode(args.join(' ')) }; },
    async *sleep([seconds]) { await new Promise((r) => setTimeout(r, 1000 * seconds)); },
    async *big([mib]) {
        for (let i = 0; i < mib; i++)
            yield { type: 'stdout', data: new Uint8Array(1 << 20).fill(97 + (i % 26)) };
    },
    async *log(args) { console.warn('said', { args, map: new Map([['a', [1, 2n]]]) }); },
    async *globals() {
        const text = Object.getOwnPropertyNames(globalThis).includes('eval') ? 'eval' : '';
        const there = ['require', 'Deno', 'SharedArrayBuffer', 'Atomics', 'std', 'os'].filter((n) => n in globalThis);
        yield { type: 'stdout', data: `${text}|${there}|${Object.keys(process.env)}|${process.argv.length}\n` };
    },
    // what is thrown
    async *throw() { null.x; },
    async *cause() { throw new Error('outer', { cause: new RangeError('inner') }); },
    async *odd() { throw null; },
    async *trap() { throw new Proxy({}, { get() { throw new Error('trap'); } }); },
    async *eval() { eval('1'); },
    async *function() { new Function('return 1')(); },
    async *import([name]) { await import(name); },
    async *deep() { const f = () => f() + 1; f(); },
    // what does not end
    async *loop() { for (;;); },
    async *finally() { try { for (;;); } finally { for (;;); } },
    async *getter() { const o = { get x() { for (;;); } }; o.x; },
    async *regex() { /^(a+)+$/.test(`${'a'.repeat(40)}b`); },
    async *micro() { const f = () => Promise.resolve().then(f); f(); await never(); },
    async *indexof() { 'a'.repeat(1 << 28).indexOf(`${'a'.repeat(1 << 27)}b`); },
    async *never() { await never(); },
    // memory
    async *eat() { const a = []; for (;;) a.push(new Array(1000).fill({})); },
    async *once() { new ArrayBuffer(1 << 30); },
    async *string() { 'a'.repeat(2 ** 30 - 1); },
    async *timers() { for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6); },
    // pollution: its own affair
    async *pollute() {
        Object.prototype.then = (f) => f(1);
        Array.prototype.push = Map.prototype.get = Promise.prototype.then = () => { throw new Error('polluted'); };
        yield { type: 'stdout', data: 'polluted' };
    },
};

export function create(kit) {
    const show = ({ files, ...rest }) => rest;
    const find = (id) => {
        const box = lib.boxes.get(id);
        if (!box)
            throw new kit.errors.SandboxNotFoundError(`no sandbox '${id}'`);
        return box;
    };
    return {
        async buildInfra(ctx) {
            console.log('opened', ctx.id, kit.hostVersion);
            return {
                sandbox: {
                    create: (p) => show(lib.create(p)),
                    info: (id) => show(find(id)),
                    kill: (id) => { find(id); lib.boxes.delete(id); },
                    list: () => ({ sandboxes: [...lib.boxes.values()].map(show) }),
                },
                process: {
                    async *start(id, { cmd }) {
                        find(id);
                        yield { type: 'started', id: '1', pid: 1 };
                        yield* words[cmd[0]](cmd.slice(1));
                        yield { type: 'exit', exitCode: 0 };
                    },
                },
                filesystem: {
                    async *read(id, { path }) {
                        const file = find(id).files.get(path);
                        if (!file)
                            throw new kit.errors.FileNotFoundError(`'${path}'`);
                        yield* file;
                    },
                    async write(id, { path }, call) {
                        const parts = [];
                        for await (const part of call.input)
                            parts.push(part);
                        find(id).files.set(path, parts);
                        return { path, size: parts.reduce((n, p) => n + p.length, 0) };
                    },
                },
            };
        },
    };
}
