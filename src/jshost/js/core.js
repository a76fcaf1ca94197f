// Between EPP/1 and the objects of a module: errors, kit, ctx, and the calls.
(function (native) {
    'use strict';
    const { DOMException, Uint8Array, Promise } = globalThis;
    const need = native.need;
    const head = native.head;
    const prefix = `${head.id}/`;

    // --- errors

    const own = new WeakMap(); // error of the kit → what goes to the host
    class ProviderError extends Error {
        constructor(message, options = {}) {
            super(message, options);
            const row = new.target.row ?? { code: 'E6002', retryable: false, status: 502 };
            own.set(this, {
                code: typeof options?.code === 'string' ? options.code : row.code,
                hint: options?.hint, retryable: options?.retryable,
            });
        }
        get code() { return own.get(this)?.code; }
        get hint() { return own.get(this)?.hint; }
    }
    const errors = { ProviderError };
    for (const row of native.errors) {
        if (errors[row.type])
            continue;
        const C = { [row.type]: class extends ProviderError {} }[row.type];
        Object.defineProperty(C, 'row', { value: Object.freeze({ ...row }) });
        for (const [key, value] of Object.entries({ name: row.type, type: row.type, status: row.status, retryable: row.retryable }))
            Object.defineProperty(C.prototype, key, { value, configurable: true, writable: true });
        errors[row.type] = C;
    }
    for (const C of Object.values(errors)) {
        Object.freeze(C);
        Object.freeze(C.prototype);
    }
    Object.freeze(errors);

    const attempt = (f, otherwise) => {
        try {
            return f();
        } catch {
            return otherwise;
        }
    };
    function frames(e) {
        const stack = attempt(() => String(e.stack), '');
        return stack.split('\n').map((l) => l.trim()).filter((l) => l.includes(prefix)).map((l) => l.replace(/^at /, ''));
    }
    function headline(e) {
        if (typeof e !== 'object' || e === null)
            return attempt(() => String(e), 'a value that has no text');
        const name = attempt(() => String(e.name), 'Error'), message = attempt(() => String(e.message), '');
        return message ? `${name}: ${message}` : name;
    }
    // In one line, with where it was thrown and what caused it.
    function describe(e) {
        const parts = [], seen = [];
        for (let at = e; parts.length < 8 && !seen.includes(at); ) {
            seen.push(at);
            const where = frames(at).slice(0, 3);
            parts.push(headline(at) + (where.length ? ` (at ${where.join(', at ')})` : ''));
            at = typeof at === 'object' && at !== null ? attempt(() => at.cause, undefined) : undefined;
            if (at === undefined)
                break;
        }
        return parts.join('; caused by ').slice(0, 16384);
    }
    function report(e, unhandled) {
        native.log(unhandled ? 'warn' : 'error', `${unhandled ? 'nobody handles a rejection: ' : ''}${describe(e)}`);
    }
    native.describe = describe;
    native.report = report;

    function wireError(e) {
        const mine = typeof e === 'object' && e !== null ? own.get(e) : undefined;
        if (mine) {
            const cause = attempt(() => e.cause, undefined);
            const message = attempt(() => String(e.message), '');
            return { ...mine, message: cause === undefined ? message : `${message}: ${describe(cause)}` };
        }
        if (e instanceof DOMException && e.name === 'AbortError')
            return { code: 'E5002', message: 'cancelled' };
        if (e instanceof DOMException && e.name === 'TimeoutError')
            return { code: 'E5001', message: describe(e) };
        native.log('error', describe(e));
        return { code: 'E8008', message: describe(e) };
    }

    // --- operations

    const groups = { fs: 'filesystem' };
    const ops = new Map();
    for (const row of native.ops) {
        const [group, name] = row.method.split('.');
        row.group = groups[group] ?? group;
        row.name = name.replace(/_(.)/g, (_, c) => c.toUpperCase());
        row.channels = row.events.filter((x) => ['stdout', 'stderr', 'pty', 'body'].includes(x));
        if (row.style === 'body-out')
            row.channels = ['body'];
        ops.set(row.method, row);
    }

    class Call {
        constructor(id, row, params) {
            this.id = id;
            this.row = row;
            this.params = params;
            this.abortion = null; // its AbortController, when somebody asks
            this.input = [];
            this.inputOver = false;
            this.wanted = null; // a promise of input that waits
            this.writers = [];
            this.done = false;
            this.cancelled = null; // why
        }
        get controller() {
            if (!this.abortion) {
                this.abortion = new (need('events').AbortController)();
                if (this.cancelled)
                    this.abortion.abort(this.cancelled);
            }
            return this.abortion;
        }
        write(channel, data) {
            if (this.done)
                return Promise.resolve();
            const bytes = typeof data === 'string' ? data : data;
            if (native.write(this.id, channel, bytes))
                return Promise.resolve();
            return new Promise((resolve) => this.writers.push(resolve));
        }
        nextInput() {
            if (this.input.length > 0) {
                const value = this.input.shift();
                native.taken(this.id, value.length);
                return Promise.resolve({ done: false, value });
            }
            if (this.inputOver)
                return Promise.resolve({ done: true, value: undefined });
            return new Promise((resolve, reject) => { this.wanted = { resolve, reject }; });
        }
    }
    const calls = new Map();

    // What a method of a protocol object is given.
    class CallContext {
        #call;
        constructor(call) { this.#call = call; }
        get signal() { return this.#call.controller.signal; }
        get method() { return this.#call.row.method; }
        event(type, members = {}) {
            if (!this.#call.done)
                native.event(this.#call.id, String(type), members);
        }
        write(channel, data) { return this.#call.write(String(channel), data); }
        get input() {
            const call = this.#call;
            return {
                next: () => call.nextInput(),
                return(value) {
                    call.inputOver = true;
                    call.input.forEach((x) => native.taken(call.id, x.length));
                    call.input = [];
                    return Promise.resolve({ done: true, value });
                },
                [Symbol.asyncIterator]() { return this; },
            };
        }
    }
    Object.freeze(CallContext.prototype);

    let invoke; // (call) → promise of its result

    async function drive(call, value) {
        const row = call.row;
        if (row.style === 'body-out' && (typeof value === 'string' || value instanceof ArrayBuffer || ArrayBuffer.isView(value)))
            value = [value];
        const make = value?.[Symbol.asyncIterator] ?? (row.style === 'body-out' ? value?.[Symbol.iterator] : undefined);
        if (typeof make !== 'function' || row.style === 'unary')
            return value;
        const iterator = make.call(value);
        let size = 0;
        for (;;) {
            if (call.cancelled) {
                await iterator.return?.();
                throw call.cancelled;
            }
            const { done, value: item } = await iterator.next();
            if (done)
                return row.style === 'body-out' ? { size, ...item } : item;
            if (row.style === 'body-out') {
                size += typeof item === 'string' ? native.encode(item).length : item.byteLength;
                await call.write('body', item);
                continue;
            }
            const { type, data, ...members } = item;
            if (row.channels.includes(type))
                await call.write(type, data);
            else
                native.event(call.id, String(type), members);
        }
    }
    async function run(call) {
        try {
            const result = await drive(call, await invoke(call));
            if (!call.done)
                native.end(call.id, result);
        } catch (e) {
            if (!call.done)
                native.fail(call.id, wireError(e));
        }
        finish(call);
    }
    function finish(call) {
        call.done = true;
        calls.delete(call.id);
        if (call.grace)
            need('timers').clearTimeout(call.grace);
        call.writers.splice(0).forEach((f) => f());
    }
    function request(id, method, params) {
        const row = ops.get(method), call = new Call(id, row, params);
        calls.set(id, call);
        run(call);
    }
    function input(id, bytes) {
        const call = calls.get(id);
        if (!call || call.inputOver)
            return native.taken(id, bytes.length);
        if (call.wanted) {
            const w = call.wanted;
            call.wanted = null;
            native.taken(id, bytes.length);
            w.resolve({ done: false, value: bytes });
        } else {
            call.input.push(bytes);
        }
    }
    function inputEnd(id) {
        const call = calls.get(id);
        if (!call)
            return;
        call.inputOver = true;
        call.wanted?.resolve({ done: true, value: undefined });
        call.wanted = null;
    }
    function cancel(id) {
        const call = calls.get(id);
        if (!call || call.grace)
            return;
        const reason = new DOMException('the call was cancelled', 'AbortError');
        call.cancelled = reason;
        call.grace = need('timers').setTimeout(() => {
            if (!call.done)
                native.fail(call.id, { code: 'E5002', message: 'cancelled' });
            finish(call);
        }, 1000);
        call.wanted?.reject(reason);
        call.wanted = null;
        call.abortion?.abort(reason);
    }
    function resume(id) {
        calls.get(id)?.writers.splice(0).forEach((f) => f());
    }

    // --- kit.epp.infra: a dispatcher of EPP/1 in the same process

    const dispatchers = new WeakMap();
    const settled = new Set(['native', 'emulated', 'unsupported']);

    function emitInto(call) {
        const row = call.row;
        return function emit(method, params = {}) {
            if (call.done)
                return Promise.resolve();
            const name = String(method).slice(String(method).indexOf('.') + 1);
            const { stream, channel, text, base64, bytes, kind, ...members } = params;
            const data = bytes ?? text ?? (base64 === undefined ? undefined : Uint8Array.fromBase64(base64));
            const target = channel ?? (row.channels.includes(kind) ? kind : name === 'output' ? row.channels[0] : undefined);
            if (data !== undefined && target !== undefined)
                return call.write(String(target), data);
            if (channel !== undefined)
                members.stream = channel;
            if (row.group === 'process' || row.group === 'pty')
                native.event(call.id, name, kind === undefined ? members : { ...members, kind });
            else if (row.events.includes(kind))
                native.event(call.id, kind, members);
            else
                native.event(call.id, 'change', { ...members, kind });
            return Promise.resolve();
        };
    }
    async function feedDispatcher(dispatcher, call, emit) {
        const signal = call.controller.signal;
        for (;;) {
            const { done, value } = await call.nextInput();
            if (done)
                return dispatcher.call('stream.end', { stream: call.id }, emit, signal);
            await dispatcher.call('stream.write', { stream: call.id, bytes: value }, emit, signal);
        }
    }
    function useDispatcher(dispatcher) {
        invoke = async (call) => {
            const emit = emitInto(call);
            emit.stream = call.id;
            if (call.row.style === 'body-in' || call.row.style === 'duplex')
                feedDispatcher(dispatcher, call, emit).catch((e) => {
                    if (!call.done)
                        native.fail(call.id, wireError(e));
                    finish(call);
                });
            return dispatcher.call(call.row.method, call.params, emit, call.controller.signal);
        };
    }
    function features(said) {
        if (Array.isArray(said))
            return Object.fromEntries(said.map((name) => [String(name), 'native']));
        return said;
    }

    // --- plain objects

    function usePlain(infra) {
        const methods = new Map(), state = {};
        for (const row of ops.values()) {
            const target = infra[row.group], fn = target?.[row.name];
            if (typeof fn === 'function')
                methods.set(row.method, { fn, target });
        }
        const has = (row) => methods.has(row.method);
        for (const row of ops.values())
            if (has(row))
                state[row.feature] = 'native';
        for (const row of ops.values())
            if (!has(row) && state[row.feature])
                state[row.method] = 'unsupported';
        for (const [name, value] of Object.entries(infra.features ?? {}))
            if (settled.has(value))
                state[name] = value;
        invoke = (call) => {
            const row = call.row, m = methods.get(row.method), context = new CallContext(call);
            if (!m)
                throw new errors.ProviderFeatureNotSupportedError(`the provider has no '${row.method}'`);
            if (!row.sandbox)
                return m.fn.call(m.target, call.params, context);
            const { sandboxId, ...params } = call.params;
            return m.fn.call(m.target, sandboxId, params, context);
        };
        return state;
    }

    // --- kit, ctx, the start

    function freezeAll(o) {
        if (typeof o === 'object' && o !== null && !Object.isFrozen(o)) {
            Object.freeze(o);
            Object.values(o).forEach(freezeAll);
        }
        return o;
    }
    function makeKit(params) {
        return Object.freeze({
            hostVersion: params.hostVersion,
            errors,
            epp: Object.freeze({
                infra(ctx, factory) {
                    if (typeof factory !== 'function')
                        throw new TypeError('kit.epp.infra(ctx, factory): factory must be a function');
                    const marker = Object.freeze({});
                    dispatchers.set(marker, { ctx, factory });
                    return marker;
                },
            }),
        });
    }
    function makeContext(params) {
        return freezeAll({
            id: params.id, features: head.features, options: params.options ?? {}, core: params.core ?? {},
            secretKeys: params.secretKeys ?? [], callTimeout: params.callTimeoutMs,
        });
    }
    function creator(namespace) {
        for (const name of ['create', 'default'])
            if (typeof namespace[name] === 'function')
                return namespace[name];
        const names = Object.keys(namespace);
        throw new errors.ProviderStartError(`the module must export a function 'create', by name or as default; it exports ${
            names.length ? names.map((n) => `'${n}'`).join(', ') : 'nothing'}`);
    }
    async function start(params, loading) {
        const ctx = makeContext(params);
        const provider = await creator(await loading)(makeKit(params));
        if (typeof provider?.buildInfra !== 'function')
            throw new errors.ProviderStartError("create(kit) must return an object with a function 'buildInfra'");
        const infra = await provider.buildInfra(ctx);
        if (typeof infra !== 'object' || infra === null)
            throw new errors.ProviderStartError('buildInfra(ctx) must return an object');
        const wanted = dispatchers.get(infra);
        if (!wanted)
            return usePlain(infra);
        const dispatcher = await wanted.factory(wanted.ctx ?? ctx);
        if (typeof dispatcher?.call !== 'function')
            throw new errors.ProviderStartError("the factory of kit.epp.infra must return an object with a function 'call'");
        const hello = await dispatcher.initialize?.({ protocol: 'epp/1', ...params }) ?? {};
        useDispatcher(dispatcher);
        return features(hello.features ?? []);
    }
    function load(params, loading) {
        start(params, loading).then((state) => native.greeted(state), (e) => {
            const w = wireError(e);
            native.refused(w.code === 'E8008' ? { ...w, code: 'E8007', message: `the module cannot be loaded: ${w.message}` } : w);
        });
    }
    return { load, request, input, inputEnd, cancel, resume, report };
})
