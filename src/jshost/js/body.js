// Bodies of requests and responses. A body is {bytes | native | stream, type}: bytes that are there, a source of C ({read, collect, cancel}),
// or a stream (its state). What was never touched as a stream is read without one.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), streams = internal.need('streams'), blobs = internal.need('blob');
    const { then, resolved, rejected, nop } = base;
    const CHUNK = 65536;

    // A byte stream over bytes: chunks are copies, since a reader takes their buffers.
    function streamOf(bytes) {
        let at = 0, rs;
        const pull = () => {
            const bytesApi = internal.need('streams_bytes'), c = rs.controller;
            if (at < bytes.length) {
                const chunk = bytes.slice(at, at + CHUNK);
                at += chunk.length;
                bytesApi.enqueue(c, chunk);
            }
            if (at >= bytes.length) {
                bytesApi.close(c);
                if (c.pending.length > 0)
                    bytesApi.respond(c, 0);
            }
            return resolved(undefined);
        };
        rs = internal.need('streams_bytes').create(nop, pull, () => resolved(undefined));
        return rs;
    }
    // A byte stream over a source of C.
    function streamFrom(source) {
        const bytesApi = internal.need('streams_bytes');
        let rs;
        const pull = () => then(resolved(source.read()), (chunk) => {
            const c = rs.controller;
            if (chunk !== undefined) {
                if (chunk.length > 0)
                    bytesApi.enqueue(c, chunk);
                return chunk.length > 0 ? undefined : pull();
            }
            bytesApi.close(c);
            if (c.pending.length > 0)
                bytesApi.respond(c, 0);
            return undefined;
        });
        rs = bytesApi.create(nop, pull, (reason) => resolved(source.cancel(reason)));
        return rs;
    }
    function openStream(b) {
        if (b.stream !== undefined)
            return b.stream;
        b.stream = b.native !== undefined ? streamFrom(b.native) : streamOf(b.used ? new Uint8Array(0) : b.bytes);
        if (b.used) { // it was read without a stream
            b.stream.disturbed = true;
            streams.close(b.stream);
            streams.acquireDefault(b.stream);
        }
        b.bytes = b.native = undefined;
        if (b.failed !== undefined)
            internal.need('streams_bytes').fail(b.stream.controller, b.failed.reason);
        return b.stream;
    }
    const isUsed = (b) => b.used || (b.stream !== undefined && b.stream.disturbed);
    const isLocked = (b) => b.stream !== undefined && b.stream.reader !== undefined;

    // --- making

    function extract(v) {
        const rs = streams.stateOf(v);
        if (rs !== undefined) {
            if (rs.disturbed || rs.reader !== undefined)
                throw new TypeError('the stream was read, or is locked');
            return { bytes: undefined, native: undefined, stream: rs, type: undefined, used: false };
        }
        let bytes, type;
        const blob = blobs.stateOf(v);
        if (blob !== undefined) {
            ({ bytes } = blob);
            type = blob.type || undefined;
        } else if (blobs.isBuffer(v)) {
            bytes = blobs.copyOf(v);
        } else if (blobs.isObject(v) && internal.need('form').isForm(v)) {
            ({ bytes, type } = internal.need('form').encodeForm(v));
        } else if (blobs.isObject(v) && internal.need('url').isSearchParams(v)) {
            bytes = internal.encode(internal.need('url').paramsText(v));
            type = 'application/x-www-form-urlencoded;charset=UTF-8';
        } else if (blobs.isObject(v) && typeof v[Symbol.asyncIterator] === 'function') {
            return { bytes: undefined, native: undefined, stream: internal.need('streams_pipe').from(v, 1), type: undefined, used: false };
        } else {
            bytes = internal.encode(`${v}`);
            type = 'text/plain;charset=UTF-8';
        }
        return { bytes, native: undefined, stream: undefined, type, used: false };
    }
    function fromNative(native) {
        const b = { bytes: undefined, native, stream: undefined, type: undefined, used: false, failed: undefined };
        const ref = new WeakRef(b); // no circle: an answer that is dropped gives its connection back at once
        native.aborted = (reason) => {
            const body = ref.deref();
            if (body === undefined)
                return;
            body.failed = { reason };
            if (body.stream !== undefined)
                internal.need('streams_bytes').fail(body.stream.controller, reason);
        };
        return b;
    }
    function clone(b) {
        if (b.stream === undefined && b.native === undefined && !b.used)
            return { ...b };
        const [one, two] = internal.need('streams_pipe').tee(openStream(b), (chunk) => internal.need('clone').clone(chunk));
        b.stream = one;
        return { bytes: undefined, native: undefined, stream: two, type: b.type, used: false };
    }

    // --- reading

    function readAll(rs) {
        const d = base.deferred(), parts = [];
        let reader;
        try {
            reader = streams.acquireDefault(rs);
        } catch (e) {
            return rejected(e);
        }
        const request = {
            chunk(chunk) {
                if (!(chunk instanceof Uint8Array)) {
                    d.reject(new TypeError('a chunk of the body is no Uint8Array'));
                    base.handled(streams.cancel(rs, undefined));
                    return;
                }
                parts[parts.length] = chunk;
                queueMicrotask(next);
            },
            close: () => d.resolve(box(parts.length === 1 ? parts[0] : blobs.join(parts))),
            error: d.reject,
        };
        const next = () => streams.read(reader, request);
        next();
        return d.promise;
    }
    const { queueMicrotask } = globalThis;
    // Promises carry bytes in a box, since what Object.prototype holds could make a promise of bytes follow something else.
    const box = (bytes) => ({ __proto__: null, bytes });
    // A promise of a box with bytes of the caller's own.
    function consume(b) {
        if (b === null)
            return resolved(box(new Uint8Array(0)));
        if (isUsed(b) || isLocked(b))
            return rejected(new TypeError('the body was read already, or is locked'));
        if (b.stream !== undefined)
            return readAll(b.stream);
        b.used = true;
        const { bytes, native } = b;
        b.bytes = b.native = undefined;
        if (native === undefined)
            return resolved(box(new Uint8Array(bytes)));
        return then(native.collect(), box);
    }
    // Chunks as fetch sends them: {bytes} or {stream: an async iterable}, or {}; the body is used up.
    function toSend(b) {
        if (b === null)
            return {};
        if (isUsed(b) || isLocked(b))
            throw new TypeError('the body was read already, or is locked');
        if (b.stream !== undefined)
            return { stream: b.stream.object.values() };
        if (b.native !== undefined)
            return { stream: openStream(b).object.values() };
        b.used = true;
        return { bytes: b.bytes };
    }

    // --- the methods of Request and Response. of: (object) → {body, headers} or undefined

    function parse(v, bytes, method) {
        const { mimeOf, printMime } = internal.need('mime');
        if (method === 'blob') {
            const mime = mimeOf(v.headers);
            return blobs.make(bytes, mime === null ? '' : printMime(mime));
        }
        const mime = mimeOf(v.headers);
        if (mime?.essence === 'application/x-www-form-urlencoded')
            return internal.need('form').fromPairs(internal.need('url').parseForm(internal.decode(bytes, [0, 0, 0, 0, 0, false], true, 0)));
        if (mime?.essence !== 'multipart/form-data' || mime.parameters.get('boundary') === undefined)
            throw new TypeError('formData: the content type is no form');
        return internal.need('form').decodeForm(bytes, mime.parameters.get('boundary'));
    }
    function mixin(cls, of) {
        const reading = (fn) => (object) => {
            const v = of(object);
            if (v === undefined)
                return rejected(new TypeError(`this is no ${cls.name}`));
            const failed = v.body?.failed;
            if (failed !== undefined) { // its signal was aborted
                v.body.used = true;
                return rejected(failed.reason);
            }
            return then(consume(v.body), ({ bytes }) => fn(bytes, v));
        };
        const { utf8 } = internal.need('text'), { parse: parseJson } = JSON;
        const read = {
            arrayBuffer: reading((bytes) => bytes.buffer), blob: reading((bytes, v) => parse(v, bytes, 'blob')), bytes: reading((bytes) => bytes),
            formData: reading((bytes, v) => parse(v, bytes, 'formData')), json: reading((bytes) => parseJson(utf8(bytes))), text: reading(utf8),
        };
        const methods = {
            get body() {
                const { body } = want(of(this), cls);
                return body === null ? null : openStream(body).object;
            },
            get bodyUsed() {
                const { body } = want(of(this), cls);
                return body !== null && isUsed(body);
            },
            arrayBuffer() { return read.arrayBuffer(this); },
            blob() { return read.blob(this); },
            bytes() { return read.bytes(this); },
            formData() { return read.formData(this); },
            json() { return read.json(this); },
            text() { return read.text(this); },
        };
        for (const name of Object.keys(methods))
            Object.defineProperty(cls.prototype, name, Object.getOwnPropertyDescriptor(methods, name));
    }
    function want(v, cls) {
        if (v === undefined)
            throw new TypeError(`this is no ${cls.name}`);
        return v;
    }
    return { streamOf, extract, fromNative, clone, consume, toSend, mixin, isUsed, isLocked, openStream };
})
