// WritableStream with its controller and writer, as the streams standard says. States as in streams.js.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), { AbortController, abort: abortSignal } = internal.need('events');
    const { deferred, then, resolved, rejected, handled, nop, secret, idl } = base;
    const closeMark = Symbol('close');

    function newState() {
        return {
            object: undefined, state: 'writable', error: undefined, writer: undefined, controller: undefined, requests: [],
            inFlight: undefined, closing: undefined, closingInFlight: undefined, aborting: undefined, backpressure: false,
        };
    }
    const closeQueued = (ws) => ws.closing !== undefined || ws.closingInFlight !== undefined;
    function settled(error) {
        const d = deferred();
        d.pending = false;
        if (error) {
            d.reject(error.value);
            handled(d.promise);
        } else {
            d.resolve(undefined);
        }
        return d;
    }
    function rejectNow(w, name, e) {
        if (w[name].pending === false) {
            w[name] = settled({ value: e });
            return;
        }
        w[name].pending = false;
        w[name].reject(e);
        handled(w[name].promise);
    }

    // --- the states

    function abort(ws, reason) {
        if (ws.state === 'closed' || ws.state === 'errored')
            return resolved(undefined);
        abortSignal(ws.controller.abortController.signal, reason);
        if (ws.state === 'closed' || ws.state === 'errored')
            return resolved(undefined);
        if (ws.aborting !== undefined)
            return ws.aborting.promise;
        const wasErroring = ws.state === 'erroring', d = deferred();
        ws.aborting = { promise: d.promise, resolve: d.resolve, reject: d.reject, reason: wasErroring ? undefined : reason, wasErroring };
        if (!wasErroring)
            startErroring(ws, reason);
        return d.promise;
    }
    function close(ws) {
        if (ws.state === 'closed' || ws.state === 'errored')
            return rejected(new TypeError('the stream is closed or has failed'));
        ws.closing = deferred();
        const { promise } = ws.closing, w = ws.writer, c = ws.controller;
        if (w !== undefined && ws.backpressure && ws.state === 'writable')
            becomeReady(w);
        base.queuePush(c.queue, closeMark, 0);
        advance(c);
        return promise;
    }
    function becomeReady(w) {
        w.ready.pending = false;
        w.ready.resolve(undefined);
    }
    function startErroring(ws, reason) {
        const c = ws.controller, w = ws.writer;
        ws.state = 'erroring';
        ws.error = reason;
        if (w !== undefined)
            rejectNow(w, 'ready', reason);
        if (ws.inFlight === undefined && ws.closingInFlight === undefined && c.started)
            finishErroring(ws);
    }
    function finishErroring(ws) {
        ws.state = 'errored';
        base.queueReset(ws.controller.queue);
        const list = ws.requests;
        ws.requests = [];
        for (let i = 0; i < list.length; i++)
            list[i].reject(ws.error);
        const a = ws.aborting;
        if (a === undefined) {
            rejectCloseAndClosed(ws);
            return;
        }
        ws.aborting = undefined;
        if (a.wasErroring) {
            a.reject(ws.error);
            rejectCloseAndClosed(ws);
            return;
        }
        const c = ws.controller, result = c.abort(a.reason);
        forget(c);
        then(result, () => {
            a.resolve(undefined);
            rejectCloseAndClosed(ws);
        }, (e) => {
            a.reject(e);
            rejectCloseAndClosed(ws);
        });
    }
    function rejectCloseAndClosed(ws) {
        if (ws.closing !== undefined) {
            ws.closing.reject(ws.error);
            ws.closing = undefined;
        }
        if (ws.writer !== undefined) {
            ws.writer.closed.pending = false;
            ws.writer.closed.reject(ws.error);
            handled(ws.writer.closed.promise);
        }
    }
    function dealWith(ws, e) {
        if (ws.state === 'writable')
            startErroring(ws, e);
        else
            finishErroring(ws);
    }
    function finishClose(ws) {
        ws.closingInFlight.resolve(undefined);
        ws.closingInFlight = undefined;
        if (ws.state === 'erroring') {
            ws.error = undefined;
            if (ws.aborting !== undefined) {
                ws.aborting.resolve(undefined);
                ws.aborting = undefined;
            }
        }
        ws.state = 'closed';
        if (ws.writer !== undefined) {
            ws.writer.closed.pending = false;
            ws.writer.closed.resolve(undefined);
        }
    }
    function failClose(ws, e) {
        ws.closingInFlight.reject(e);
        ws.closingInFlight = undefined;
        if (ws.aborting !== undefined) {
            ws.aborting.reject(e);
            ws.aborting = undefined;
        }
        dealWith(ws, e);
    }
    function updateBackpressure(ws, full) {
        const w = ws.writer;
        if (w !== undefined && full !== ws.backpressure) {
            if (full)
                w.ready = deferred();
            else
                becomeReady(w);
        }
        ws.backpressure = full;
    }

    // --- the controller

    const desired = (c) => c.mark - c.queue.total;
    function forget(c) {
        c.write = c.close = c.abort = c.size = undefined;
    }
    function advance(c) {
        const ws = c.stream;
        if (!c.started || ws.inFlight !== undefined)
            return;
        if (ws.state === 'erroring') {
            finishErroring(ws);
            return;
        }
        if (base.queueLength(c.queue) === 0)
            return;
        const head = c.queue.items[c.queue.head];
        if (head === closeMark)
            processClose(c);
        else
            processWrite(c, head);
    }
    function processClose(c) {
        const ws = c.stream;
        ws.closingInFlight = ws.closing;
        ws.closing = undefined;
        base.queueShift(c.queue);
        const result = c.close();
        forget(c);
        then(result, () => finishClose(ws), (e) => failClose(ws, e));
    }
    function processWrite(c, chunk) {
        const ws = c.stream;
        ws.inFlight = ws.requests.shift();
        then(c.write(chunk, c.object), () => {
            ws.inFlight.resolve(undefined);
            ws.inFlight = undefined;
            const { state } = ws;
            base.queueShift(c.queue);
            if (!closeQueued(ws) && state === 'writable')
                updateBackpressure(ws, desired(c) <= 0);
            advance(c);
        }, (e) => {
            if (ws.state === 'writable')
                forget(c);
            ws.inFlight.reject(e);
            ws.inFlight = undefined;
            dealWith(ws, e);
        });
    }
    function controllerError(c, e) {
        forget(c);
        startErroring(c.stream, e);
    }
    function errorIfNeeded(c, e) {
        if (c.stream.state === 'writable')
            controllerError(c, e);
    }
    function sizeOfChunk(c, chunk) {
        if (c.size === undefined)
            return 1;
        try {
            const { size } = c;
            return size(chunk);
        } catch (e) {
            errorIfNeeded(c, e);
            return 1;
        }
    }
    class WritableStreamDefaultController {
        #c;
        constructor(key, c) {
            if (key !== secret)
                throw new TypeError('a WritableStream makes its controller itself');
            this.#c = c;
        }
        get signal() { return this.#c.abortController.signal; }
        error(e = undefined) {
            if (this.#c.stream.state === 'writable')
                controllerError(this.#c, e);
        }
    }
    idl(WritableStreamDefaultController);
    function setUp(ws, start, write, closeAlgorithm, abortAlgorithm, mark, size) {
        const c = {
            stream: ws, object: undefined, queue: base.newQueue(), abortController: new AbortController(), started: false, mark, size, write,
            close: closeAlgorithm, abort: abortAlgorithm,
        };
        ws.controller = c;
        c.object = new WritableStreamDefaultController(secret, c);
        updateBackpressure(ws, desired(c) <= 0);
        then(resolved(start(c.object)), () => {
            c.started = true;
            advance(c);
        }, (e) => {
            c.started = true;
            dealWith(ws, e);
        });
        return c;
    }
    // A stream of the runtime's own; its state.
    function create(start, write, closeAlgorithm, abortAlgorithm, mark = 1, size = () => 1) {
        const ws = newState();
        ws.object = new WritableStream(secret, ws);
        setUp(ws, start, write, closeAlgorithm, abortAlgorithm, mark, size);
        return ws;
    }

    // --- the writer

    function acquire(ws) {
        if (ws.writer !== undefined)
            throw new TypeError('the stream is locked by a writer');
        const w = { stream: ws, ready: undefined, closed: undefined };
        ws.writer = w;
        const failed = { value: ws.error };
        if (ws.state === 'writable') {
            w.ready = !closeQueued(ws) && ws.backpressure ? deferred() : settled();
            w.closed = deferred();
        } else if (ws.state === 'erroring') {
            w.ready = settled(failed);
            w.closed = deferred();
        } else if (ws.state === 'closed') {
            w.ready = settled();
            w.closed = settled();
        } else {
            w.ready = settled(failed);
            w.closed = settled(failed);
        }
        return w;
    }
    function write(w, chunk) {
        const ws = w.stream, c = ws.controller, size = sizeOfChunk(c, chunk);
        if (ws !== w.stream)
            return rejected(new TypeError('the writer was released'));
        if (ws.state === 'errored')
            return rejected(ws.error);
        if (closeQueued(ws) || ws.state === 'closed')
            return rejected(new TypeError('the stream is closed or closing'));
        if (ws.state === 'erroring')
            return rejected(ws.error);
        const d = deferred();
        ws.requests[ws.requests.length] = d;
        try {
            base.queuePush(c.queue, chunk, size);
        } catch (e) {
            errorIfNeeded(c, e);
            return d.promise;
        }
        if (!closeQueued(ws) && ws.state === 'writable')
            updateBackpressure(ws, desired(c) <= 0);
        advance(c);
        return d.promise;
    }
    // For pipes: closing what is closing is no error.
    function closeForPipe(w) {
        const ws = w.stream;
        if (closeQueued(ws) || ws.state === 'closed')
            return resolved(undefined);
        return ws.state === 'errored' ? rejected(ws.error) : close(ws);
    }
    function desiredSize(w) {
        const { state, controller } = w.stream;
        return state === 'errored' || state === 'erroring' ? null : state === 'closed' ? 0 : desired(controller);
    }
    function release(w) {
        const why = new TypeError('the writer was released');
        rejectNow(w, 'ready', why);
        rejectNow(w, 'closed', why);
        w.stream.writer = undefined;
        w.stream = undefined;
    }
    const released = () => new TypeError('the writer was released');
    const noWriter = () => rejected(new TypeError('this is no WritableStreamDefaultWriter'));
    class WritableStreamDefaultWriter {
        #w;
        constructor(stream) {
            const ws = stateOf(stream);
            if (ws === undefined)
                throw new TypeError('a WritableStream is needed');
            this.#w = acquire(ws);
        }
        get closed() { return #w in this ? this.#w.closed.promise : noWriter(); }
        get desiredSize() {
            if (this.#w.stream === undefined)
                throw released();
            return desiredSize(this.#w);
        }
        get ready() { return #w in this ? this.#w.ready.promise : noWriter(); }
        abort(reason = undefined) {
            if (!(#w in this))
                return noWriter();
            return this.#w.stream === undefined ? rejected(released()) : abort(this.#w.stream, reason);
        }
        close() {
            if (!(#w in this))
                return noWriter();
            const ws = this.#w.stream;
            if (ws === undefined)
                return rejected(released());
            return closeQueued(ws) ? rejected(new TypeError('the stream is closing already')) : close(ws);
        }
        releaseLock() {
            if (this.#w.stream !== undefined)
                release(this.#w);
        }
        write(chunk = undefined) {
            if (!(#w in this))
                return noWriter();
            return this.#w.stream === undefined ? rejected(released()) : write(this.#w, chunk);
        }
    }
    idl(WritableStreamDefaultWriter);

    // --- the stream

    class WritableStream {
        #s;
        static stateOf(v) { return typeof v === 'object' && v !== null && #s in v ? v.#s : undefined; }
        constructor(sink = undefined, strategy = {}) {
            if (sink === secret) {
                this.#s = strategy;
                return;
            }
            const s = base.readStrategy(strategy);
            if (sink === undefined)
                sink = {};
            if (!base.isObject(sink))
                throw new TypeError('the underlying sink must be an object');
            const abortFn = base.callback(sink, 'abort'), closeFn = base.callback(sink, 'close');
            const startFn = base.callback(sink, 'start'), { type } = sink;
            if (type !== undefined)
                throw new RangeError('a sink has no type');
            const writeFn = base.callback(sink, 'write'), done = () => resolved(undefined);
            const ws = newState();
            ws.object = this;
            this.#s = ws;
            const start = startFn === undefined ? nop : (c) => Reflect.apply(startFn, sink, [c]);
            const closeAlgorithm = closeFn === undefined ? done : () => {
                try {
                    return resolved(Reflect.apply(closeFn, sink, []));
                } catch (e) {
                    return rejected(e);
                }
            };
            setUp(ws, start, base.promising(writeFn, sink, done), closeAlgorithm, base.promising(abortFn, sink, done),
                base.markOf(s, 1), base.sizeOf(s));
        }
        get locked() { return this.#s.writer !== undefined; }
        abort(reason = undefined) {
            if (!(#s in this))
                return rejected(new TypeError('this is no WritableStream'));
            return this.#s.writer !== undefined ? rejected(new TypeError('the stream is locked')) : abort(this.#s, reason);
        }
        close() {
            if (!(#s in this))
                return rejected(new TypeError('this is no WritableStream'));
            const ws = this.#s;
            if (ws.writer !== undefined)
                return rejected(new TypeError('the stream is locked'));
            return closeQueued(ws) ? rejected(new TypeError('the stream is closing already')) : close(ws);
        }
        getWriter() {
            this.#s; // is it one?
            return new WritableStreamDefaultWriter(this);
        }
    }
    const { stateOf } = WritableStream;
    delete WritableStream.stateOf;
    idl(WritableStream);

    return {
        WritableStream, WritableStreamDefaultWriter, WritableStreamDefaultController, stateOf, create, acquire, write, release, abort,
        closeForPipe, closeQueued, desiredSize, errorIfNeeded,
    };
})
