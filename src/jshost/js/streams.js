// ReadableStream with its default controller and reader, as the streams standard says. Each public object has a state: a plain object
// on which the functions work; byte streams (streams_bytes.js), pipes and tee (streams_pipe.js) share them.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base');
    const { deferred, then, resolved, rejected, handled, nop, secret, idl } = base;
    const bytes = () => internal.need('streams_bytes');
    const pipe = () => internal.need('streams_pipe');

    // --- states of a stream

    function newState() {
        return { object: undefined, state: 'readable', reader: undefined, error: undefined, disturbed: false, controller: undefined };
    }
    function close(rs) {
        rs.state = 'closed';
        const r = rs.reader;
        if (r === undefined)
            return;
        r.closed.resolve(undefined);
        if (r.byob)
            return;
        const list = r.requests;
        r.requests = [];
        for (let i = 0; i < list.length; i++)
            list[i].close();
    }
    function fail(rs, e) {
        rs.state = 'errored';
        rs.error = e;
        const r = rs.reader;
        if (r === undefined)
            return;
        r.closed.reject(e);
        handled(r.closed.promise);
        failRequests(r, e);
    }
    function failRequests(r, e) {
        const list = r.requests;
        r.requests = [];
        for (let i = 0; i < list.length; i++)
            list[i].error(e);
    }
    function cancel(rs, reason) {
        rs.disturbed = true;
        if (rs.state === 'closed')
            return resolved(undefined);
        if (rs.state === 'errored')
            return rejected(rs.error);
        close(rs);
        const r = rs.reader;
        if (r !== undefined && r.byob) {
            const list = r.requests;
            r.requests = [];
            for (let i = 0; i < list.length; i++)
                list[i].close(undefined);
        }
        return then(rs.controller.cancelSteps(reason), nop);
    }

    // --- readers

    function acquire(rs, byob) {
        const r = { stream: rs, byob, closed: deferred(), requests: [] };
        rs.reader = r;
        if (rs.state === 'closed') {
            r.closed.resolve(undefined);
        } else if (rs.state === 'errored') {
            r.closed.reject(rs.error);
            handled(r.closed.promise);
        }
        return r;
    }
    function acquireDefault(rs) {
        if (rs.reader !== undefined)
            throw new TypeError('the stream is locked by a reader');
        return acquire(rs, false);
    }
    function release(r, why = new TypeError('the reader was released')) {
        const rs = r.stream;
        if (rs === undefined)
            return;
        if (rs.state !== 'readable')
            r.closed = deferred();
        r.closed.reject(why);
        handled(r.closed.promise);
        rs.controller.releaseSteps();
        rs.reader = undefined;
        r.stream = undefined;
        failRequests(r, why);
    }
    function read(r, request) {
        const rs = r.stream;
        rs.disturbed = true;
        if (rs.state === 'closed')
            request.close();
        else if (rs.state === 'errored')
            request.error(rs.error);
        else
            rs.controller.pullSteps(request);
    }
    const noStream = () => new TypeError('the reader was released');
    class ReadableStreamDefaultReader {
        #r;
        constructor(stream) {
            const rs = stateOf(stream);
            if (rs === undefined)
                throw new TypeError('a ReadableStream is needed');
            this.#r = acquireDefault(rs);
        }
        get closed() {
            return #r in this ? this.#r.closed.promise : rejected(new TypeError('this is no ReadableStreamDefaultReader'));
        }
        cancel(reason = undefined) {
            if (!(#r in this))
                return rejected(new TypeError('this is no ReadableStreamDefaultReader'));
            return this.#r.stream === undefined ? rejected(noStream()) : cancel(this.#r.stream, reason);
        }
        read() {
            if (!(#r in this))
                return rejected(new TypeError('this is no ReadableStreamDefaultReader'));
            if (this.#r.stream === undefined)
                return rejected(noStream());
            const d = deferred();
            read(this.#r, {
                chunk: (value) => d.resolve({ value, done: false }),
                close: () => d.resolve({ value: undefined, done: true }),
                error: d.reject,
            });
            return d.promise;
        }
        releaseLock() { release(this.#r); }
    }
    idl(ReadableStreamDefaultReader);

    // --- the default controller

    const canClose = (c) => !c.closeRequested && c.stream.state === 'readable';
    function desiredSize(c) {
        const { state } = c.stream;
        return state === 'errored' ? null : state === 'closed' ? 0 : c.mark - c.queue.total;
    }
    function shouldPull(c) {
        const rs = c.stream;
        if (!canClose(c) || !c.started)
            return false;
        return (rs.reader !== undefined && rs.reader.requests.length > 0) || desiredSize(c) > 0;
    }
    function callPull(c) {
        if (!shouldPull(c))
            return;
        if (c.pulling) {
            c.pullAgain = true;
            return;
        }
        c.pulling = true;
        then(c.pull(c.object), () => {
            c.pulling = false;
            if (c.pullAgain) {
                c.pullAgain = false;
                callPull(c);
            }
        }, (e) => controllerError(c, e));
    }
    function forget(c) {
        c.pull = c.cancel = c.size = undefined;
    }
    function controllerClose(c) {
        if (!canClose(c))
            return;
        c.closeRequested = true;
        if (base.queueLength(c.queue) === 0) {
            forget(c);
            close(c.stream);
        }
    }
    function controllerError(c, e) {
        if (c.stream.state !== 'readable')
            return;
        base.queueReset(c.queue);
        forget(c);
        fail(c.stream, e);
    }
    function enqueue(c, chunk) {
        if (!canClose(c))
            return;
        const r = c.stream.reader;
        if (r !== undefined && r.requests.length > 0) {
            r.requests.shift().chunk(chunk);
        } else {
            try {
                const { size } = c;
                base.queuePush(c.queue, chunk, size(chunk));
            } catch (e) {
                controllerError(c, e);
                throw e;
            }
        }
        callPull(c);
    }
    class ReadableStreamDefaultController {
        #c;
        constructor(key, c) {
            if (key !== secret)
                throw new TypeError('a ReadableStream makes its controller itself');
            this.#c = c;
        }
        get desiredSize() { return desiredSize(this.#c); }
        close() {
            if (!canClose(this.#c))
                throw new TypeError('the stream cannot be closed: it is closed or closing, or has failed');
            controllerClose(this.#c);
        }
        enqueue(chunk = undefined) {
            if (!canClose(this.#c))
                throw new TypeError('the stream takes no chunk: it is closed or closing, or has failed');
            enqueue(this.#c, chunk);
        }
        error(e = undefined) { controllerError(this.#c, e); }
    }
    idl(ReadableStreamDefaultController);

    function begin(c, rs, start, after, failed) {
        rs.controller = c;
        then(resolved(start(c.object)), () => {
            c.started = true;
            after(c);
        }, (e) => failed(c, e));
    }
    function setUpDefault(rs, start, pull, cancelAlgorithm, mark, size) {
        const c = {
            stream: rs, object: undefined, queue: base.newQueue(), started: false, closeRequested: false, pullAgain: false, pulling: false,
            mark, size, pull, cancel: cancelAlgorithm,
            cancelSteps(reason) {
                base.queueReset(c.queue);
                const result = c.cancel(reason);
                forget(c);
                return result;
            },
            pullSteps(request) {
                if (base.queueLength(c.queue) === 0) {
                    rs.reader.requests[rs.reader.requests.length] = request;
                    callPull(c);
                    return;
                }
                const chunk = base.queueShift(c.queue);
                if (c.closeRequested && base.queueLength(c.queue) === 0) {
                    forget(c);
                    close(rs);
                } else {
                    callPull(c);
                }
                request.chunk(chunk);
            },
            releaseSteps: nop,
        };
        c.object = new ReadableStreamDefaultController(secret, c);
        begin(c, rs, start, callPull, controllerError);
        return c;
    }
    // A stream of the runtime's own. Returns its state; start, pull and cancel as in the standard.
    function create(start, pull, cancelAlgorithm, mark = 1, size = () => 1) {
        const rs = newState();
        rs.object = new ReadableStream(secret, rs);
        setUpDefault(rs, start, pull, cancelAlgorithm, mark, size);
        return rs;
    }

    // --- the stream

    function setUpFrom(rs, source, strategy) {
        let auto = source.autoAllocateChunkSize;
        if (auto !== undefined) {
            auto = Number(auto);
            if (!(Math.abs(auto) <= Number.MAX_SAFE_INTEGER) || Math.trunc(auto) < 0)
                throw new TypeError('autoAllocateChunkSize is out of range');
            auto = Math.trunc(auto);
        }
        const cancelFn = base.callback(source, 'cancel'), pullFn = base.callback(source, 'pull');
        const startFn = base.callback(source, 'start'), type = source.type === undefined ? undefined : `${source.type}`;
        if (type !== undefined && type !== 'bytes')
            throw new TypeError(`'${type}' is no type of a stream`);
        const start = startFn === undefined ? nop : (c) => Reflect.apply(startFn, source, [c]);
        const done = () => resolved(undefined);
        const pull = base.promising(pullFn, source, done), cancelAlgorithm = base.promising(cancelFn, source, done);
        if (type === undefined) {
            setUpDefault(rs, start, pull, cancelAlgorithm, base.markOf(strategy, 1), base.sizeOf(strategy));
            return;
        }
        if (strategy.size !== undefined)
            throw new RangeError('a byte stream takes no function size');
        if (auto === 0)
            throw new TypeError('autoAllocateChunkSize must not be 0');
        bytes().setUp(rs, start, pull, cancelAlgorithm, base.markOf(strategy, 0), auto);
    }
    function wantReader(options) {
        const { mode } = base.dictionary(options, 'the options');
        if (mode === undefined)
            return false;
        if (`${mode}` !== 'byob')
            throw new TypeError(`'${mode}' is no mode of a reader`);
        return true;
    }
    class ReadableStream {
        #s;
        static stateOf(v) { return typeof v === 'object' && v !== null && #s in v ? v.#s : undefined; }
        constructor(source = undefined, strategy = {}) {
            if (source === secret) {
                this.#s = strategy;
                return;
            }
            const s = base.readStrategy(strategy);
            if (source === undefined)
                source = {};
            if (!base.isObject(source))
                throw new TypeError('the underlying source must be an object');
            const rs = newState();
            rs.object = this;
            this.#s = rs;
            setUpFrom(rs, source, s);
        }
        get locked() { return this.#s.reader !== undefined; }
        cancel(reason = undefined) {
            if (!(#s in this))
                return rejected(new TypeError('this is no ReadableStream'));
            return this.#s.reader !== undefined ? rejected(new TypeError('the stream is locked')) : cancel(this.#s, reason);
        }
        getReader(options = {}) {
            this.#s; // is it one?
            if (wantReader(options))
                return new (bytes().ReadableStreamBYOBReader)(this);
            return new ReadableStreamDefaultReader(this);
        }
        pipeThrough(transform, options = {}) {
            this.#s;
            return pipe().pipeThrough(this.#s, transform, options, arguments.length);
        }
        pipeTo(destination, options = {}) {
            if (!(#s in this))
                return rejected(new TypeError('this is no ReadableStream'));
            return pipe().pipeToPublic(this.#s, destination, options);
        }
        tee() {
            const pair = pipe().tee(this.#s);
            return [pair[0].object, pair[1].object];
        }
        values(options = {}) { return pipe().iterate(this.#s, options); }
        static from(iterable) { return pipe().from(iterable, arguments.length).object; }
    }
    const { stateOf } = ReadableStream;
    delete ReadableStream.stateOf;
    idl(ReadableStream);
    Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator,
        { value: ReadableStream.prototype.values, writable: true, configurable: true });

    return {
        ReadableStream, ReadableStreamDefaultReader, ReadableStreamDefaultController, stateOf, newState, close, fail, cancel, acquire,
        acquireDefault, release, read, failRequests, begin, create, enqueue, controllerClose, controllerError, desiredSize, canClose,
    };
})
