// TransformStream, and the two of text.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), streams = internal.need('streams'), writable = internal.need('streams_writable');
    const { deferred, then, resolved, rejected, secret, idl } = base;

    function setBackpressure(t, full) {
        if (t.change !== undefined)
            t.change.resolve(undefined);
        t.change = deferred();
        t.full = full;
    }
    function unblock(t) {
        if (t.full)
            setBackpressure(t, false);
    }
    function forget(c) {
        c.transform = c.flush = c.cancel = undefined;
    }
    function failWritable(t, e) {
        forget(t.controller);
        writable.errorIfNeeded(t.writable.controller, e);
        unblock(t);
    }
    function failBoth(t, e) {
        streams.controllerError(t.readable.controller, e);
        failWritable(t, e);
    }
    function hasBackpressure(rc) {
        const waits = rc.stream.reader !== undefined && rc.stream.reader.requests.length > 0;
        return !(streams.canClose(rc) && (waits || streams.desiredSize(rc) > 0));
    }
    function enqueue(c, chunk) {
        const t = c.stream, rc = t.readable.controller;
        if (!streams.canClose(rc))
            throw new TypeError('the readable side takes no chunk');
        try {
            streams.enqueue(rc, chunk);
        } catch (e) {
            failWritable(t, e);
            throw t.readable.error;
        }
        const full = hasBackpressure(rc);
        if (full !== t.full)
            setBackpressure(t, true);
    }
    function terminate(c) {
        const t = c.stream;
        streams.controllerClose(t.readable.controller);
        failWritable(t, new TypeError('the transform was terminated'));
    }
    function perform(c, chunk) {
        return then(c.transform(chunk, c.object), undefined, (e) => {
            failBoth(c.stream, e);
            throw e;
        });
    }
    class TransformStreamDefaultController {
        #c;
        constructor(key, c) {
            if (key !== secret)
                throw new TypeError('a TransformStream makes its controller itself');
            this.#c = c;
        }
        get desiredSize() { return streams.desiredSize(this.#c.stream.readable.controller); }
        enqueue(chunk = undefined) { enqueue(this.#c, chunk); }
        error(e = undefined) { failBoth(this.#c.stream, e); }
        terminate() { terminate(this.#c); }
    }
    idl(TransformStreamDefaultController);

    // --- the algorithms of the two sides

    function sinkWrite(t, chunk) {
        const c = t.controller;
        if (!t.full)
            return perform(c, chunk);
        return then(t.change.promise, () => {
            if (t.writable.state === 'erroring')
                throw t.writable.error;
            return perform(c, chunk);
        });
    }
    // The cancel algorithm runs once, whichever side asks first.
    function finish(t, algorithm, good, bad) {
        const c = t.controller;
        if (c.finished !== undefined)
            return c.finished.promise;
        c.finished = deferred();
        base.handled(c.finished.promise);
        const result = algorithm();
        forget(c);
        then(result, () => good(c.finished), (e) => bad(c.finished, e));
        return c.finished.promise;
    }
    function sinkAbort(t, reason) {
        return finish(t, () => t.controller.cancel(reason), (end) => {
            if (t.readable.state === 'errored') {
                end.reject(t.readable.error);
            } else {
                streams.controllerError(t.readable.controller, reason);
                end.resolve(undefined);
            }
        }, (end, e) => {
            streams.controllerError(t.readable.controller, e);
            end.reject(e);
        });
    }
    function sinkClose(t) {
        return finish(t, () => t.controller.flush(t.controller.object), (end) => {
            if (t.readable.state === 'errored') {
                end.reject(t.readable.error);
            } else {
                streams.controllerClose(t.readable.controller);
                end.resolve(undefined);
            }
        }, (end, e) => {
            streams.controllerError(t.readable.controller, e);
            end.reject(e);
        });
    }
    function sourceCancel(t, reason) {
        return finish(t, () => t.controller.cancel(reason), (end) => {
            if (t.writable.state === 'errored') {
                end.reject(t.writable.error);
            } else {
                writable.errorIfNeeded(t.writable.controller, reason);
                unblock(t);
                end.resolve(undefined);
            }
        }, (end, e) => {
            writable.errorIfNeeded(t.writable.controller, e);
            unblock(t);
            end.reject(e);
        });
    }
    function initialize(t, start, writableMark, writableSize, readableMark, readableSize) {
        t.writable = writable.create(() => start.promise, (chunk) => sinkWrite(t, chunk), () => sinkClose(t),
            (reason) => sinkAbort(t, reason), writableMark, writableSize);
        t.readable = streams.create(() => start.promise, () => {
            setBackpressure(t, false);
            return t.change.promise;
        }, (reason) => sourceCancel(t, reason), readableMark, readableSize);
        setBackpressure(t, true);
    }
    function newController(t, transform, flush, cancel) {
        const c = { stream: t, object: undefined, transform, flush, cancel, finished: undefined };
        c.object = new TransformStreamDefaultController(secret, c);
        t.controller = c;
        return c;
    }
    function newState() {
        return { readable: undefined, writable: undefined, controller: undefined, change: undefined, full: undefined };
    }
    // A transform of the runtime's own: {readable, writable}, states.
    function create(transform, flush) {
        const t = newState(), start = deferred(), done = () => resolved(undefined);
        const guard = (fn) => (chunk, controller) => {
            try {
                fn(chunk, controller);
                return resolved(undefined);
            } catch (e) {
                return rejected(e);
            }
        };
        initialize(t, start, 1, () => 1, 0, () => 1);
        newController(t, guard(transform), guard(flush), done);
        start.resolve(undefined);
        return t;
    }
    function setUpFrom(t, transformer, ws, rs) {
        const cancelFn = base.callback(transformer, 'cancel'), flushFn = base.callback(transformer, 'flush');
        const { readableType } = transformer;
        if (readableType !== undefined)
            throw new RangeError('readableType is not known');
        const startFn = base.callback(transformer, 'start'), transformFn = base.callback(transformer, 'transform');
        if (transformer.writableType !== undefined)
            throw new RangeError('writableType is not known');
        const readableMark = base.markOf(rs, 0), readableSize = base.sizeOf(rs);
        const writableMark = base.markOf(ws, 1), writableSize = base.sizeOf(ws), start = deferred();
        initialize(t, start, writableMark, writableSize, readableMark, readableSize);
        const done = () => resolved(undefined);
        const identity = (chunk) => {
            try {
                enqueue(t.controller, chunk);
                return resolved(undefined);
            } catch (e) {
                return rejected(e);
            }
        };
        const c = newController(t, base.promising(transformFn, transformer, identity), base.promising(flushFn, transformer, done),
            base.promising(cancelFn, transformer, done));
        start.resolve(startFn === undefined ? undefined : Reflect.apply(startFn, transformer, [c.object]));
    }
    class TransformStream {
        #t;
        constructor(transformer = undefined, writableStrategy = {}, readableStrategy = {}) {
            const ws = base.readStrategy(writableStrategy), rs = base.readStrategy(readableStrategy);
            if (transformer === undefined)
                transformer = {};
            if (!base.isObject(transformer))
                throw new TypeError('the transformer must be an object');
            this.#t = newState();
            setUpFrom(this.#t, transformer, ws, rs);
        }
        get readable() { return this.#t.readable.object; }
        get writable() { return this.#t.writable.object; }
    }
    idl(TransformStream);

    // --- text

    const text = internal.need('text');
    class TextEncoderStream {
        #t;
        constructor() {
            let high = '';
            this.#t = create((chunk, controller) => {
                let s = high + `${chunk}`;
                high = '';
                const last = s.charCodeAt(s.length - 1);
                if (last >= 0xD800 && last <= 0xDBFF) {
                    high = s.slice(-1);
                    s = s.slice(0, -1);
                }
                if (s !== '')
                    controller.enqueue(internal.encode(s));
            }, () => {
                if (high !== '')
                    this.#t.controller.object.enqueue(new Uint8Array([0xEF, 0xBF, 0xBD]));
            });
        }
        get encoding() { this.#t; return 'utf-8'; }
        get readable() { return this.#t.readable.object; }
        get writable() { return this.#t.writable.object; }
    }
    idl(TextEncoderStream);
    class TextDecoderStream {
        #t; #decoder;
        constructor(label = 'utf-8', options = {}) {
            const decoder = this.#decoder = new text.TextDecoder(label, options);
            const push = (s) => {
                if (s !== '')
                    this.#t.controller.object.enqueue(s);
            };
            this.#t = create((chunk) => {
                if (!ArrayBuffer.isView(chunk) && !(chunk instanceof ArrayBuffer))
                    throw new TypeError('a TextDecoderStream takes bytes only');
                push(text.decode(decoder, chunk, true));
            }, () => push(text.decode(decoder, undefined, false)));
        }
        get encoding() { return this.#decoder.encoding; }
        get fatal() { return this.#decoder.fatal; }
        get ignoreBOM() { return this.#decoder.ignoreBOM; }
        get readable() { return this.#t.readable.object; }
        get writable() { return this.#t.writable.object; }
    }
    idl(TextDecoderStream);

    return { TransformStream, TransformStreamDefaultController, TextEncoderStream, TextDecoderStream };
})
