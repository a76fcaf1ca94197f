// The kit's classes over services of E2B's shape (kit.c), ctx.http and kit.e2b. Loaded when a module first takes one of them.
(function (internal) {
    'use strict';
    const {
        ArrayBuffer, ArrayBufferIsView, ArrayIsArray, ArrayPrototypeFilter, ArrayPrototypeForEach, ArrayPrototypePush, FunctionPrototypeCall, JSONParse,
        ObjectCreate, ObjectDefineProperty, ObjectFreeze, ObjectGetPrototypeOf, ObjectKeys, Promise, String, StringPrototypeEndsWith, StringPrototypeSlice,
        StringPrototypeSplit, StringPrototypeStartsWith, StringPrototypeTrim, SymbolAsyncIterator, SymbolIterator, TypeError, WeakMap,
        WeakMapPrototypeGet, WeakMapPrototypeHas, WeakMapPrototypeSet,
    } = internal.need('primordials');
    const { errors } = internal.need('errors');
    const rows = ArrayPrototypeFilter(internal.ops, (row) => internal.e2bHas(row.method));
    const typeOfCode = { __proto__: null };
    for (const row of internal.errors)
        typeOfCode[row.code] = row.type;
    internal.kitError = (code, message, hint, retryable) => new errors[typeOfCode[code]](message, { __proto__: null, code, hint, retryable });
    const isObject = (v) => typeof v === 'object' && v !== null;

    // --- keys and addresses

    const auths = new WeakMap(), places = new WeakMap();
    function headerKeyAuth(key, header = 'X-API-Key') {
        if (typeof key !== 'string' || key === '')
            throw new errors.InvalidAPIKeyError(`no key for provider '${internal.head.id}'`);
        const auth = ObjectFreeze({});
        WeakMapPrototypeSet(auths, auth, { __proto__: null, key, header: String(header) });
        return auth;
    }
    function noAuth() {
        const auth = ObjectFreeze({});
        WeakMapPrototypeSet(auths, auth, { __proto__: null });
        return auth;
    }
    class Http {
        constructor(place) {
            WeakMapPrototypeSet(places, this, place);
            ObjectFreeze(this);
        }
        get baseUrl() { return WeakMapPrototypeGet(places, this)?.baseUrl; }
        // As fetch, with the address in front, the key, and a time limit.
        request(path, init = {}) {
            const { baseUrl, auth, headers, timeoutMs } = WeakMapPrototypeGet(places, this);
            const { query, json, ...rest } = init ?? {};
            const all = { ...headers };
            if (auth.key)
                all[auth.header] = auth.key;
            if (json !== undefined) {
                all['content-type'] = 'application/json';
                rest.body = JSON.stringify(json);
                rest.method ??= 'POST';
            }
            let url = baseUrl + (StringPrototypeStartsWith(String(path), '/') ? '' : '/') + String(path);
            ArrayPrototypeForEach(ObjectKeys(query ?? {}), (name, i) => {
                if (query[name] !== undefined)
                    url += `${i || url.includes('?') ? '&' : '?'}${encodeURIComponent(name)}=${encodeURIComponent(query[name])}`;
            });
            const { AbortSignal } = internal.need('events');
            const limit = timeoutMs > 0 ? AbortSignal.timeout(timeoutMs) : undefined;
            rest.signal = rest.signal && limit ? AbortSignal.any([rest.signal, limit]) : rest.signal ?? limit;
            return internal.need('fetch').fetch(url, { ...rest, headers: { ...all, ...rest.headers } });
        }
    }
    ObjectFreeze(Http.prototype);
    function http(options, callTimeout) {
        const { baseUrl, auth = noAuth(), headers = {}, timeoutMs = callTimeout } = options ?? {};
        const known = isObject(auth) ? WeakMapPrototypeGet(auths, auth) : undefined;
        if (!known)
            throw new TypeError('ctx.http: auth is what ctx.headerKeyAuth(key, header) or ctx.noAuth() return');
        if (typeof baseUrl !== 'string' || !/^https?:\/\/[^/]/.test(baseUrl))
            throw new errors.ProviderConfigError(typeof baseUrl === 'string' && baseUrl !== ''
                ? `provider '${internal.head.id}': its address '${baseUrl}' does not begin with https:// or http://`
                : `provider '${internal.head.id}' has no address`);
        const url = StringPrototypeEndsWith(baseUrl, '/') ? StringPrototypeSlice(baseUrl, 0, -1) : baseUrl;
        return new Http(ObjectFreeze({ __proto__: null, baseUrl: url, auth: known, headers: ObjectFreeze({ ...headers }), timeoutMs }));
    }

    // --- runs

    // A piece of input as bytes.
    const pieces = (v) => (typeof v === 'string' ? internal.encode(v) : v);
    async function feed(run, source) {
        try {
            if (typeof source === 'string' || source instanceof ArrayBuffer || ArrayBufferIsView(source))
                source = [source];
            const make = source?.[SymbolAsyncIterator] ?? source?.[SymbolIterator];
            if (typeof make === 'function') {
                const iterator = FunctionPrototypeCall(make, source);
                for (let step; !(step = await iterator.next()).done;)
                    if (!await run.write(pieces(step.value))) {
                        await iterator.return?.();
                        break;
                    }
            }
            run.writeEnd();
        } catch (e) {
            run.cancel();
            throw e;
        }
    }
    // For a call of the host: events and bytes pass by here.
    async function carry(service, row, params, given) {
        const run = service.run(row.method, params, given.id);
        for (const bytes of given.input) {
            internal.taken(given.id, bytes.length);
            await run.write(bytes);
        }
        if (given.inputOver)
            run.writeEnd();
        try {
            return await run.end();
        } finally {
            void run; // it must live until here
        }
    }
    async function whole(run, signal, source) {
        const off = signal ? internal.need('events').onAbort(signal, () => run.cancel()) : () => {};
        try {
            const fed = source === undefined ? undefined : feed(run, source);
            fed?.catch(() => {});
            const result = await run.end();
            await fed;
            return result;
        } catch (e) {
            throw signal?.aborted ? signal.reason : e;
        } finally {
            off();
        }
    }
    async function* items(run, row, signal) {
        const off = signal ? internal.need('events').onAbort(signal, () => run.cancel()) : () => {};
        try {
            for (let item; (item = await run.next()) !== undefined;)
                if (row.style === 'body-out')
                    yield item.data;
                else
                    yield item.data === undefined ? { type: item.type, ...item.event } : { type: item.type, data: item.data };
            return await run.end();
        } catch (e) {
            throw signal?.aborted ? signal.reason : e;
        } finally {
            run.cancel();
            off();
        }
    }
    // last: what the runtime gave the method, {signal, input} of a module's own call, or nothing.
    function start(service, row, params, last) {
        const given = internal.handOver(last);
        if (given)
            return carry(service, row, params, given);
        const signal = last?.signal;
        if (signal?.aborted)
            return Promise.reject(signal.reason);
        const run = service.run(row.method, params, undefined);
        if (row.style === 'unary')
            return whole(run, signal);
        if (row.style === 'body-in')
            return whole(run, signal, last?.input ?? '');
        return items(run, row, signal);
    }

    // --- the classes

    let serviceOf; // (protocol) → its Service, or undefined
    class Protocol {
        #service;
        constructor(service) { this.#service = service; }
        static of(v) { return isObject(v) && #service in v ? v.#service : undefined; }
    }
    serviceOf = Protocol.of;
    delete Protocol.of;
    const bases = new WeakMap(); // overlay → what it lies on
    const originals = new WeakMap(); // method of a class of the kit → row

    function makeMethods(C, group, named = (row) => row.name) {
        ArrayPrototypeForEach(ArrayPrototypeFilter(rows, (row) => row.group === group), (row) => {
            const name = named(row);
            const method = {
                [name](...args) {
                    const service = serviceOf(this);
                    if (!service)
                        throw new TypeError(`${C.name}.${name}: it is called on something else`);
                    if (!row.sandbox)
                        return start(service, row, args[0] ?? {}, args[1]);
                    return start(service, row, { ...args[1], sandboxId: args[0] }, args[2]);
                },
            }[name];
            WeakMapPrototypeSet(originals, method, row);
            ObjectDefineProperty(C.prototype, name, { __proto__: null, value: method, writable: true, configurable: true });
        });
    }
    class SandboxProtocol extends Protocol {
        constructor(options) {
            const { http: at, domain, template, user, metadata, dialect = {}, callTimeoutMs } = options ?? {};
            const place = isObject(at) ? WeakMapPrototypeGet(places, at) : undefined;
            if (!place)
                throw new TypeError('SandboxProtocol({http, …}): http is what ctx.http(…) returns');
            super(internal.e2bService({
                apiUrl: place.baseUrl, apiKey: place.auth.key, authHeader: place.auth.header, provider: internal.head.id,
                callTimeoutMs: callTimeoutMs ?? place.timeoutMs, domain, template, user, metadata, dialect,
            }));
        }
    }
    const needsSandbox = (name, options) => {
        const service = serviceUnder(options?.sandbox);
        if (!service)
            throw new TypeError(`${name}({sandbox, …}): sandbox is a SandboxProtocol, or an overlay on one`);
        return service;
    };
    class PtyProtocol extends Protocol {}
    class ProcessProtocol extends Protocol {
        #pty;
        constructor(options) {
            const service = needsSandbox('ProcessProtocol', options);
            super(service);
            this.#pty = new PtyProtocol(service);
        }
        // Terminals: `pty` of what buildInfra returns; also taken from here when that is missing.
        get pty() { return this.#pty; }
    }
    class FilesystemProtocol extends Protocol {
        constructor(options) { super(needsSandbox('FilesystemProtocol', options)); }
    }
    class CodeInterpreterProtocol extends Protocol {
        constructor(options) { super(needsSandbox('CodeInterpreterProtocol', options)); }
    }
    makeMethods(SandboxProtocol, 'sandbox');
    makeMethods(ProcessProtocol, 'process');
    makeMethods(PtyProtocol, 'pty');
    makeMethods(FilesystemProtocol, 'filesystem');
    makeMethods(CodeInterpreterProtocol, 'code');

    // --- kit.e2b

    const under = (v) => {
        while (isObject(v) && WeakMapPrototypeHas(bases, v))
            v = WeakMapPrototypeGet(bases, v);
        return v;
    };
    function serviceUnder(v) { return serviceOf(under(v)); }

    const passes = new WeakMap(); // function of an overlay that replaces nothing → the overlay's base
    // An object with the operations of base, some of them replaced: methods are called with it as `this` and the base as the last argument.
    class Overlay {}
    function overlay(base, methods) {
        if (!serviceUnder(base) || !isObject(methods))
            throw new TypeError('kit.e2b.overlay(base, methods): base is a protocol of the kit or an overlay');
        const o = new Overlay(), names = { __proto__: null };
        for (let at = base; at !== null && at !== Object.prototype; at = ObjectGetPrototypeOf(at))
            ArrayPrototypeForEach(Reflect.ownKeys(at), (name) => {
                if (typeof name === 'string' && name !== 'constructor' && name !== 'pty' && typeof base[name] === 'function')
                    names[name] = true;
            });
        for (const name of ObjectKeys(methods))
            if (typeof methods[name] === 'function')
                names[name] = true;
        for (const name of ObjectKeys(names)) {
            const own = methods[name];
            const value = typeof own === 'function'
                ? (...args) => {
                    while (args.length < own.length - 1)
                        ArrayPrototypePush(args, undefined);
                    return FunctionPrototypeCall(own, o, ...args, base);
                }
                : (...args) => base[name](...args);
            if (typeof own !== 'function')
                WeakMapPrototypeSet(passes, value, base);
            ObjectDefineProperty(o, name, { __proto__: null, value, enumerable: true });
        }
        WeakMapPrototypeSet(bases, o, base);
        return ObjectFreeze(o);
    }
    // By the service's routes for connect, and where it has none of them by resume.
    function resumeConnect(sandbox, id, options, call) {
        const base = under(sandbox);
        if (!serviceOf(base))
            throw new TypeError('kit.e2b.resumeConnect(sandbox, id, options): sandbox is a SandboxProtocol, or an overlay on one');
        return FunctionPrototypeCall(SandboxProtocol.prototype.connect, base, id, options, call);
    }
    function withDefault(options, defaults) {
        const out = { ...options };
        for (const key of ObjectKeys(defaults ?? {}))
            if (out[key] === undefined)
                out[key] = defaults[key];
        return out;
    }
    // The lines of an answer of /execute: {results, logs: {stdout, stderr}, error?, executionCount?}
    function parseExecution(body) {
        const text = typeof body === 'string' ? body : internal.need('text').utf8(internal.need('text').bytesOf(body, 'parseExecution'));
        const out = { results: [], logs: { stdout: [], stderr: [] } };
        for (let line of StringPrototypeSplit(text, '\n')) {
            line = StringPrototypeTrim(line);
            if (StringPrototypeStartsWith(line, 'data:'))
                line = StringPrototypeTrim(StringPrototypeSlice(line, 5));
            if (line === '')
                continue;
            const { type, ...item } = JSONParse(line);
            if (type === 'stdout' || type === 'stderr') {
                ArrayPrototypePush(out.logs[type], item.text ?? '');
            } else if (type === 'result') {
                const { is_main_result: isMain = false, ...result } = item;
                ArrayPrototypePush(out.results, { ...result, isMain });
            } else if (type === 'error') {
                const { name, value, traceback } = item;
                out.error = { name, value, traceback: ArrayIsArray(traceback) ? traceback.join('\n') : traceback };
            } else if (type === 'number_of_executions') {
                out.executionCount = item.execution_count;
            }
        }
        return out;
    }

    // --- what core.js asks

    internal.terminalsOf = (process) => {
        const base = under(process);
        return base instanceof ProcessProtocol && serviceOf(base) ? base.pty : undefined;
    };
    // Features of a module whose sandboxes are such a service's: what the service lacks, and what is made of commands.
    internal.refine = (infra, state, has) => {
        if (!serviceUnder(infra.sandbox))
            return;
        const pty = infra.pty ?? internal.terminalsOf(infra.process);
        let ranges = false;
        for (const row of rows) { // what nobody replaced is C's affair alone
            let target = row.group === 'pty' ? pty : infra[row.group], fn = target?.[row.name];
            while (typeof fn === 'function' && WeakMapPrototypeHas(passes, fn)) {
                target = WeakMapPrototypeGet(passes, fn);
                fn = target[row.name];
            }
            if (typeof fn === 'function' && WeakMapPrototypeGet(originals, fn) === row) {
                serviceOf(target)?.direct(row.method);
                ranges = ranges || row.method === 'fs.read';
            }
        }
        const known = internal.e2bFeatures(internal.head.features);
        for (const name of ObjectKeys(state))
            delete state[name];
        for (const name of ObjectKeys(known))
            state[name] = known[name];
        if (!ranges) // a method of the module's own may not know of offset and limit
            state['filesystem.range'] = 'unsupported';
        for (const row of internal.ops)
            if (!has(row.method) && state[row.feature] && state[row.feature] !== 'unsupported')
                state[row.method] = 'unsupported';
            else if (has(row.method) && !internal.e2bHas(row.method))
                state[row.method] = 'native';
    };
    for (const C of [Protocol, SandboxProtocol, ProcessProtocol, PtyProtocol, FilesystemProtocol, CodeInterpreterProtocol])
        ObjectFreeze(C.prototype);
    return {
        http, headerKeyAuth, noAuth, SandboxProtocol, ProcessProtocol, FilesystemProtocol, CodeInterpreterProtocol,
        e2b: ObjectFreeze({ resumeConnect, withDefault, overlay, parseExecution }),
    };
})
