// tee of a byte stream: reads into the view of the branch that asks with one, else by chunks.
(function (internal) {
    'use strict';
    const base = internal.need('streams_base'), streams = internal.need('streams'), bytes = internal.need('streams_bytes');
    const { deferred, then, resolved, nop } = base, { queueMicrotask } = globalThis;

    function copyOf(view) {
        return new Uint8Array(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    }
    function teeBytes(rs) {
        const canceled = [false, false], again = [false, false], reasons = [undefined, undefined], end = deferred();
        let reader = streams.acquireDefault(rs), reading = false, branches;
        const controller = (i) => branches[i].controller;

        function forward(r) {
            then(r.closed.promise, nop, (e) => {
                if (r !== reader)
                    return;
                bytes.fail(controller(0), e);
                bytes.fail(controller(1), e);
                if (!canceled[0] || !canceled[1])
                    end.resolve(undefined);
            });
        }
        function giveUp(e) {
            bytes.fail(controller(0), e);
            bytes.fail(controller(1), e);
            end.resolve(streams.cancel(rs, e));
        }
        function goOn() {
            reading = false;
            if (again[0])
                pull(0);
            else if (again[1])
                pull(1);
        }
        function byChunks() {
            if (reader.byob) {
                streams.release(reader);
                reader = streams.acquireDefault(rs);
                forward(reader);
            }
            streams.read(reader, {
                chunk: (chunk) => queueMicrotask(() => {
                    again[0] = again[1] = false;
                    let second = chunk;
                    if (!canceled[0] && !canceled[1]) {
                        try {
                            second = copyOf(chunk);
                        } catch (e) {
                            giveUp(e);
                            return;
                        }
                    }
                    if (!canceled[0])
                        bytes.enqueue(controller(0), chunk);
                    if (!canceled[1])
                        bytes.enqueue(controller(1), second);
                    goOn();
                }),
                close() {
                    reading = false;
                    for (let i = 0; i < 2; i++)
                        if (!canceled[i])
                            bytes.close(controller(i));
                    for (let i = 0; i < 2; i++)
                        if (controller(i).pending.length > 0)
                            bytes.respond(controller(i), 0);
                    if (!canceled[0] || !canceled[1])
                        end.resolve(undefined);
                },
                error() { reading = false; },
            });
        }
        function intoView(view, mine) {
            if (!reader.byob) {
                streams.release(reader);
                reader = bytes.acquireByob(rs);
                forward(reader);
            }
            const other = 1 - mine;
            bytes.readInto(reader, view, 1, {
                chunk: (chunk) => queueMicrotask(() => {
                    again[0] = again[1] = false;
                    if (!canceled[other]) {
                        let copy;
                        try {
                            copy = copyOf(chunk);
                        } catch (e) {
                            giveUp(e);
                            return;
                        }
                        if (!canceled[mine])
                            bytes.respondWithNewView(controller(mine), chunk);
                        bytes.enqueue(controller(other), copy);
                    } else if (!canceled[mine]) {
                        bytes.respondWithNewView(controller(mine), chunk);
                    }
                    goOn();
                }),
                close(chunk) {
                    reading = false;
                    if (!canceled[mine])
                        bytes.close(controller(mine));
                    if (!canceled[other])
                        bytes.close(controller(other));
                    if (chunk !== undefined) {
                        if (!canceled[mine])
                            bytes.respondWithNewView(controller(mine), chunk);
                        if (!canceled[other] && controller(other).pending.length > 0)
                            bytes.respond(controller(other), 0);
                    }
                    if (!canceled[mine] || !canceled[other])
                        end.resolve(undefined);
                },
                error() { reading = false; },
            });
        }
        function pull(i) {
            if (reading) {
                again[i] = true;
                return resolved(undefined);
            }
            reading = true;
            const q = bytes.requestOf(controller(i));
            if (q === null)
                byChunks();
            else
                intoView(q.view, i);
            return resolved(undefined);
        }
        const canceler = (i) => (reason) => {
            canceled[i] = true;
            reasons[i] = reason;
            if (canceled[1 - i])
                end.resolve(streams.cancel(rs, reasons));
            return end.promise;
        };
        branches = [bytes.create(nop, () => pull(0), canceler(0)), bytes.create(nop, () => pull(1), canceler(1))];
        forward(reader);
        return branches;
    }
    return { teeBytes };
})
