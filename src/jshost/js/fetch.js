// fetch(): redirects, abort and bodies over single requests (internal.http).
(function (internal) {
    'use strict';
    const { Uint8Array, Promise, TypeError, Error, WeakRef, JSON, Map } = globalThis;
    const { onAbort, isSignal } = internal.need('events');
    const REDIRECTS = 20, DRAIN = 65536;
    const NULL_BODY = [101, 204, 205, 304];

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
        // Both weak: a Response that nobody holds must not live by its signal.
        let body;
        const ref = new WeakRef(transfer), off = signal ? onAbort(signal, () => {
            ref.deref()?.abort(signal.reason);
            body.deref()?.aborted?.(signal.reason);
        }) : () => {};
        const failed = (e) => {
            off();
            throw signal?.aborted ? signal.reason : broken('terminated', e);
        };
        const source = {
            aborted: undefined, // the body's own: what it does when the signal is aborted
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
        body = new WeakRef(source);
        return source;
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
                const source = empty ? null : sourceOf(transfer, r.signal);
                return internal.need('response').responseFrom({
                    status: head.status, statusText: head.statusText, headers: head.headers, url: at.href, redirected: hops > 0,
                    body: r.integrity ? await internal.need('integrity').checked(source, r.integrity) : source,
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
        const { urlParse, urlGet, urlSet } = internal, u = urlParse(text, base);
        if (u === undefined)
            throw broken('fetch failed', new TypeError(`'${text.slice(0, 200)}' is no URL`));
        const protocol = urlGet(u, 2);
        if (protocol !== 'http:' && protocol !== 'https:')
            throw broken('fetch failed', new TypeError(`'${protocol.slice(0, 40)}' is neither http nor https`));
        if (urlGet(u, 3) !== '' || urlGet(u, 4) !== '')
            throw broken('fetch failed', new TypeError('the URL holds a user or a password'));
        if (internal.need('ports').isBlocked(urlGet(u, 7)))
            throw broken('fetch failed', new TypeError(`bad port: ${urlGet(u, 7)} belongs to another protocol`));
        urlSet(u, 10, '');
        return { href: urlGet(u, 0), origin: urlGet(u, 1) };
    }
    async function fetch(input, init) {
        if (arguments.length === 0)
            throw new TypeError('fetch: a URL is needed');
        const r = internal.need('request').forFetch(input, init);
        if (r.url.startsWith('data:'))
            return internal.need('data_url').answer(r.url, r.method, r.integrity);
        if (r.signal?.aborted)
            throw r.signal.reason;
        return follow(r);
    }
    return { fetch };
})
