// kit.epp.infra: a dispatcher of EPP/1 that is called in this process, with no JSON between.
(function (internal) {
    'use strict';
    const {
        ArrayIsArray, ArrayPrototypeIncludes, PromisePrototypeThen, PromiseResolve, String, StringPrototypeIndexOf, StringPrototypeSlice,
        Uint8ArrayFromBase64,
    } = internal.need('primordials');

    // Notifications of the dispatcher into the call that it was given.
    function emitInto(call) {
        const row = call.row;
        return function emit(method, params) {
            if (call.done)
                return PromiseResolve();
            const text = String(method), name = StringPrototypeSlice(text, StringPrototypeIndexOf(text, '.') + 1);
            const { stream, channel, text: plain, base64, bytes, kind, ...members } = params ?? {};
            const data = bytes ?? plain ?? (base64 === undefined ? undefined : Uint8ArrayFromBase64(base64));
            const target = channel ??
                (ArrayPrototypeIncludes(row.channels, kind) ? kind : name === 'output' ? row.channels[0] : undefined);
            if (data !== undefined && target !== undefined)
                return call.write(String(target), data);
            if (channel !== undefined)
                members.stream = channel;
            if (plain !== undefined && target === undefined)
                members.text = plain; // a member of the event, no bytes of it
            if (row.group === 'process' || row.group === 'pty')
                internal.event(call.id, name, kind === undefined ? members : { ...members, kind });
            else if (ArrayPrototypeIncludes(row.events, kind))
                internal.event(call.id, kind, members);
            else
                internal.event(call.id, 'change', { ...members, kind });
            return PromiseResolve();
        };
    }
    async function feed(dispatcher, call, emit) {
        const signal = call.controller.signal;
        for (;;) {
            const { done, value } = await call.nextInput();
            if (done)
                return dispatcher.call('stream.end', { stream: call.id }, emit, signal);
            await dispatcher.call('stream.write', { stream: call.id, bytes: value }, emit, signal);
        }
    }
    function features(said) {
        if (!ArrayIsArray(said))
            return said;
        const map = {};
        for (let i = 0; i < said.length; i++)
            map[String(said[i])] = 'native';
        return map;
    }
    // What answers calls from then on, and the features.
    async function use(marker, ctx, params, errors, fail) {
        const dispatcher = await marker.factory(marker.ctx ?? ctx);
        if (typeof dispatcher?.call !== 'function')
            throw new errors.ProviderStartError("the factory of kit.epp.infra must return an object with a function 'call'");
        const hello = await dispatcher.initialize?.({ protocol: 'epp/1', ...params }) ?? {};
        const invoke = (call) => {
            const emit = emitInto(call);
            emit.stream = call.id;
            if (call.row.style === 'body-in' || call.row.style === 'duplex')
                PromisePrototypeThen(feed(dispatcher, call, emit), undefined, (e) => fail(call, e));
            return dispatcher.call(call.row.method, call.params, emit, call.controller.signal);
        };
        return { invoke, features: features(hello.features ?? []) };
    }
    return { use };
})
