// Globals of the web platform that are small: timers, console, events, abort, text. Returns what core.js needs of them.
(function (native) {
    'use strict';
    const define = (name, value) =>
        Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });

    // --- timers: one heap by time, a map by id; natively there is one alarm

    const MOST_MS = 2147483647;
    const timers = new Map();
    const heap = [];
    let nextId = 1;
    let armedFor = Infinity;

    const before = (a, b) => a.due < b.due || (a.due === b.due && a.seq < b.seq);
    function push(t) {
        let i = heap.length;
        heap[i] = t;
        while (i > 0) {
            const up = (i - 1) >> 1;
            if (!before(t, heap[up]))
                break;
            heap[i] = heap[up];
            i = up;
        }
        heap[i] = t;
    }
    function pop() {
        const first = heap[0], last = heap.pop();
        const n = heap.length;
        if (n === 0)
            return first;
        let i = 0;
        for (;;) {
            let down = 2 * i + 1;
            if (down >= n)
                break;
            if (down + 1 < n && before(heap[down + 1], heap[down]))
                down++;
            if (!before(heap[down], last))
                break;
            heap[i] = heap[down];
            i = down;
        }
        heap[i] = last;
        return first;
    }
    function arm() {
        while (heap.length > 0 && heap[0].gone)
            pop();
        const due = heap.length > 0 ? heap[0].due : Infinity;
        if (due === armedFor)
            return;
        armedFor = due;
        native.wake(due === Infinity ? -1 : Math.max(0, due - native.now()));
    }
    let seq = 0;
    function schedule(t, ms) {
        t.due = native.now() + ms;
        t.seq = seq++;
        push(t);
        arm();
    }
    function addTimer(name, fn, ms, args, repeat) {
        if (typeof fn !== 'function')
            throw new TypeError(`${name}: the first argument must be a function`);
        ms = Math.trunc(Number(ms));
        if (!(ms >= 1) || ms > MOST_MS)
            ms = repeat || ms > MOST_MS ? 1 : 0;
        const t = { id: nextId++, fn, args, every: repeat ? ms : -1, gone: false };
        timers.set(t.id, t);
        schedule(t, ms);
        return t.id;
    }
    function drop(id) {
        const t = timers.get(Number(id));
        if (!t)
            return;
        t.gone = true;
        timers.delete(t.id);
        if (heap.length > 1000 && heap.length > 4 * timers.size) {
            const living = heap.filter((x) => !x.gone);
            heap.length = 0;
            living.forEach(push);
        }
        arm();
    }
    function tick() {
        armedFor = Infinity;
        const until = native.now(), last = seq;
        while (heap.length > 0 && heap[0].due <= until && heap[0].seq < last) {
            const t = pop();
            if (t.gone)
                continue;
            if (t.every >= 0) {
                schedule(t, t.every);
            } else {
                t.gone = true;
                timers.delete(t.id);
            }
            // a microtask of its own: what it throws is reported, the next one runs
            queueMicrotask(() => run(t));
        }
        arm();
    }
    function run(t) {
        try {
            t.fn.apply(undefined, t.args);
        } catch (e) {
            web.report(e);
        }
    }
    define('setTimeout', function setTimeout(fn, ms, ...args) { return addTimer('setTimeout', fn, ms, args, false); });
    define('setInterval', function setInterval(fn, ms, ...args) { return addTimer('setInterval', fn, ms, args, true); });
    define('clearTimeout', function clearTimeout(id) { drop(id); });
    define('clearInterval', function clearInterval(id) { drop(id); });

    // --- console: to the log of the provider

    function show(v, depth, seen) {
        switch (typeof v) {
        case 'string': return depth ? JSON.stringify(v) : v;
        case 'bigint': return `${v}n`;
        case 'symbol': return String(v);
        case 'function': return `[function ${v.name || '(anonymous)'}]`;
        case 'object': break;
        default: return String(v);
        }
        if (v === null)
            return 'null';
        if (v instanceof Error)
            return web.describe(v);
        if (seen.includes(v))
            return '[circular]';
        if (depth >= 4)
            return Array.isArray(v) ? '[…]' : '{…}';
        const inner = (x) => show(x, depth + 1, [...seen, v]);
        if (Array.isArray(v))
            return `[${v.slice(0, 100).map(inner).join(', ')}${v.length > 100 ? ', …' : ''}]`;
        if (v instanceof Map)
            return `Map {${[...v].slice(0, 100).map(([k, x]) => `${inner(k)} => ${inner(x)}`).join(', ')}}`;
        if (v instanceof Set)
            return `Set {${[...v].slice(0, 100).map(inner).join(', ')}}`;
        if (ArrayBuffer.isView(v) || v instanceof ArrayBuffer)
            return `[${v.constructor.name} of ${v.byteLength} bytes]`;
        const keys = Object.keys(v);
        const body = keys.slice(0, 100).map((k) => `${k}: ${inner(v[k])}`).join(', ');
        return `{${body}${keys.length > 100 ? ', …' : ''}}`;
    }
    function text(args) {
        return args.map((v) => {
            try {
                return show(v, 0, []);
            } catch {
                return '[cannot be shown]';
            }
        }).join(' ').slice(0, 65536);
    }
    const say = (level) => (...args) => native.log(level, text(args));
    define('console', {
        log: say('info'), info: say('info'), debug: say('debug'), warn: say('warn'), error: say('error'), trace: say('debug'),
        assert(ok, ...args) { if (!ok) native.log('error', `assertion failed: ${text(args)}`); },
    });

    // --- events and abort

    class Event {
        #type; #cancelable; #prevented = false;
        target = null;
        timeStamp = performance.now();
        constructor(type, options = {}) {
            if (arguments.length === 0)
                throw new TypeError('Event: a type is needed');
            this.#type = String(type);
            this.#cancelable = !!options?.cancelable;
        }
        get type() { return this.#type; }
        get currentTarget() { return this.target; }
        get bubbles() { return false; }
        get cancelable() { return this.#cancelable; }
        get defaultPrevented() { return this.#prevented; }
        preventDefault() { if (this.#cancelable) this.#prevented = true; }
        stopPropagation() {}
        stopImmediatePropagation() { this.stopped = true; }
    }
    class EventTarget {
        #listeners = [];
        addEventListener(type, listener, options) {
            if (listener === null || listener === undefined)
                return;
            if (typeof listener !== 'function' && typeof listener !== 'object')
                throw new TypeError('addEventListener: a function or an object is needed');
            const o = typeof options === 'object' && options !== null ? options : {};
            type = String(type);
            if (o.signal?.aborted || this.#listeners.some((l) => l.type === type && l.listener === listener))
                return;
            this.#listeners.push({ type, listener, once: !!o.once });
            o.signal?.addEventListener('abort', () => this.removeEventListener(type, listener));
        }
        removeEventListener(type, listener) {
            this.#listeners = this.#listeners.filter((l) => l.type !== String(type) || l.listener !== listener);
        }
        dispatchEvent(event) {
            if (!(event instanceof Event))
                throw new TypeError('dispatchEvent: an Event is needed');
            event.target = this;
            for (const l of [...this.#listeners]) {
                if (l.type !== event.type || !this.#listeners.includes(l))
                    continue;
                if (l.once)
                    this.removeEventListener(l.type, l.listener);
                try {
                    if (typeof l.listener === 'function')
                        l.listener.call(this, event);
                    else
                        l.listener.handleEvent(event);
                } catch (e) {
                    web.report(e);
                }
                if (event.stopped)
                    break;
            }
            return !event.defaultPrevented;
        }
    }
    const secret = Symbol('abort');
    class AbortSignal extends EventTarget {
        #reason; #aborted = false; #steps = [];
        onabort = null;
        constructor(key) {
            super();
            if (key !== secret)
                throw new TypeError('AbortSignal is made by an AbortController');
        }
        get aborted() { return this.#aborted; }
        get reason() { return this.#reason; }
        throwIfAborted() { if (this.#aborted) throw this.#reason; }
        static abort(reason) {
            const s = new AbortSignal(secret);
            s.#abort(reason);
            return s;
        }
        static timeout(ms) {
            const s = new AbortSignal(secret);
            setTimeout(() => s.#abort(new DOMException('the time is over', 'TimeoutError')), ms);
            return s;
        }
        static any(signals) {
            const s = new AbortSignal(secret), list = [...signals];
            const first = list.find((x) => x.aborted);
            if (first)
                s.#abort(first.reason);
            else
                for (const x of list)
                    x.#steps.push(() => s.#abort(x.reason));
            return s;
        }
        static [secret](s, reason) { s.#abort(reason); }
        static onAbort(key, s, step) {
            if (key !== secret)
                return;
            s.#steps.push(step);
            return () => { s.#steps = s.#steps.filter((x) => x !== step); };
        }
        #abort(reason) {
            if (this.#aborted)
                return;
            this.#aborted = true;
            this.#reason = reason === undefined ? new DOMException('it was aborted', 'AbortError') : reason;
            for (const step of this.#steps.splice(0))
                step();
            const event = new Event('abort');
            if (typeof this.onabort === 'function') {
                try {
                    this.onabort.call(this, event);
                } catch (e) {
                    web.report(e);
                }
            }
            this.dispatchEvent(event);
        }
    }
    const abort = AbortSignal[secret], onAbort = AbortSignal.onAbort;
    delete AbortSignal[secret];
    delete AbortSignal.onAbort;
    class AbortController {
        #signal = new AbortSignal(secret);
        get signal() { return this.#signal; }
        abort(reason) { abort(this.#signal, reason); }
    }
    define('Event', Event);
    define('EventTarget', EventTarget);
    define('AbortSignal', AbortSignal);
    define('AbortController', AbortController);

    // --- text

    function bytesOf(v, what) {
        if (v === undefined)
            return new Uint8Array(0);
        if (v instanceof ArrayBuffer)
            return new Uint8Array(v);
        if (ArrayBuffer.isView(v))
            return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
        throw new TypeError(`${what}: an ArrayBuffer or a view of one is needed`);
    }
    class TextEncoder {
        get encoding() { return 'utf-8'; }
        encode(s = '') { return native.encode(String(s)); }
        encodeInto(s, to) {
            s = String(s);
            let read = 0, written = 0;
            for (const c of s) {
                const b = native.encode(c);
                if (written + b.length > to.length)
                    break;
                to.set(b, written);
                written += b.length;
                read += c.length;
            }
            return { read, written };
        }
    }
    class TextDecoder {
        #fatal; #keepBom; #state = [0, 0, 0, 0, 0]; #begun = false;
        constructor(label = 'utf-8', options = {}) {
            const names = ['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8', 'x-unicode20utf8'];
            if (!names.includes(String(label).trim().toLowerCase()))
                throw new RangeError(`TextDecoder: the encoding '${label}' is not known here`);
            this.#fatal = !!options?.fatal;
            this.#keepBom = !!options?.ignoreBOM;
        }
        get encoding() { return 'utf-8'; }
        get fatal() { return this.#fatal; }
        get ignoreBOM() { return this.#keepBom; }
        decode(input, options) {
            const stream = !!options?.stream;
            let s = native.decode(bytesOf(input, 'decode'), this.#state, !stream);
            const wrong = this.#state[5];
            if (!stream || (this.#fatal && wrong))
                this.#state = [0, 0, 0, 0, 0];
            if (this.#fatal && wrong) {
                this.#begun = false;
                throw new TypeError('the bytes are no UTF-8');
            }
            if (!this.#begun && s.length > 0) {
                this.#begun = true;
                if (!this.#keepBom && s.charCodeAt(0) === 0xFEFF)
                    s = s.slice(1);
            }
            if (!stream)
                this.#begun = false;
            return s;
        }
    }
    define('TextEncoder', TextEncoder);
    define('TextDecoder', TextDecoder);

    // --- random numbers, the process

    const hex = (b) => Array.from(b, (x) => (x + 256).toString(16).slice(1)).join('');
    define('crypto', {
        getRandomValues(view) {
            if (!ArrayBuffer.isView(view) || view instanceof DataView || view instanceof Float32Array ||
                view instanceof Float64Array)
                throw new DOMException('an array of whole numbers is needed', 'TypeMismatchError');
            if (view.byteLength > 65536)
                throw new DOMException('more than 65536 bytes', 'QuotaExceededError');
            new Uint8Array(view.buffer, view.byteOffset, view.byteLength).set(native.random(view.byteLength));
            return view;
        },
        randomUUID() {
            const b = native.random(16);
            b[6] = (b[6] & 15) | 64;
            b[8] = (b[8] & 63) | 128;
            const h = hex(b);
            return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
        },
    });
    define('process', Object.freeze({
        env: Object.freeze(Object.create(null)), argv: Object.freeze([]), platform: 'linux',
        versions: Object.freeze({ abx: native.version }),
    }));

    const web = {
        tick, bytesOf, abort,
        onAbort: (s, step) => onAbort(secret, s, step),
        isSignal: (v) => v instanceof AbortSignal,
        describe: String, report() {}, // core.js puts its own here
    };
    return web;
})
