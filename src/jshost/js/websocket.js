// WebSocket over connections of websocket.c, and the events that it fires.
(function (internal) {
    'use strict';
    const { Event, EventTarget, fire, handler, dictionary } = internal.need('events');
    const { idl, need } = internal.need('idl');
    const { isToken } = internal.need('headers');
    const CONNECTING = 0, OPEN = 1, CLOSING = 2, CLOSED = 3;
    const CLOSE_MS = 10000; // for the server to answer a close
    const OUT_MAX = 64 << 20; // bytes that may wait to be sent
    // What the handshake says for itself.
    const OWN = ['host', 'connection', 'upgrade', 'sec-websocket-key', 'sec-websocket-version', 'sec-websocket-protocol', 'sec-websocket-extensions'];

    class MessageEvent extends Event {
        #data; #origin; #lastEventId; #source; #ports;
        constructor(type, init = {}) {
            need(arguments, 1, 'MessageEvent');
            super(type, init);
            const { data = null, origin = '', lastEventId = '', source = null, ports = [] } = dictionary(init, 'eventInitDict');
            this.#data = data;
            this.#origin = `${origin}`;
            this.#lastEventId = `${lastEventId}`;
            this.#source = source;
            this.#ports = Object.freeze([...ports]);
        }
        get data() { return this.#data; }
        get origin() { return this.#origin; }
        get lastEventId() { return this.#lastEventId; }
        get source() { return this.#source; }
        get ports() { return this.#ports; }
    }
    idl(MessageEvent);
    class CloseEvent extends Event {
        #wasClean; #code; #reason;
        constructor(type, init = {}) {
            need(arguments, 1, 'CloseEvent');
            super(type, init);
            const { wasClean = false, code = 0, reason = '' } = dictionary(init, 'eventInitDict');
            this.#wasClean = !!wasClean;
            this.#code = Math.trunc(Number(code)) & 0xFFFF;
            this.#reason = `${reason}`;
        }
        get wasClean() { return this.#wasClean; }
        get code() { return this.#code; }
        get reason() { return this.#reason; }
    }
    idl(CloseEvent);

    // [Clamp] unsigned short
    function clamp16(v) {
        const n = Math.min(Math.max(Number(v), 0), 0xFFFF), low = Math.floor(n), half = n - low;
        return Number.isNaN(n) ? 0 : half > 0.5 || (half === 0.5 && low % 2 === 1) ? low + 1 : low;
    }

    function placeOf(url) {
        const { urlParse, urlGet, urlSet } = internal, u = urlParse(`${url}`, internal.base);
        if (u === undefined)
            throw new DOMException(`WebSocket: '${`${url}`.slice(0, 200)}' is no URL`, 'SyntaxError');
        const scheme = { 'http:': 'ws:', 'https:': 'wss:', 'ws:': 'ws:', 'wss:': 'wss:' }[urlGet(u, 2)];
        if (scheme === undefined)
            throw new DOMException(`WebSocket: '${urlGet(u, 2).slice(0, 40)}' is neither ws nor wss`, 'SyntaxError');
        if (urlGet(u, 0).includes('#'))
            throw new DOMException('WebSocket: a URL with a fragment', 'SyntaxError');
        urlSet(u, 2, scheme);
        return { href: urlGet(u, 0), origin: urlGet(u, 1), isBlocked: internal.need('ports').isBlocked(urlGet(u, 7)) };
    }
    function optionsOf(v) {
        if (v === undefined)
            return { protocols: [], headers: [] };
        const isList = typeof v === 'object' && v !== null && typeof v[Symbol.iterator] === 'function';
        const { protocols, headers } = typeof v === 'object' && v !== null && !isList ? v : { protocols: v };
        const names = protocols === undefined ? [] : typeof protocols === 'object' && protocols !== null ? [...protocols].map(String) : [`${protocols}`];
        const lower = names.map((n) => n.toLowerCase());
        if (!names.every(isToken) || new Set(lower).size < lower.length)
            throw new DOMException('WebSocket: subprotocols are tokens, each once', 'SyntaxError');
        const { Headers } = internal.need('headers');
        const flat = [...new Headers(headers ?? undefined)].filter(([name]) => !OWN.includes(name)).flat();
        return { protocols: names, headers: flat };
    }

    class WebSocket extends EventTarget {
        #socket = null; #state = CONNECTING; #url; #origin; #protocols; #protocol = ''; #binaryType = 'blob'; #late = 0; #sent = 0;
        #failed = false; #timer;
        constructor(url, options = undefined) {
            need(arguments, 1, 'WebSocket');
            super();
            const { href, origin, isBlocked } = placeOf(url), { protocols, headers } = optionsOf(options);
            this.#url = href;
            this.#origin = origin;
            this.#protocols = protocols;
            if (protocols.length > 0)
                headers.push('Sec-WebSocket-Protocol', protocols.join(', '));
            if (isBlocked) {
                queueMicrotask(() => this.#end({ code: 1006, clean: false, data: 'bad port: it belongs to another protocol' }));
                return;
            }
            try {
                this.#socket = internal.socket(href, headers);
            } catch (e) {
                queueMicrotask(() => this.#end({ code: 1006, clean: false, data: e.message }));
                return;
            }
            this.#follow();
        }
        get url() { return this.#url; }
        get readyState() { return this.#state; }
        get protocol() { return this.#protocol; }
        get extensions() { this.#url; return ''; }
        // Of what was sent, without the frames around it.
        get bufferedAmount() { return Math.min(this.#waiting(), this.#sent) + this.#late; }
        #waiting() {
            const n = this.#socket?.waiting() ?? 0;
            if (n === 0)
                this.#sent = 0;
            return n;
        }
        get binaryType() { return this.#binaryType; }
        set binaryType(v) {
            v = `${v}`;
            if (v === 'blob' || v === 'arraybuffer')
                this.#binaryType = v;
        }
        send(data) {
            need(arguments, 1, 'WebSocket.send');
            if (this.#state === CONNECTING)
                throw new DOMException('WebSocket.send: it is not open yet', 'InvalidStateError');
            const blob = typeof data === 'object' && data !== null ? internal.need('blob').stateOf(data) : undefined;
            const isBytes = data instanceof ArrayBuffer || ArrayBuffer.isView(data);
            const piece = blob ? blob.bytes : isBytes ? data : `${data}`;
            const size = typeof piece === 'string' ? internal.size(piece) : piece.byteLength;
            if (this.#state !== OPEN) {
                this.#late += size;
                return;
            }
            if (this.#waiting() + size > OUT_MAX)
                throw new DOMException('WebSocket.send: over 64 MiB wait to be sent', 'QuotaExceededError');
            this.#sent += size;
            this.#socket.send(piece);
        }
        close(code = undefined, reason = undefined) {
            if (code !== undefined) {
                code = clamp16(code);
                if (code !== 1000 && !(code >= 3000 && code <= 4999))
                    throw new DOMException(`WebSocket.close: ${code} is neither 1000 nor one of 3000 to 4999`, 'InvalidAccessError');
            }
            const words = reason === undefined ? '' : `${reason}`;
            if (internal.size(words) > 123)
                throw new DOMException('WebSocket.close: a reason has at most 123 bytes', 'SyntaxError');
            if (this.#state >= CLOSING)
                return;
            if (this.#state === CONNECTING)
                this.#failed = true;
            this.#state = CLOSING;
            this.#socket?.close(code ?? (words === '' ? 0 : 1000), words);
            this.#timer = internal.need('timers').setTimeout(() => this.#socket.break(), CLOSE_MS);
        }
        async #follow() {
            for (let item; (item = await this.#socket.next());) {
                if (item.kind === 'close')
                    return this.#end(item);
                if (this.#failed || (this.#state !== OPEN && item.kind !== 'open'))
                    continue;
                if (item.kind === 'open')
                    this.#open(item.data);
                else
                    this.#message(item);
            }
        }
        #open(protocol) {
            if (this.#state !== CONNECTING)
                return;
            if (this.#protocols.length > 0 ? !this.#protocols.includes(protocol) : protocol !== '') {
                this.#failed = true; // a protocol that nobody asked for, or none
                this.#socket.break();
                return;
            }
            this.#protocol = protocol;
            this.#state = OPEN;
            fire(this, new Event('open'));
        }
        #message({ kind, data }) {
            if (kind === 'binary')
                data = this.#binaryType === 'blob' ? internal.need('blob').make(data, '') : data.buffer;
            fire(this, new MessageEvent('message', { data, origin: this.#origin }));
        }
        #end({ code, clean, data }) {
            const wasOpen = this.#state !== CONNECTING && !this.#failed;
            internal.need('timers').clearTimeout(this.#timer);
            this.#state = CLOSED;
            if (!clean || !wasOpen) {
                const event = new Event('error');
                Object.defineProperty(event, 'message', { value: `${data}` });
                fire(this, event);
            }
            const proper = clean && wasOpen;
            fire(this, new CloseEvent('close', { wasClean: proper, code: proper ? code : code === 1009 ? 1009 : 1006, reason: proper ? data : '' }));
        }
    }
    for (const name of ['onopen', 'onmessage', 'onerror', 'onclose'])
        handler(WebSocket, name);
    idl(WebSocket, { CONNECTING, OPEN, CLOSING, CLOSED });
    return { WebSocket, MessageEvent, CloseEvent };
})
