// What leads from one stream to others: pipes, tee, iteration, and streams made from iterables.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), streams = internal.need('streams');
    const { deferred, then, resolved, rejected, handled, nop } = base;
    const writable = () => internal.need('streams_writable');

    // --- pipeTo

    // Copies chunk by chunk while the sink has room; ends by what happens first.
    function pipeTo(rs, ws, preventClose, preventAbort, preventCancel, signal) {
        const w = writable(), reader = streams.acquireDefault(rs), writer = w.acquire(ws), end = deferred();
        let over = false, lastWrite = resolved(undefined), forgetAbort;
        rs.disturbed = true;
        function finalize(failed, e) {
            w.release(writer);
            streams.release(reader);
            if (forgetAbort !== undefined)
                forgetAbort();
            if (failed)
                end.reject(e);
            else
                end.resolve(undefined);
        }
        // action: what is done to the other side before the pipe ends; waits for the writes on their way.
        function shutdown(failed, e, action) {
            if (over)
                return;
            over = true;
            const go = () => {
                if (action === undefined)
                    finalize(failed, e);
                else
                    then(action(), () => finalize(failed, e), (other) => finalize(true, other));
            };
            if (ws.state === 'writable' && !w.closeQueued(ws))
                waitForWrites(go);
            else
                go();
        }
        function waitForWrites(go) {
            const seen = lastWrite;
            const next = () => (seen === lastWrite ? go() : waitForWrites(go));
            then(seen, next, next);
        }
        function onAbort() {
            const { reason } = signal, actions = [];
            if (!preventAbort)
                actions[actions.length] = () => (ws.state === 'writable' ? w.abort(ws, reason) : resolved(undefined));
            if (!preventCancel)
                actions[actions.length] = () => (rs.state === 'readable' ? streams.cancel(rs, reason) : resolved(undefined));
            shutdown(true, reason, () => waitAll(actions));
        }
        // Errors and closing must be propagated: each is looked at now, and when the promise of its side settles.
        function readableFailed() {
            if (preventAbort)
                shutdown(true, rs.error);
            else
                shutdown(true, rs.error, () => w.abort(ws, rs.error));
        }
        function writableFailed() {
            if (preventCancel)
                shutdown(true, ws.error);
            else
                shutdown(true, ws.error, () => streams.cancel(rs, ws.error));
        }
        function readableClosed() {
            if (preventClose)
                shutdown(false);
            else
                shutdown(false, undefined, () => w.closeForPipe(writer));
        }
        function writableClosed() {
            const e = new TypeError('the destination of the pipe is closed');
            if (preventCancel)
                shutdown(true, e);
            else
                shutdown(true, e, () => streams.cancel(rs, e));
        }
        function step() {
            if (over)
                return;
            then(writer.ready.promise, () => {
                if (over)
                    return;
                streams.read(reader, {
                    chunk(value) {
                        lastWrite = then(resolved(undefined), () => {
                            if (writer.stream === undefined)
                                return undefined;
                            const written = then(w.write(writer, value), nop, nop);
                            step();
                            return written;
                        });
                    },
                    close: nop,
                    error: nop,
                });
            }, nop);
        }
        if (signal !== undefined) {
            if (signal.aborted) {
                onAbort();
                return end.promise;
            }
            forgetAbort = internal.need('events').onAbort(signal, onAbort);
        }
        watch(rs, reader, readableFailed, readableClosed);
        watchWriter(ws, writer, writableFailed, writableClosed, w);
        step();
        return end.promise;
    }
    function watch(rs, reader, failed, closed) {
        if (rs.state === 'errored')
            failed();
        else if (rs.state === 'closed')
            closed();
        else
            then(reader.closed.promise, closed, failed);
    }
    function watchWriter(ws, writer, failed, closed, w) {
        if (ws.state === 'errored')
            failed();
        else if (w.closeQueued(ws) || ws.state === 'closed')
            closed();
        else
            then(writer.closed.promise, nop, failed);
    }
    function waitAll(actions) {
        const d = deferred();
        let left = actions.length;
        if (left === 0)
            d.resolve(undefined);
        for (let i = 0; i < actions.length; i++)
            then(actions[i](), () => {
                if (--left === 0)
                    d.resolve(undefined);
            }, d.reject);
        return d.promise;
    }
    function pipeOptions(options) {
        const o = base.dictionary(options, 'the options');
        const preventAbort = !!o.preventAbort, preventCancel = !!o.preventCancel, preventClose = !!o.preventClose, { signal } = o;
        if (signal !== undefined && !internal.need('events').isSignal(signal))
            throw new TypeError("'signal' must be an AbortSignal");
        return { preventClose, preventAbort, preventCancel, signal };
    }
    function pipeToPublic(rs, destination, options) {
        try {
            const ws = writable().stateOf(destination);
            if (ws === undefined)
                throw new TypeError('pipeTo: a WritableStream is needed');
            const o = pipeOptions(options);
            if (rs.reader !== undefined)
                throw new TypeError('pipeTo: the stream is locked');
            if (ws.writer !== undefined)
                throw new TypeError('pipeTo: the destination is locked');
            return pipeTo(rs, ws, o.preventClose, o.preventAbort, o.preventCancel, o.signal);
        } catch (e) {
            return rejected(e);
        }
    }
    function pipeThrough(rs, transform, options, count) {
        if (count === 0 || !base.isObject(transform))
            throw new TypeError('pipeThrough: an object with readable and writable is needed');
        const { readable } = transform;
        if (streams.stateOf(readable) === undefined)
            throw new TypeError("pipeThrough: 'readable' must be a ReadableStream");
        const ws = writable().stateOf(transform.writable);
        if (ws === undefined)
            throw new TypeError("pipeThrough: 'writable' must be a WritableStream");
        const o = pipeOptions(options);
        if (rs.reader !== undefined)
            throw new TypeError('pipeThrough: the stream is locked');
        if (ws.writer !== undefined)
            throw new TypeError('pipeThrough: the writable is locked');
        handled(pipeTo(rs, ws, o.preventClose, o.preventAbort, o.preventCancel, o.signal));
        return readable;
    }

    // --- tee

    // clone: a function for the second branch's chunks, or undefined.
    function tee(rs, clone) {
        return rs.controller.bytes ? internal.need('streams_tee').teeBytes(rs) : teeDefault(rs, clone);
    }
    function teeDefault(rs, clone) {
        const reader = streams.acquireDefault(rs), canceled = [false, false], reasons = [undefined, undefined], end = deferred();
        let reading = false, again = false, branches;
        function deliver(chunk) {
            again = false;
            let second = chunk;
            if (!canceled[1] && clone !== undefined) {
                try {
                    second = clone(chunk);
                } catch (e) {
                    streams.controllerError(branches[0].controller, e);
                    streams.controllerError(branches[1].controller, e);
                    end.resolve(streams.cancel(rs, e));
                    return;
                }
            }
            if (!canceled[0])
                streams.enqueue(branches[0].controller, chunk);
            if (!canceled[1])
                streams.enqueue(branches[1].controller, second);
            reading = false;
            if (again)
                pull();
        }
        function pull() {
            if (reading) {
                again = true;
                return resolved(undefined);
            }
            reading = true;
            streams.read(reader, {
                chunk: (chunk) => queueMicrotask(() => deliver(chunk)),
                close() {
                    reading = false;
                    for (let i = 0; i < 2; i++)
                        if (!canceled[i])
                            streams.controllerClose(branches[i].controller);
                    if (!canceled[0] || !canceled[1])
                        end.resolve(undefined);
                },
                error() { reading = false; },
            });
            return resolved(undefined);
        }
        const canceler = (i) => (reason) => {
            canceled[i] = true;
            reasons[i] = reason;
            if (canceled[1 - i])
                end.resolve(streams.cancel(rs, reasons));
            return end.promise;
        };
        branches = [streams.create(nop, pull, canceler(0)), streams.create(nop, pull, canceler(1))];
        then(reader.closed.promise, nop, (e) => {
            streams.controllerError(branches[0].controller, e);
            streams.controllerError(branches[1].controller, e);
            if (!canceled[0] || !canceled[1])
                end.resolve(undefined);
        });
        return branches;
    }
    const { queueMicrotask } = globalThis;

    // --- iteration

    const states = new WeakMap(), over = Symbol('end');
    const asyncIterator = Object.getPrototypeOf(Object.getPrototypeOf((async function* () {}).prototype));
    function nextValue(it) {
        const d = deferred();
        streams.read(it.reader, {
            chunk: d.resolve,
            close() {
                streams.release(it.reader);
                d.resolve(over);
            },
            error(e) {
                streams.release(it.reader);
                d.reject(e);
            },
        });
        return d.promise;
    }
    const iteratorMethods = {
        next() {
            const it = states.get(this);
            if (it === undefined)
                return rejected(new TypeError('this is no iterator of a ReadableStream'));
            const steps = () => {
                if (it.finished)
                    return resolved({ value: undefined, done: true });
                return then(nextValue(it), (value) => {
                    it.ongoing = undefined;
                    if (value !== over)
                        return { value, done: false };
                    it.finished = true;
                    return { value: undefined, done: true };
                }, (e) => {
                    it.ongoing = undefined;
                    it.finished = true;
                    throw e;
                });
            };
            it.ongoing = it.ongoing === undefined ? steps() : then(it.ongoing, steps, steps);
            return it.ongoing;
        },
        return(value) {
            const it = states.get(this);
            if (it === undefined)
                return rejected(new TypeError('this is no iterator of a ReadableStream'));
            const steps = () => {
                if (it.finished)
                    return resolved(undefined);
                it.finished = true;
                const result = it.preventCancel ? resolved(undefined) : streams.cancel(it.reader.stream, value);
                streams.release(it.reader);
                return result;
            };
            it.ongoing = it.ongoing === undefined ? steps() : then(it.ongoing, steps, steps);
            return then(it.ongoing, () => ({ value, done: true }));
        },
    };
    const iteratorProto = Object.create(asyncIterator);
    for (const name in iteratorMethods)
        Object.defineProperty(iteratorProto, name, { value: iteratorMethods[name], writable: true, enumerable: true, configurable: true });
    function iterate(rs, options) {
        const preventCancel = !!base.dictionary(options, 'the options').preventCancel;
        const it = Object.create(iteratorProto);
        states.set(it, { reader: streams.acquireDefault(rs), preventCancel, ongoing: undefined, finished: false });
        return it;
    }

    // --- from

    function iteratorOf(iterable, count) {
        if (count === 0 || iterable === undefined || iterable === null)
            throw new TypeError('ReadableStream.from: an iterable is needed');
        let make = iterable[Symbol.asyncIterator], sync = false;
        if (make === undefined || make === null) {
            make = iterable[Symbol.iterator];
            sync = true;
        }
        if (typeof make !== 'function')
            throw new TypeError('ReadableStream.from: an iterable is needed');
        const iterator = Reflect.apply(make, iterable, []);
        if (!base.isObject(iterator))
            throw new TypeError('ReadableStream.from: the iterator is no object');
        return { iterator, next: iterator.next, sync };
    }
    function wantObject(v) {
        if (!base.isObject(v))
            throw new TypeError('the iterator gave what is no object');
        return v;
    }
    // Results of a synchronous iterator have values that may be promises.
    function awaited(result) {
        const { done } = wantObject(result);
        return then(resolved(result.value), (value) => ({ value, done }));
    }
    function from(iterable, count) {
        const { iterator, next, sync } = iteratorOf(iterable, count);
        let rs;
        function pull() {
            let result;
            try {
                result = Reflect.apply(next, iterator, []);
                result = sync ? awaited(result) : resolved(result);
            } catch (e) {
                return rejected(e);
            }
            return then(result, (r) => {
                if (wantObject(r).done)
                    streams.controllerClose(rs.controller);
                else
                    streams.enqueue(rs.controller, r.value);
            });
        }
        function cancel(reason) {
            let result;
            try {
                const method = iterator.return;
                if (method === undefined || method === null)
                    return resolved(undefined);
                result = Reflect.apply(method, iterator, [reason]);
                result = sync ? awaited(result) : resolved(result);
            } catch (e) {
                return rejected(e);
            }
            return then(result, (r) => { wantObject(r); });
        }
        rs = streams.create(nop, pull, cancel, 0);
        return rs;
    }

    return { pipeTo, pipeToPublic, pipeThrough, tee, iterate, from };
})
