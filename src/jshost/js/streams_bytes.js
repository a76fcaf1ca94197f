// Byte streams: the byte controller, its BYOB request, and the BYOB reader.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), streams = internal.need('streams');
    const { deferred, rejected, secret, idl } = base;
    const { transferToFixedLength } = ArrayBuffer.prototype;
    const transfer = (buffer) => Reflect.apply(transferToFixedLength, buffer, []);
    const typedArrayName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
    const views = {
        Uint8Array, Int8Array, Uint8ClampedArray, Uint16Array, Int16Array, Uint32Array, Int32Array, Float32Array, Float64Array,
        BigInt64Array, BigUint64Array, Float16Array,
    };

    // --- the queue holds {buffer, offset, length}

    function enqueueChunk(c, buffer, offset, length) {
        c.queue[c.queue.length] = { buffer, offset, length };
        c.total += length;
    }
    function resetQueue(c) {
        c.queue = [];
        c.total = 0;
    }
    function copyTo(to, at, from, offset, n) {
        new Uint8Array(to, at, n).set(new Uint8Array(from, offset, n));
    }
    function enqueueCloned(c, buffer, offset, length) {
        let copy;
        try {
            copy = new Uint8Array(new Uint8Array(buffer, offset, length)).buffer;
        } catch (e) {
            fail(c, e);
            throw e;
        }
        enqueueChunk(c, copy, 0, length);
    }
    function enqueueDetached(c, d) {
        if (d.filled > 0)
            enqueueCloned(c, d.buffer, d.offset, d.filled);
        c.pending.shift();
        invalidate(c);
    }

    // --- pull-into descriptors: {buffer, bufferLength, offset, length, filled, minimum, size, make, type}

    function convert(d) {
        const buffer = transfer(d.buffer);
        return new d.make(buffer, d.offset, d.filled / d.size);
    }
    function commit(rs, d) {
        let done = false;
        if (rs.state === 'closed')
            done = true;
        const view = convert(d);
        const r = rs.reader;
        if (d.type === 'default')
            r.requests.shift().chunk(view);
        else if (done)
            r.requests.shift().close(view);
        else
            r.requests.shift().chunk(view);
    }
    // Whether it has enough now.
    function fillFromQueue(c, d) {
        const most = Math.min(c.total, d.length - d.filled), after = d.filled + most;
        const whole = after - (after % d.size);
        let left = most, ready = false;
        if (whole >= d.minimum) {
            left = whole - d.filled;
            ready = true;
        }
        while (left > 0) {
            const head = c.queue[0], n = Math.min(left, head.length);
            copyTo(d.buffer, d.offset + d.filled, head.buffer, head.offset, n);
            if (head.length === n) {
                c.queue.shift();
            } else {
                head.offset += n;
                head.length -= n;
            }
            c.total -= n;
            d.filled += n;
            left -= n;
        }
        return ready;
    }
    function fillRequest(c, request) {
        const { buffer, offset, length } = c.queue.shift();
        c.total -= length;
        drained(c);
        request.chunk(new Uint8Array(buffer, offset, length));
    }
    function processPending(c) {
        const filled = [];
        while (c.pending.length > 0 && c.total > 0 && fillFromQueue(c, c.pending[0]))
            filled[filled.length] = c.pending.shift();
        return filled;
    }
    function commitAll(c, list) {
        for (let i = 0; i < list.length; i++)
            commit(c.stream, list[i]);
    }
    function invalidate(c) {
        if (c.request === null)
            return;
        c.request.controller = undefined;
        c.request.view = null;
        c.request = null;
    }

    // --- the controller

    function desiredSize(c) {
        const { state } = c.stream;
        return state === 'errored' ? null : state === 'closed' ? 0 : c.mark - c.total;
    }
    const waits = (rs) => rs.reader !== undefined && rs.reader.requests.length > 0;
    function shouldPull(c) {
        if (c.stream.state !== 'readable' || c.closeRequested || !c.started)
            return false;
        return waits(c.stream) || desiredSize(c) > 0;
    }
    function callPull(c) {
        if (!shouldPull(c))
            return;
        if (c.pulling) {
            c.pullAgain = true;
            return;
        }
        c.pulling = true;
        base.then(c.pull(c.object), () => {
            c.pulling = false;
            if (c.pullAgain) {
                c.pullAgain = false;
                callPull(c);
            }
        }, (e) => fail(c, e));
    }
    function forget(c) {
        c.pull = c.cancel = undefined;
    }
    function drained(c) {
        if (c.total === 0 && c.closeRequested) {
            forget(c);
            streams.close(c.stream);
        } else {
            callPull(c);
        }
    }
    function fail(c, e) {
        if (c.stream.state !== 'readable')
            return;
        invalidate(c);
        c.pending = [];
        resetQueue(c);
        forget(c);
        streams.fail(c.stream, e);
    }
    function close(c) {
        if (c.closeRequested || c.stream.state !== 'readable')
            return;
        if (c.total > 0) {
            c.closeRequested = true;
            return;
        }
        if (c.pending.length > 0 && c.pending[0].filled % c.pending[0].size !== 0) {
            const e = new TypeError('the stream ends within an element of the view that is read into');
            fail(c, e);
            throw e;
        }
        forget(c);
        streams.close(c.stream);
    }
    function enqueue(c, chunk) {
        const rs = c.stream;
        if (c.closeRequested || rs.state !== 'readable')
            return;
        const { byteOffset, byteLength, buffer } = chunk;
        if (buffer.detached)
            throw new TypeError('the buffer of the chunk is detached');
        const taken = transfer(buffer);
        if (c.pending.length > 0) {
            const first = c.pending[0];
            if (first.buffer.detached)
                throw new TypeError('the buffer that is read into is detached');
            invalidate(c);
            first.buffer = transfer(first.buffer);
            if (first.type === 'none')
                enqueueDetached(c, first);
        }
        const r = rs.reader;
        if (r !== undefined && !r.byob) {
            while (r.requests.length > 0 && c.total > 0)
                fillRequest(c, r.requests.shift());
            if (r.requests.length === 0) {
                enqueueChunk(c, taken, byteOffset, byteLength);
            } else {
                if (c.pending.length > 0)
                    c.pending.shift();
                r.requests.shift().chunk(new Uint8Array(taken, byteOffset, byteLength));
            }
        } else if (r !== undefined) {
            enqueueChunk(c, taken, byteOffset, byteLength);
            commitAll(c, processPending(c));
        } else {
            enqueueChunk(c, taken, byteOffset, byteLength);
        }
        callPull(c);
    }
    function pullInto(c, view, min, request) {
        const rs = c.stream, name = Reflect.apply(typedArrayName, view, []);
        const make = name === undefined ? DataView : views[name], size = name === undefined ? 1 : make.BYTES_PER_ELEMENT;
        const { byteOffset, byteLength } = view;
        let buffer;
        try {
            buffer = transfer(view.buffer);
        } catch (e) {
            request.error(e);
            return;
        }
        const d = {
            buffer, bufferLength: buffer.byteLength, offset: byteOffset, length: byteLength, filled: 0, minimum: min * size, size, make,
            type: 'byob',
        };
        const wait = () => { rs.reader.requests[rs.reader.requests.length] = request; };
        if (c.pending.length > 0) {
            c.pending[c.pending.length] = d;
            wait();
            return;
        }
        if (rs.state === 'closed') {
            request.close(new make(d.buffer, d.offset, 0));
            return;
        }
        if (c.total > 0) {
            if (fillFromQueue(c, d)) {
                const filled = convert(d);
                drained(c);
                request.chunk(filled);
                return;
            }
            if (c.closeRequested) {
                const e = new TypeError('the stream ends within an element of the view that is read into');
                fail(c, e);
                request.error(e);
                return;
            }
        }
        c.pending[c.pending.length] = d;
        wait();
        callPull(c);
    }

    // --- what a source answers to a BYOB request

    function respondClosed(c, first) {
        if (first.type === 'none')
            c.pending.shift();
        const rs = c.stream, r = rs.reader;
        if (r === undefined || !r.byob)
            return;
        const filled = [];
        while (filled.length < r.requests.length)
            filled[filled.length] = c.pending.shift();
        commitAll(c, filled);
    }
    function respondReadable(c, n, d) {
        if (d.filled + n > d.length)
            throw new RangeError('more bytes are said to be written than there is room for');
        d.filled += n;
        if (d.type === 'none') {
            enqueueDetached(c, d);
            commitAll(c, processPending(c));
            return;
        }
        if (d.filled < d.minimum)
            return;
        c.pending.shift();
        const rest = d.filled % d.size;
        if (rest > 0) {
            const end = d.offset + d.filled;
            enqueueCloned(c, d.buffer, end - rest, rest);
        }
        d.filled -= rest;
        const filled = processPending(c);
        commit(c.stream, d);
        commitAll(c, filled);
    }
    function respondInternal(c, n) {
        const first = c.pending[0];
        invalidate(c);
        if (c.stream.state === 'closed')
            respondClosed(c, first);
        else
            respondReadable(c, n, first);
        callPull(c);
    }
    function respond(c, n) {
        const first = c.pending[0];
        if (c.stream.state === 'closed') {
            if (n !== 0)
                throw new TypeError('the stream is closed: 0 bytes are the only answer');
        } else {
            if (n === 0)
                throw new TypeError('0 bytes are no answer while the stream is open');
            if (first.filled + n > first.length)
                throw new RangeError('more bytes are said to be written than there is room for');
        }
        first.buffer = transfer(first.buffer);
        respondInternal(c, n);
    }
    function respondWithNewView(c, view) {
        const first = c.pending[0], { byteOffset, byteLength, buffer } = view;
        if (c.stream.state === 'closed') {
            if (byteLength !== 0)
                throw new TypeError('the stream is closed: an empty view is the only answer');
        } else if (byteLength === 0) {
            throw new TypeError('an empty view is no answer while the stream is open');
        }
        if (first.offset + first.filled !== byteOffset)
            throw new RangeError('the view begins at another place than the request');
        if (first.bufferLength !== buffer.byteLength)
            throw new RangeError('the buffer of the view has another size than that of the request');
        if (first.filled + byteLength > first.length)
            throw new RangeError('the view is larger than the request');
        first.buffer = transfer(buffer);
        respondInternal(c, byteLength);
    }
    class ReadableStreamBYOBRequest {
        #q;
        constructor(key, q) {
            if (key !== secret)
                throw new TypeError('a byte stream makes its requests itself');
            this.#q = q;
        }
        get view() { return this.#q.view; }
        respond(n) {
            const q = this.#q;
            if (arguments.length === 0)
                throw new TypeError('respond: a number of bytes is needed');
            n = Number(n);
            if (!(n > -1) || n > Number.MAX_SAFE_INTEGER)
                throw new TypeError('respond: the number of bytes is out of range');
            if (q.controller === undefined)
                throw new TypeError('this request was answered');
            if (q.view.buffer.detached)
                throw new TypeError('the buffer of the request is detached');
            respond(q.controller, Math.trunc(n));
        }
        respondWithNewView(view) {
            const q = this.#q;
            if (!ArrayBuffer.isView(view))
                throw new TypeError('respondWithNewView: a view of an ArrayBuffer is needed');
            if (q.controller === undefined)
                throw new TypeError('this request was answered');
            if (view.buffer.detached)
                throw new TypeError('the buffer of the view is detached');
            respondWithNewView(q.controller, view);
        }
    }
    idl(ReadableStreamBYOBRequest);
    function requestOf(c) {
        if (c.request === null && c.pending.length > 0) {
            const d = c.pending[0];
            const q = { controller: c, view: new Uint8Array(d.buffer, d.offset + d.filled, d.length - d.filled) };
            q.object = new ReadableStreamBYOBRequest(secret, q);
            c.request = q;
        }
        return c.request;
    }
    class ReadableByteStreamController {
        #c;
        constructor(key, c) {
            if (key !== secret)
                throw new TypeError('a ReadableStream makes its controller itself');
            this.#c = c;
        }
        get byobRequest() { return requestOf(this.#c)?.object ?? null; }
        get desiredSize() { return desiredSize(this.#c); }
        close() {
            const c = this.#c;
            if (c.closeRequested || c.stream.state !== 'readable')
                throw new TypeError('the stream cannot be closed: it is closed or closing, or has failed');
            close(c);
        }
        enqueue(chunk) {
            const c = this.#c;
            if (!ArrayBuffer.isView(chunk))
                throw new TypeError('enqueue: a view of an ArrayBuffer is needed');
            if (chunk.byteLength === 0 || chunk.buffer.byteLength === 0)
                throw new TypeError('enqueue: an empty view is no chunk');
            if (c.closeRequested || c.stream.state !== 'readable')
                throw new TypeError('the stream takes no chunk: it is closed or closing, or has failed');
            enqueue(c, chunk);
        }
        error(e = undefined) { fail(this.#c, e); }
    }
    idl(ReadableByteStreamController);

    function autoPull(c, request) {
        const rs = c.stream, { auto } = c;
        if (auto !== undefined) {
            let buffer;
            try {
                buffer = new ArrayBuffer(auto);
            } catch (e) {
                request.error(e);
                return;
            }
            c.pending[c.pending.length] = {
                buffer, bufferLength: auto, offset: 0, length: auto, filled: 0, minimum: 1, size: 1, make: Uint8Array, type: 'default',
            };
        }
        rs.reader.requests[rs.reader.requests.length] = request;
        callPull(c);
    }
    function setUp(rs, start, pull, cancel, mark, auto) {
        const c = {
            stream: rs, object: undefined, bytes: true, queue: [], total: 0, started: false, closeRequested: false, pullAgain: false,
            pulling: false, mark, pull, cancel, auto, request: null, pending: [],
            cancelSteps(reason) {
                c.pending = [];
                invalidate(c);
                resetQueue(c);
                const result = c.cancel(reason);
                forget(c);
                return result;
            },
            pullSteps(request) {
                if (c.total > 0)
                    fillRequest(c, request);
                else
                    autoPull(c, request);
            },
            releaseSteps() {
                if (c.pending.length > 0) {
                    const first = c.pending[0];
                    first.type = 'none';
                    c.pending = [first];
                }
            },
        };
        c.object = new ReadableByteStreamController(secret, c);
        streams.begin(c, rs, start, callPull, fail);
        return c;
    }
    // A byte stream of the runtime's own; its state.
    function create(start, pull, cancel) {
        const rs = streams.newState();
        rs.object = new streams.ReadableStream(secret, rs);
        setUp(rs, start, pull, cancel, 0, undefined);
        return rs;
    }

    // --- the BYOB reader

    function acquireByob(rs) {
        if (rs.reader !== undefined)
            throw new TypeError('the stream is locked by a reader');
        if (!rs.controller.bytes)
            throw new TypeError('the stream is no byte stream');
        return streams.acquire(rs, true);
    }
    function readInto(r, view, min, request) {
        const rs = r.stream;
        rs.disturbed = true;
        if (rs.state === 'errored')
            request.error(rs.error);
        else
            pullInto(rs.controller, view, min, request);
    }
    function minimum(options) {
        let { min } = base.dictionary(options, 'the options');
        if (min === undefined)
            return 1;
        min = Number(min);
        if (!(Math.trunc(min) >= 0) || min > Number.MAX_SAFE_INTEGER)
            throw new TypeError('min is out of range');
        return Math.trunc(min);
    }
    function checkView(view, min) {
        if (view.byteLength === 0)
            throw new TypeError('read: the view is empty');
        if (view.buffer.byteLength === 0 || view.buffer.detached)
            throw new TypeError('read: the buffer of the view is empty or detached');
        if (min === 0)
            throw new TypeError('read: min must not be 0');
        if (min > (view instanceof DataView ? view.byteLength : view.length))
            throw new RangeError('read: min is more than the view holds');
    }
    class ReadableStreamBYOBReader {
        #r;
        constructor(stream) {
            const rs = streams.stateOf(stream);
            if (rs === undefined)
                throw new TypeError('a ReadableStream is needed');
            this.#r = acquireByob(rs);
        }
        get closed() {
            return #r in this ? this.#r.closed.promise : rejected(new TypeError('this is no ReadableStreamBYOBReader'));
        }
        cancel(reason = undefined) {
            if (!(#r in this))
                return rejected(new TypeError('this is no ReadableStreamBYOBReader'));
            return this.#r.stream === undefined ? rejected(new TypeError('the reader was released'))
                : streams.cancel(this.#r.stream, reason);
        }
        read(view, options = {}) {
            try {
                const r = this.#r;
                if (!ArrayBuffer.isView(view))
                    throw new TypeError('read: a view of an ArrayBuffer is needed');
                const min = minimum(options);
                checkView(view, min);
                if (r.stream === undefined)
                    throw new TypeError('the reader was released');
                const d = deferred();
                readInto(r, view, min, {
                    chunk: (value) => d.resolve({ value, done: false }),
                    close: (value) => d.resolve({ value, done: true }),
                    error: d.reject,
                });
                return d.promise;
            } catch (e) {
                return rejected(e);
            }
        }
        releaseLock() { streams.release(this.#r); }
    }
    idl(ReadableStreamBYOBReader);

    return {
        ReadableByteStreamController, ReadableStreamBYOBReader, ReadableStreamBYOBRequest, setUp, create, enqueue, close, fail, respond,
        respondWithNewView, requestOf, acquireByob, readInto,
    };
})
