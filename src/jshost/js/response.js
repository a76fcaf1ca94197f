// Response, as the fetch standard says.
(function (internal) {
    'use strict';
    const { idl, need, byteString, isObject } = internal.need('idl');
    const bodies = internal.need('body'), headers = internal.need('headers');
    const NULL_BODY = [101, 103, 204, 205, 304], secret = Symbol('made by the runtime');

    function readInit(init) {
        if (init === undefined || init === null)
            init = {};
        if (!isObject(init))
            throw new TypeError('Response: init must be an object');
        const given = init.headers, status = init.status === undefined ? 200 : Math.trunc(Number(init.status)) & 0xFFFF;
        const statusText = init.statusText === undefined ? '' : byteString(init.statusText, 'statusText');
        return { given, status, statusText };
    }
    function checkInit({ status, statusText }) {
        if (status < 200 || status > 599)
            throw new RangeError(`Response: status ${status} is not between 200 and 599`);
        if (/[^\t\x20-\x7E\x80-\xFF]/.test(statusText))
            throw new TypeError('Response: statusText has a character that is not allowed');
    }
    const newState = (init, body, guard) => ({
        type: 'default', url: '', redirected: false, status: init.status, statusText: init.statusText, headers: headers.newState(guard), body,
    });
    // body: as bodies.extract makes it, or null
    function initialize(init, body, type = body?.type) {
        checkInit(init);
        const r = newState(init, body, 'response');
        if (init.given !== undefined)
            headers.fill(r.headers, init.given);
        if (body !== null) {
            if (NULL_BODY.includes(init.status))
                throw new TypeError(`Response: one with status ${init.status} has no body`);
            if (type !== undefined && headers.get(r.headers, 'content-type') === null)
                headers.append(r.headers, 'content-type', type);
        }
        return r;
    }
    class Response {
        #r; #headers;
        static stateOf(v) { return isObject(v) && #r in v ? v.#r : undefined; }
        constructor(body = null, init = {}) {
            if (body === secret) {
                this.#r = init;
                return;
            }
            const made = body === null || body === undefined ? null : bodies.extract(body);
            this.#r = initialize(readInit(init), made);
        }
        static error() {
            return new Response(secret, { ...newState({ status: 0, statusText: '' }, null, 'immutable'), type: 'error' });
        }
        static json(data, init = {}) {
            need(arguments, 1, 'Response.json');
            const text = JSON.stringify(data);
            if (text === undefined)
                throw new TypeError('Response.json: this is nothing that JSON could hold');
            return new Response(secret, initialize(readInit(init), bodies.extract(text), 'application/json'));
        }
        static redirect(url, status = 302) {
            need(arguments, 1, 'Response.redirect');
            const u = internal.urlParse(`${url}`, internal.base);
            status = Math.trunc(Number(status)) & 0xFFFF;
            if (u === undefined)
                throw new TypeError(`Response.redirect: '${`${url}`.slice(0, 200)}' is no URL`);
            if (![301, 302, 303, 307, 308].includes(status))
                throw new RangeError(`Response.redirect: ${status} is no status of a redirect`);
            const r = newState({ status, statusText: '' }, null, 'immutable');
            headers.append(r.headers, 'location', internal.urlGet(u, 0));
            return new Response(secret, r);
        }
        get type() { return this.#r.type; }
        get url() { return this.#r.url; }
        get redirected() { return this.#r.redirected; }
        get status() { return this.#r.status; }
        get ok() { return this.#r.status >= 200 && this.#r.status < 300; }
        get statusText() { return this.#r.statusText; }
        get headers() {
            this.#headers ??= headers.wrap(this.#r.headers);
            return this.#headers;
        }
        clone() {
            const r = this.#r, { body } = r;
            if (body !== null && (bodies.isUsed(body) || bodies.isLocked(body)))
                throw new TypeError('clone: the body was read already, or is locked');
            const h = headers.newState(r.headers.guard);
            h.list = r.headers.list.map((x) => [...x]);
            return new Response(secret, { ...r, headers: h, body: body === null ? null : bodies.clone(body) });
        }
    }
    const { stateOf } = Response;
    delete Response.stateOf;
    bodies.mixin(Response, stateOf);
    idl(Response);

    // An answer of the network. headers: [name, value, …]; body: a source {read, collect, cancel}, or null.
    function responseFrom({ status, statusText, headers: flat, url, redirected, body }) {
        const hash = url.indexOf('#');
        return new Response(secret, {
            type: 'basic', url: hash < 0 ? url : url.slice(0, hash), redirected, status, statusText,
            headers: headers.fromFlat(flat, 'immutable'), body: body === null ? null : bodies.fromNative(body),
        });
    }
    return { Response, responseFrom, stateOf };
})
