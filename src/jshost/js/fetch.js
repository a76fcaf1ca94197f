// fetch(): redirects, abort and bodies over single requests (internal.http).
(function (internal) {
    'use strict';
    const { Uint8Array, Promise, TypeError, Error, WeakRef, JSON, Map } = globalThis;
    const { onAbort, isSignal } = internal.need('events');
    const REDIRECTS = 20, DRAIN = 65536;
    const NULL_BODY = [101, 204, 205, 304];

    // --- headers and answers, until those of the web platform are there

    const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
    class Headers {
        #map = new Map(); // name → values
        constructor(init) {
            if (init === undefined || init === null)
                return;
            if (typeof init !== 'object')
                throw new TypeError('Headers: an object or pairs are needed');
            for (const [name, value] of init[Symbol.iterator] ? init : Object.entries(init))
                this.append(name, value);
        }
        static #name(name) {
            name = String(name);
            if (!token.test(name))
                throw new TypeError(`Headers: '${name}' is no name of a header`);
            return name.toLowerCase();
        }
        static #value(value) {
            value = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
            if (/[\0\n\r]|[^\0-\xFF]/.test(value))
                throw new TypeError('Headers: a value has a character that is not allowed');
            return value;
        }
        append(name, value) {
            name = Headers.#name(name);
            value = Headers.#value(value);
            const list = this.#map.get(name);
            list ? list.push(value) : this.#map.set(name, [value]);
        }
        set(name, value) { this.#map.set(Headers.#name(name), [Headers.#value(value)]); }
        get(name) { return this.#map.get(Headers.#name(name))?.join(', ') ?? null; }
        has(name) { return this.#map.has(Headers.#name(name)); }
        delete(name) { this.#map.delete(Headers.#name(name)); }
        getSetCookie() { return [...this.#map.get('set-cookie') ?? []]; }
        *entries() {
            for (const name of [...this.#map.keys()].sort())
                if (name === 'set-cookie')
                    for (const value of this.#map.get(name))
                        yield [name, value];
                else
                    yield [name, this.get(name)];
        }
        *keys() { for (const [name] of this.entries()) yield name; }
        *values() { for (const [, value] of this.entries()) yield value; }
        forEach(fn, self) { for (const [name, value] of this.entries()) fn.call(self, value, name, this); }
        [Symbol.iterator]() { return this.entries(); }
    }
    const made = Symbol('made');
    class Response {
        #init; #source; #used = false;
        constructor(body, init = {}, key = undefined) {
            this.#init = { status: 200, statusText: '', url: '', redirected: false, ...init };
            this.#init.headers = new Headers(init.headers);
            if (key === made) {
                this.#source = body;
            } else {
                const bytes = bodyOf(body).bytes ?? null;
                let left = bytes;
                this.#source = bytes && {
                    async read() { const b = left; left = undefined; return b; },
                    async collect() { return left; },
                    async cancel() { left = undefined; },
                };
            }
        }
        get status() { return this.#init.status; }
        get statusText() { return this.#init.statusText; }
        get ok() { return this.status >= 200 && this.status < 300; }
        get url() { return this.#init.url; }
        get redirected() { return this.#init.redirected; }
        get headers() { return this.#init.headers; }
        get type() { return 'default'; }
        get bodyUsed() { return this.#used; }
        async bytes() {
            if (this.#used)
                throw new TypeError('the body was read already');
            if (!this.#source)
                return new Uint8Array(0);
            this.#used = true;
            return this.#source.collect();
        }
        async arrayBuffer() { return (await this.bytes()).buffer; }
        async text() {
            const { TextDecoder } = internal.need('text');
            return new TextDecoder().decode(await this.bytes());
        }
        async json() { return JSON.parse(await this.text()); }
        // chunk by chunk, until body is a stream
        async *[Symbol.asyncIterator]() {
            if (this.#used)
                throw new TypeError('the body was read already');
            this.#used = true;
            try {
                for (let chunk; this.#source && (chunk = await this.#source.read());)
                    yield chunk;
            } finally {
                await this.#source?.cancel();
            }
        }
    }
    const pairs = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
    const responseFrom = ({ headers, body, ...init }) => new Response(body, { ...init, headers: pairs(headers) }, made);
    function bodyOf(body) {
        if (body === undefined || body === null)
            return {};
        if (body instanceof ArrayBuffer || ArrayBuffer.isView(body))
            return { bytes: internal.need('text').bytesOf(body, 'body').slice() };
        if (typeof body === 'object' && typeof (body[Symbol.asyncIterator] ?? body[Symbol.iterator]) === 'function' && !(body instanceof String))
            return { stream: body };
        return { bytes: internal.encode(String(body)), type: 'text/plain;charset=UTF-8' };
    }
    const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'];
    function requestOf(input, init = {}) {
        init = init ?? {};
        let method = init.method === undefined ? 'GET' : String(init.method);
        if (!token.test(method) || ['CONNECT', 'TRACE', 'TRACK'].includes(method.toUpperCase()))
            throw new TypeError(`fetch: '${method}' is no method that can be used`);
        if (METHODS.includes(method.toUpperCase()))
            method = method.toUpperCase();
        const body = bodyOf(init.body), headers = new Headers(init.headers);
        if ((body.bytes || body.stream) && (method === 'GET' || method === 'HEAD'))
            throw new TypeError('fetch: a request with GET or HEAD has no body');
        if (body.stream && init.duplex !== 'half')
            throw new TypeError("fetch: a body that is a stream needs duplex: 'half'");
        if (body.type && !headers.has('content-type'))
            headers.set('content-type', body.type);
        const redirect = init.redirect === undefined ? 'follow' : String(init.redirect);
        if (!['follow', 'error', 'manual'].includes(redirect))
            throw new TypeError("fetch: redirect is 'follow', 'error' or 'manual'");
        const signal = init.signal ?? undefined;
        if (signal !== undefined && !isSignal(signal))
            throw new TypeError('fetch: signal must be an AbortSignal');
        return { method, url: String(input), headers: [...headers], redirect, signal, body };
    }

    // --- one request with its answer

    const broken = (message, cause) => new TypeError(message, cause === undefined ? undefined : { cause });

    // A body that comes by pieces goes out as the server takes it.
    async function pump(transfer, stream) {
        const iterator = (stream[Symbol.asyncIterator] ?? stream[Symbol.iterator]).call(stream);
        try {
            for (;;) {
                const { done, value } = await iterator.next();
                if (done)
                    return transfer.end();
                if (!(value instanceof Uint8Array))
                    throw new TypeError('fetch: pieces of a body must be Uint8Array');
                if (!await transfer.write(value))
                    break;
            }
        } catch (e) {
            transfer.abort(e);
        }
        await iterator.return?.();
    }
    // What Response reads from. signal's reason is what reading fails with once it is aborted.
    function sourceOf(transfer, signal) {
        const ref = new WeakRef(transfer); // a Response that nobody holds must not live by its signal
        const off = signal ? onAbort(signal, () => ref.deref()?.abort(signal.reason)) : () => {};
        const failed = (e) => {
            off();
            throw signal?.aborted ? signal.reason : broken('terminated', e);
        };
        return {
            read: () => transfer.read().then((chunk) => {
                if (chunk === undefined)
                    off();
                return chunk;
            }, failed),
            collect: () => transfer.collect().then((bytes) => {
                off();
                return bytes;
            }, failed),
            async cancel() {
                off();
                transfer.abort();
            },
        };
    }
    async function exchange(r, url, method, headers, body, signal) {
        const flat = headers.flat();
        const payload = body.stream ? true : body.bytes ?? undefined;
        let transfer;
        try {
            transfer = internal.http(method, url, flat, payload);
        } catch (e) {
            throw broken('fetch failed', e);
        }
        if (body.stream)
            pump(transfer, body.stream).catch(() => {});
        const off = signal ? onAbort(signal, () => transfer.abort(signal.reason)) : () => {};
        try {
            return { transfer, head: await transfer.head() };
        } catch (e) {
            if (signal?.aborted)
                throw signal.reason;
            throw e instanceof TypeError ? e : broken('fetch failed', e);
        } finally {
            off();
        }
    }
    function locationOf(head) {
        for (let i = 0; i < head.headers.length; i += 2)
            if (head.headers[i].toLowerCase() === 'location')
                return head.headers[i + 1];
        return undefined;
    }
    // The body of a redirect is of no use; a short one is read, so that its connection can go on.
    function discard(transfer, head) {
        const at = head.headers.findIndex((x, i) => i % 2 === 0 && x.toLowerCase() === 'content-length');
        if (at >= 0 && Number(head.headers[at + 1]) <= DRAIN)
            transfer.collect().catch(() => {});
        else if (!transfer.ended())
            transfer.abort();
    }
    const hostHeaders = ['authorization', 'proxy-authorization', 'cookie', 'host'];
    const bodyHeaders = ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length'];

    async function follow(r) {
        let { method, headers, body } = r;
        let at = place(r.url);
        for (let hops = 0; ; hops++) {
            const { transfer, head } = await exchange(r, at.href, method, headers, body, r.signal);
            const location = [301, 302, 303, 307, 308].includes(head.status) ? locationOf(head) : undefined;
            if (location === undefined || r.redirect === 'manual') {
                const empty = method === 'HEAD' || NULL_BODY.includes(head.status);
                return internal.responseFrom({
                    status: head.status, statusText: head.statusText, headers: head.headers, url: at.href, redirected: hops > 0,
                    body: empty ? null : sourceOf(transfer, r.signal),
                });
            }
            discard(transfer, head);
            if (r.redirect === 'error')
                throw broken('fetch failed', new Error('unexpected redirect'));
            if (hops >= REDIRECTS)
                throw broken('fetch failed', new Error('redirect count exceeded'));
            const next = place(location, at.href);
            if (head.status !== 303 && body.stream)
                throw broken('fetch failed', new Error('a body that was a stream cannot be sent again'));
            if (((head.status === 301 || head.status === 302) && method === 'POST') ||
                (head.status === 303 && method !== 'GET' && method !== 'HEAD')) {
                method = 'GET';
                body = {};
                headers = headers.filter(([name]) => !bodyHeaders.includes(name));
            }
            if (next.origin !== at.origin)
                headers = headers.filter(([name]) => !hostHeaders.includes(name));
            at = next;
        }
    }
    // An address, resolved; its fragment stays here.
    function place(text, base) {
        let at;
        try {
            at = internal.place(text, base);
        } catch (e) {
            throw broken('fetch failed', e);
        }
        if (at.credentials)
            throw broken('fetch failed', new TypeError('the URL holds a user or a password'));
        return at;
    }
    internal.responseFrom ??= responseFrom;
    async function fetch(input, init) {
        if (arguments.length === 0)
            throw new TypeError('fetch: a URL is needed');
        const r = requestOf(input, init);
        if (r.signal?.aborted)
            throw r.signal.reason;
        return follow(r);
    }
    return { fetch, Headers, Response };
})
