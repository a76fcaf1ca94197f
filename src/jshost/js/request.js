// Request, as the fetch standard says. What only browsers mean by it (mode, cache …) is kept and told, and changes nothing.
(function (internal) {
    'use strict';
    const { idl, need, byteString, usv, isObject } = internal.need('idl');
    const bodies = internal.need('body'), headers = internal.need('headers'), events = internal.need('events');
    const NORMAL = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'], secret = Symbol('made by the runtime');
    const VALUES = {
        cache: ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached'],
        credentials: ['omit', 'same-origin', 'include'], duplex: ['half'], mode: ['navigate', 'same-origin', 'no-cors', 'cors'],
        priority: ['high', 'low', 'auto'], redirect: ['follow', 'error', 'manual'],
        referrerPolicy: ['', 'no-referrer', 'no-referrer-when-downgrade', 'same-origin', 'origin', 'strict-origin', 'origin-when-cross-origin',
            'strict-origin-when-cross-origin', 'unsafe-url'],
    };

    // The members of init that are there, in the order of their names.
    function readInit(init) {
        const out = {};
        if (init === undefined || init === null)
            return out;
        if (!isObject(init))
            throw new TypeError('Request: init must be an object');
        const one = (name, convert) => {
            const v = init[name];
            if (v !== undefined)
                out[name] = convert(v, name);
        };
        const choice = (v, name) => {
            v = `${v}`;
            if (!VALUES[name].includes(v))
                throw new TypeError(`Request: ${name} '${v.slice(0, 80)}' is not known`);
            return v;
        };
        one('body', (v) => v);
        one('cache', choice);
        one('credentials', choice);
        one('duplex', choice);
        one('headers', (v) => v);
        one('integrity', (v) => `${v}`);
        one('keepalive', Boolean);
        one('method', byteString);
        one('mode', choice);
        one('priority', choice);
        one('redirect', choice);
        one('referrer', usv);
        one('referrerPolicy', choice);
        one('signal', (v) => {
            if (v !== null && !events.isSignal(v))
                throw new TypeError('Request: signal must be an AbortSignal');
            return v;
        });
        one('window', (v) => v);
        return out;
    }
    function validMethod(method) {
        const upper = method.toUpperCase();
        if (!headers.isToken(method) || upper === 'CONNECT' || upper === 'TRACE' || upper === 'TRACK')
            throw new TypeError(`Request: '${method.slice(0, 80)}' is no method that can be used`);
        return NORMAL.includes(upper) ? upper : method;
    }
    function addressOf(text) {
        const u = internal.urlParse(text, internal.base);
        if (u === undefined)
            throw new TypeError(`Request: '${text.slice(0, 200)}' is no URL`);
        if (internal.urlGet(u, 3) !== '' || internal.urlGet(u, 4) !== '')
            throw new TypeError('Request: the URL holds a user or a password');
        return internal.urlGet(u, 0);
    }
    function fromInput(input) {
        const other = stateOf(input);
        if (other !== undefined)
            return { ...other, headers: headers.newState('request'), signal: undefined, body: null };
        return {
            method: 'GET', url: addressOf(`${input}`), headers: headers.newState('request'), referrer: 'about:client', referrerPolicy: '',
            mode: 'cors', credentials: 'same-origin', cache: 'default', redirect: 'follow', integrity: '', keepalive: false,
            signal: undefined, body: null,
        };
    }
    function applyInit(r, o) {
        if (o.window !== undefined && o.window !== null)
            throw new TypeError('Request: window must be null');
        if (o.mode === 'navigate')
            throw new TypeError("Request: mode 'navigate' cannot be asked for");
        for (const name of ['mode', 'credentials', 'cache', 'redirect', 'integrity', 'keepalive', 'referrerPolicy'])
            if (o[name] !== undefined)
                r[name] = o[name];
        if (o.referrer !== undefined)
            setReferrer(r, o.referrer);
        if (r.cache === 'only-if-cached' && r.mode !== 'same-origin')
            throw new TypeError("Request: cache 'only-if-cached' needs mode 'same-origin'");
        if (o.method !== undefined)
            r.method = validMethod(o.method);
    }
    function setReferrer(r, text) {
        if (text === '') {
            r.referrer = 'no-referrer';
            return;
        }
        const u = internal.urlParse(text, internal.base);
        if (u === undefined)
            throw new TypeError(`Request: referrer '${text.slice(0, 200)}' is no URL`);
        r.referrer = internal.urlGet(u, 0);
    }
    function setBody(r, o, other) {
        const inherited = other?.body ?? null;
        if (((o.body !== undefined && o.body !== null) || inherited !== null) && (r.method === 'GET' || r.method === 'HEAD'))
            throw new TypeError('Request: one with GET or HEAD has no body');
        if (o.body !== undefined && o.body !== null) {
            r.body = bodies.extract(o.body);
            if (r.body.type !== undefined && headers.get(r.headers, 'content-type') === null)
                headers.append(r.headers, 'content-type', r.body.type);
            if (r.body.stream !== undefined && o.duplex === undefined)
                throw new TypeError("Request: a body that is a stream needs duplex: 'half'");
            return;
        }
        if (inherited === null)
            return;
        if (bodies.isUsed(inherited) || bodies.isLocked(inherited))
            throw new TypeError('Request: the body was read already, or is locked');
        if (o.body === null)
            return;
        // The new request takes the body over; the old one has been used.
        r.body = { ...inherited };
        if (r.body.stream !== undefined)
            r.body.stream = proxyOf(r.body.stream);
        inherited.used = true;
    }
    // A stream that reads the other one, which is locked from here on.
    function proxyOf(rs) {
        const { TransformStream } = internal.need('streams_transform'), t = new TransformStream();
        return internal.need('streams').stateOf(internal.need('streams_pipe').pipeThrough(rs, t, {}, 1));
    }
    function create(input, init) {
        const o = readInit(init), r = fromInput(input), other = stateOf(input);
        applyInit(r, o);
        const signal = o.signal !== undefined ? o.signal : other?.signal ?? null;
        r.signal = undefined;
        r.follows = signal;
        if (o.headers !== undefined)
            headers.fill(r.headers, o.headers);
        else if (other !== undefined)
            r.headers.list = other.headers.list.map((x) => [...x]);
        setBody(r, o, other);
        return r;
    }
    // Made when it is asked for.
    function signalOf(r) {
        r.signal ??= r.follows === null ? events.newSignal() : events.anyOf([r.follows]);
        return r.signal;
    }
    class Request {
        #r; #headers;
        static stateOf(v) { return isObject(v) && #r in v ? v.#r : undefined; }
        constructor(input, init = {}) {
            if (input === secret) {
                this.#r = init;
                return;
            }
            need(arguments, 1, 'Request');
            this.#r = create(input, init);
            signalOf(this.#r);
        }
        get method() { return this.#r.method; }
        get url() { return this.#r.url; }
        get headers() {
            this.#headers ??= headers.wrap(this.#r.headers);
            return this.#headers;
        }
        get destination() { this.#r; return ''; }
        get referrer() { return this.#r.referrer === 'no-referrer' ? '' : this.#r.referrer; }
        get referrerPolicy() { return this.#r.referrerPolicy; }
        get mode() { return this.#r.mode; }
        get credentials() { return this.#r.credentials; }
        get cache() { return this.#r.cache; }
        get redirect() { return this.#r.redirect; }
        get integrity() { return this.#r.integrity; }
        get keepalive() { return this.#r.keepalive; }
        get isReloadNavigation() { this.#r; return false; }
        get isHistoryNavigation() { this.#r; return false; }
        get signal() { return signalOf(this.#r); }
        get duplex() { this.#r; return 'half'; }
        clone() {
            const r = this.#r, { body } = r;
            if (body !== null && (bodies.isUsed(body) || bodies.isLocked(body)))
                throw new TypeError('clone: the body was read already, or is locked');
            const h = headers.newState('request');
            h.list = r.headers.list.map((x) => [...x]);
            return new Request(secret, {
                ...r, headers: h, body: body === null ? null : bodies.clone(body), signal: events.anyOf([signalOf(r)]),
            });
        }
    }
    const { stateOf } = Request;
    delete Request.stateOf;
    bodies.mixin(Request, stateOf);
    idl(Request);

    // What fetch(input, init) sends: {method, url, headers: [[name, value] …], redirect, signal, body: {bytes} or {stream} or {}}. Uses up
    // the body of a Request.
    function forFetch(input, init) {
        const r = create(input, init);
        return {
            method: r.method, url: r.url, headers: headers.combined(r.headers).map((x) => [...x]), redirect: r.redirect,
            signal: r.follows ?? undefined, integrity: r.integrity, body: bodies.toSend(r.body),
        };
    }
    return { Request, forFetch, stateOf };
})
