// Between EPP/1 and the objects of a module: kit, ctx, and the calls.
(function (native) {
    'use strict';
    const need = native.need;
    const {
        ArrayBuffer, ArrayBufferIsView, ArrayPrototypeForEach, ArrayPrototypeIncludes, ArrayPrototypeJoin, ArrayPrototypeMap,
        ArrayPrototypePush, ArrayPrototypeShift, ArrayPrototypeSplice, DOMException, FunctionPrototypeCall, Map, MapPrototypeDelete,
        MapPrototypeForEach, MapPrototypeGet, MapPrototypeHas, MapPrototypeSet, ObjectFreeze, ObjectIsFrozen, ObjectKeys, ObjectValues,
        Promise, PromisePrototypeThen, PromiseResolve, String, SymbolAsyncIterator, SymbolIterator, TypeError, TypedArrayByteLength,
        WeakMap, WeakMapPrototypeGet, WeakMapPrototypeSet,
    } = need('primordials');
    const { errors, report, wireError } = need('errors');
    const head = native.head;

    // --- operations

    const ops = new Map(); // method → row
    for (const row of native.ops) // the module has not run yet
        ops.set(row.method, row);

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
                return PromiseResolve();
            if (native.write(this.id, channel, data))
                return PromiseResolve();
            return new Promise((resolve) => ArrayPrototypePush(this.writers, resolve));
        }
        nextInput() {
            if (this.input.length > 0) {
                const value = ArrayPrototypeShift(this.input);
                native.taken(this.id, TypedArrayByteLength(value));
                return PromiseResolve({ done: false, value });
            }
            if (this.inputOver)
                return PromiseResolve({ done: true, value: undefined });
            return new Promise((resolve, reject) => { this.wanted = { resolve, reject }; });
        }
    }
    const calls = new Map();

    // What a method of a protocol object is given.
    class CallContext {
        #call;
        constructor(call) { this.#call = call; }
        // The kit answers it: its number, and the input that came before.
        static handOver(context) {
            if (typeof context !== 'object' || context === null || !(#call in context))
                return null;
            const call = context.#call, { id, input, inputOver } = call;
            call.input = [];
            return { id, input, inputOver };
        }
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
                    ArrayPrototypeForEach(call.input, (x) => native.taken(call.id, TypedArrayByteLength(x)));
                    call.input = [];
                    return PromiseResolve({ done: true, value });
                },
                [SymbolAsyncIterator]() { return this; },
            };
        }
    }
    native.handOver = CallContext.handOver;
    delete CallContext.handOver;
    ObjectFreeze(CallContext.prototype);

    let invoke; // (call) → promise of its result

    async function drive(call, value) {
        const row = call.row;
        if (row.style === 'body-out' && (typeof value === 'string' || value instanceof ArrayBuffer || ArrayBufferIsView(value)))
            value = [value];
        const make = value?.[SymbolAsyncIterator] ?? (row.style === 'body-out' ? value?.[SymbolIterator] : undefined);
        if (typeof make !== 'function' || row.style === 'unary')
            return value;
        const iterator = FunctionPrototypeCall(make, value);
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
                size += native.size(item);
                await call.write('body', item);
                continue;
            }
            const { type, data, ...members } = item;
            if (ArrayPrototypeIncludes(row.channels, type))
                await call.write(type, data);
            else
                native.event(call.id, String(type), members);
        }
    }
    function failed(call, e) {
        if (!call.done)
            native.fail(call.id, wireError(e));
        finish(call);
    }
    async function run(call) {
        try {
            const result = await drive(call, await invoke(call));
            if (!call.done)
                native.end(call.id, result);
            finish(call);
        } catch (e) {
            failed(call, e);
        }
    }
    function wake(call) {
        ArrayPrototypeForEach(ArrayPrototypeSplice(call.writers, 0), (resolve) => resolve());
    }
    function finish(call) {
        call.done = true;
        MapPrototypeDelete(calls, call.id);
        if (call.grace)
            need('timers').clearTimeout(call.grace);
        wake(call);
    }
    function request(id, method, params) {
        const row = MapPrototypeGet(ops, method), call = new Call(id, row, params);
        MapPrototypeSet(calls, id, call);
        run(call);
    }
    function input(id, bytes) {
        const call = MapPrototypeGet(calls, id);
        if (!call || call.inputOver)
            return native.taken(id, TypedArrayByteLength(bytes));
        if (call.wanted) {
            const w = call.wanted;
            call.wanted = null;
            native.taken(id, TypedArrayByteLength(bytes));
            w.resolve({ done: false, value: bytes });
        } else {
            ArrayPrototypePush(call.input, bytes);
        }
    }
    function inputEnd(id) {
        const call = MapPrototypeGet(calls, id);
        if (!call)
            return;
        call.inputOver = true;
        call.wanted?.resolve({ done: true, value: undefined });
        call.wanted = null;
    }
    function cancel(id) {
        const call = MapPrototypeGet(calls, id);
        if (!call || call.grace)
            return;
        const reason = new DOMException('the call was cancelled', 'AbortError');
        call.cancelled = reason;
        call.grace = need('timers').setTimeout(() => {
            if (!call.done)
                native.fail(call.id, { __proto__: null, code: 'E5002', message: 'cancelled' });
            finish(call);
        }, 1000);
        call.wanted?.reject(reason);
        call.wanted = null;
        call.abortion?.abort(reason);
    }
    function resume(id) {
        const call = MapPrototypeGet(calls, id);
        if (call)
            wake(call);
    }

    // --- plain objects

    const settled = { __proto__: null, native: true, emulated: true, unsupported: true };

    // Each method is looked up once. Their features, as far as the module does not say it otherwise.
    function usePlain(infra) {
        const methods = new Map(), state = {};
        const pty = infra.pty ?? native.terminalsOf?.(infra.process);
        MapPrototypeForEach(ops, (row) => {
            const target = row.group === 'pty' ? pty : infra[row.group], fn = target?.[row.name];
            if (typeof fn === 'function')
                MapPrototypeSet(methods, row.method, { fn, target });
        });
        MapPrototypeForEach(ops, (row) => {
            if (MapPrototypeHas(methods, row.method))
                state[row.feature] = 'native';
        });
        MapPrototypeForEach(ops, (row) => {
            if (!MapPrototypeHas(methods, row.method) && state[row.feature])
                state[row.method] = 'unsupported';
        });
        native.refine?.(infra, state, (method) => MapPrototypeHas(methods, method));
        const said = infra.features ?? {};
        ArrayPrototypeForEach(ObjectKeys(said), (name) => {
            const value = said[name];
            if (typeof value === 'string' && settled[value])
                state[name] = value;
        });
        invoke = (call) => {
            const row = call.row, m = MapPrototypeGet(methods, row.method), context = new CallContext(call);
            if (!m)
                throw new errors.ProviderFeatureNotSupportedError(`the provider has no '${row.method}'`);
            if (!row.sandbox)
                return FunctionPrototypeCall(m.fn, m.target, call.params, context);
            const { sandboxId, ...params } = call.params;
            return FunctionPrototypeCall(m.fn, m.target, sandboxId, params, context);
        };
        return state;
    }

    // --- kit, ctx, the start

    const dispatchers = new WeakMap(); // what kit.epp.infra returned → what it was given

    function freezeAll(o) {
        if (typeof o === 'object' && o !== null && !ObjectIsFrozen(o)) {
            ObjectFreeze(o);
            ArrayPrototypeForEach(ObjectValues(o), freezeAll);
        }
        return o;
    }
    function makeKit(params) {
        return ObjectFreeze({
            hostVersion: params.hostVersion,
            errors,
            get SandboxProtocol() { return need('kit').SandboxProtocol; },
            get ProcessProtocol() { return need('kit').ProcessProtocol; },
            get FilesystemProtocol() { return need('kit').FilesystemProtocol; },
            get CodeInterpreterProtocol() { return need('kit').CodeInterpreterProtocol; },
            get e2b() { return need('kit').e2b; },
            epp: ObjectFreeze({
                infra(ctx, factory) {
                    if (typeof factory !== 'function')
                        throw new TypeError('kit.epp.infra(ctx, factory): factory must be a function');
                    const marker = ObjectFreeze({});
                    WeakMapPrototypeSet(dispatchers, marker, { ctx, factory });
                    return marker;
                },
            }),
        });
    }
    function makeContext(params) {
        return freezeAll({
            id: params.id, features: head.features, options: params.options ?? {}, core: params.core ?? {},
            secretKeys: params.secretKeys ?? [], callTimeout: params.callTimeoutMs,
            http: (options) => need('kit').http(options, params.callTimeoutMs),
            headerKeyAuth: (key, header) => need('kit').headerKeyAuth(key, header),
            noAuth: () => need('kit').noAuth(),
        });
    }
    function creator(namespace) {
        if (typeof namespace.create === 'function')
            return namespace.create;
        if (typeof namespace.default === 'function')
            return namespace.default;
        const names = ArrayPrototypeMap(ObjectKeys(namespace), (n) => `'${n}'`);
        throw new errors.ProviderStartError(`the module must export a function 'create', by name or as default; it exports ${
            names.length ? ArrayPrototypeJoin(names, ', ') : 'nothing'}`);
    }
    async function start(params, loading) {
        const ctx = makeContext(params);
        const provider = await creator(await loading)(makeKit(params));
        if (typeof provider?.buildInfra !== 'function')
            throw new errors.ProviderStartError("create(kit) must return an object with a function 'buildInfra'");
        const infra = await provider.buildInfra(ctx);
        if (typeof infra !== 'object' || infra === null)
            throw new errors.ProviderStartError('buildInfra(ctx) must return an object');
        const marker = WeakMapPrototypeGet(dispatchers, infra);
        if (!marker)
            return usePlain(infra);
        const used = await need('dispatcher').use(marker, ctx, params, errors, failed);
        invoke = used.invoke;
        return used.features;
    }
    function load(params, loading) {
        PromisePrototypeThen(start(params, loading), (state) => native.greeted(state), (e) => {
            const w = wireError(e);
            native.refused(w.code === 'E8008' ? { ...w, code: 'E8007', message: `the module cannot be loaded: ${w.message}` } : w);
        });
    }
    return { load, request, input, inputEnd, cancel, resume, report };
})
