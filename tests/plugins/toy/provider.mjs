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
    async *probe(args) { // in a program of the tests: a native function
        for (let i = 0; i < args.length; i += 2)
            yield { type: 'stdout', data: `${globalThis.probe(args[i], args[i + 1])}\n` };
    },
    async *math() {
        const one = ['acos', 'acosh', 'asin', 'asinh', 'atan', 'atanh', 'cbrt', 'ceil', 'cos', 'cosh', 'exp', 'expm1', 'floor', 'log',
            'log10', 'log1p', 'log2', 'sin', 'sinh', 'sqrt', 'tan', 'tanh', 'trunc'];
        const values = Object.fromEntries(one.map((n) => [n, Math[n](n === 'acosh' ? 1.75 : 0.75)]));
        values.atan2 = Math.atan2(1, 2), values.fmod = 7.75 % Number("2"), values.hypot = Math.hypot(3, 4), values.pow = Number("2") ** 0.5;
        yield { type: 'stdout', data: JSON.stringify(values) };
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
    async *indexof() { 'a'.repeat(1 << 26).indexOf(`${'a'.repeat(1 << 25)}b`); },
    async *never() { await never(); },
    async *proxy() { new Proxy({}, { has() { for (;;); } }).x, 'x' in new Proxy({}, { has() { for (;;); } }); },
    async *message() { throw { get message() { for (;;); }, name: 'E', stack: '' }; },
    async *tojson() { yield { type: 'exit', exitCode: { toJSON() { for (;;); } } }; },
    async *sort() { [3, 2, 1].sort(() => { for (;;); }); },
    async *timer() { setTimeout(() => { for (;;); }, 0); await never(); },
    async *rejects() {
        Promise.reject(new Error('nobody cares'));
        await new Promise((r) => setTimeout(r, 20));
        yield { type: 'stdout', data: 'on' };
    },
    // memory
    async *eat() { const a = []; for (;;) a.push(new Array(1000).fill({})); },
    async *once() { new ArrayBuffer(1 << 30); },
    async *string() { 'a'.repeat(2 ** 30 - 1); },
    async *timers() { for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6); },
    async *fetches() { // to nobody: those over the limit are refused at once
        let refused = 0;
        const all = [];
        for (let i = 0; i < 1e5; i++)
            all.push(fetch('http://127.0.0.1:9/').catch(() => { refused++; }));
        await Promise.all(all);
        yield { type: 'stdout', data: `${refused}` };
    },
    // pollution: its own affair
    async *pollute() {
        Object.prototype.then = (f) => f(1);
        Array.prototype.push = Map.prototype.get = Promise.prototype.then = () => { throw new Error('polluted'); };
        Object.defineProperty(Object.prototype, 'value', { get() { throw new Error('polluted'); }, set() {} });
        globalThis.setTimeout = globalThis.AbortController = globalThis.Uint8Array = undefined;
        yield { type: 'stdout', data: 'polluted' };
    },
    async *freeze() {
        Object.freeze(globalThis);
        Object.freeze(Object.prototype);
        yield { type: 'stdout', data: `${typeof TextEncoder} ${typeof AbortController}` };
    },
    // memory of a view is what its buffer has now
    async *views() {
        const buffer = new ArrayBuffer(1 << 16, { maxByteLength: 1 << 20 });
        const whole = new Uint8Array(buffer), part = new DataView(buffer, 1 << 15), fixed = new Uint8Array(buffer, 1 << 15, 16);
        whole.fill(65);
        buffer.resize(4);
        yield { type: 'stdout', data: whole };
        for (const view of [part, fixed]) {
            try {
                yield { type: 'stdout', data: view };
            } catch (e) {
                yield { type: 'stderr', data: `${e.name} ` };
            }
        }
        buffer.resize(8);
        yield { type: 'stdout', data: whole.fill(66) };
        const gone = new Uint8Array(8);
        gone.buffer.transfer();
        yield { type: 'stdout', data: gone };
        yield { type: 'stdout', data: new DataView(new ArrayBuffer(4).transferToImmutable()) };
    },
};

// What may not be changed of kit and ctx: how many changes were refused.
function tamper(kit, ctx) {
    const refused = [
        () => { kit.errors = {}; }, () => { kit.errors.ProviderError = Error; }, () => { kit.epp.infra = null; },
        () => { kit.errors.SandboxNotFoundError.prototype.x = 1; }, () => { delete kit.hostVersion; },
        () => Object.defineProperty(kit.errors.ProviderError.prototype, 'code', { value: 'E9999' }),
        () => Object.setPrototypeOf(kit.errors.SandboxNotFoundError, Error), () => { ctx.options.x = 1; }, () => { ctx.features.push('pty'); },
        () => { ctx.id = 'other'; }, () => { new kit.errors.SandboxNotFoundError('x', { code: 'E1001' }); },
        () => { kit.errors.SandboxNotFoundError.call({}, 'x'); },
    ].filter((f) => {
        try {
            f();
            return false;
        } catch {
            return true;
        }
    });
    return refused.length;
}

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
            words.tamper = async function* () { yield { type: 'stdout', data: `${tamper(kit, ctx)}` }; };
            words.kit = async function* ([type, code]) {
                const e = new kit.errors[type]('said by the kit', { code, hint: 'do this', retryable: true, cause: new Error('why') });
                console.log(`${e.name}|${e.code}|${e.type}|${e.status}|${e.hint}|${e.retryable}|${e instanceof kit.errors.ProviderError}`);
                throw e;
            };
            words.secret = async function* () {
                console.error('the key is', ctx.core.apiKey);
                throw new Error(`no ${ctx.core.apiKey} here`, { cause: new Error(ctx.core.apiKey) });
            };
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
