// Events and abort, as the DOM standard says for targets without a tree.
(function (internal) {
    'use strict';
    const { idl, need, isObject, dictionary } = internal.need('idl');
    const { now } = performance, origin = performance;

    // --- Event

    class Event {
        #e;
        static stateOf(v) { return isObject(v) && #e in v ? v.#e : undefined; }
        static trusted(event) { event.#e.trusted = true; return event; }
        constructor(type, init = {}) {
            need(arguments, 1, 'Event');
            type = `${type}`;
            const o = dictionary(init, 'eventInitDict');
            this.#e = {
                type, bubbles: !!o.bubbles, cancelable: !!o.cancelable, composed: !!o.composed, target: null, currentTarget: null, phase: 0,
                stop: false, stopNow: false, canceled: false, passive: false, dispatching: false, ready: true, trusted: false,
                time: Reflect.apply(now, origin, []),
            };
            Object.defineProperty(this, 'isTrusted', { get: isTrusted, enumerable: true });
        }
        get type() { return this.#e.type; }
        get target() { return this.#e.target; }
        get srcElement() { return this.#e.target; }
        get currentTarget() { return this.#e.currentTarget; }
        composedPath() { return this.#e.currentTarget === null ? [] : [this.#e.currentTarget]; }
        get eventPhase() { return this.#e.phase; }
        stopPropagation() { this.#e.stop = true; }
        get cancelBubble() { return this.#e.stop; }
        set cancelBubble(v) { if (v) this.#e.stop = true; }
        stopImmediatePropagation() { this.#e.stop = this.#e.stopNow = true; }
        get bubbles() { return this.#e.bubbles; }
        get cancelable() { return this.#e.cancelable; }
        get returnValue() { return !this.#e.canceled; }
        set returnValue(v) { if (!v) cancelEvent(this.#e); }
        preventDefault() { cancelEvent(this.#e); }
        get defaultPrevented() { return this.#e.canceled; }
        get composed() { return this.#e.composed; }
        get timeStamp() { return this.#e.time; }
        initEvent(type, bubbles = false, cancelable = false) {
            const e = this.#e;
            need(arguments, 1, 'initEvent');
            type = `${type}`;
            if (e.dispatching)
                return;
            e.stop = e.stopNow = e.canceled = false;
            e.trusted = false;
            e.ready = true;
            e.target = null;
            e.type = type;
            e.bubbles = !!bubbles;
            e.cancelable = !!cancelable;
        }
    }
    const { stateOf, trusted } = Event;
    delete Event.stateOf;
    delete Event.trusted;
    const isTrusted = Object.getOwnPropertyDescriptor({ get isTrusted() { return stateOf(this).trusted; } }, 'isTrusted').get;
    function cancelEvent(e) {
        if (e.cancelable && !e.passive)
            e.canceled = true;
    }
    idl(Event, { NONE: 0, CAPTURING_PHASE: 1, AT_TARGET: 2, BUBBLING_PHASE: 3 });

    class CustomEvent extends Event {
        #detail;
        constructor(type, init = {}) {
            need(arguments, 1, 'CustomEvent');
            super(type, init);
            const { detail } = dictionary(init, 'eventInitDict');
            this.#detail = detail === undefined ? null : detail;
        }
        get detail() { return this.#detail; }
        initCustomEvent(type, bubbles = false, cancelable = false, detail = null) {
            const dispatching = stateOf(this)?.dispatching;
            need(arguments, 1, 'initCustomEvent');
            this.initEvent(type, bubbles, cancelable);
            if (!dispatching)
                this.#detail = detail;
        }
    }
    idl(CustomEvent);

    // --- EventTarget

    // One call of a listener; what it throws is reported, and the next one runs.
    function invoke(l, event, e) {
        const { callback } = l;
        e.passive = l.passive;
        try {
            if (typeof callback === 'function') {
                Reflect.apply(callback, e.currentTarget, [event]);
            } else {
                const { handleEvent } = callback;
                if (typeof handleEvent !== 'function')
                    throw new TypeError('the listener has no function handleEvent');
                Reflect.apply(handleEvent, callback, [event]);
            }
        } catch (problem) {
            internal.report(problem);
        }
        e.passive = false;
    }
    function dispatch(target, listeners, event, e) {
        e.dispatching = true;
        e.target = e.currentTarget = target;
        e.phase = 2;
        for (let capture = 1; capture >= 0; capture--) {
            const list = listeners.slice();
            for (let i = 0; i < list.length && !e.stopNow; i++) {
                const l = list[i];
                if (l.removed || l.type !== e.type || l.capture !== !!capture)
                    continue;
                if (l.once)
                    remove(listeners, l);
                invoke(l, event, e);
            }
            if (e.stop)
                break;
        }
        e.phase = 0;
        e.currentTarget = null;
        e.dispatching = e.stop = e.stopNow = false;
        return !e.canceled;
    }
    function remove(listeners, l) {
        const i = listeners.indexOf(l);
        l.removed = true;
        if (i >= 0)
            listeners.splice(i, 1);
        l.forget?.();
        touched(l.target);
    }
    function find(listeners, type, callback, capture) {
        for (let i = 0; i < listeners.length; i++)
            if (listeners[i].type === type && listeners[i].callback === callback && listeners[i].capture === capture)
                return listeners[i];
        return undefined;
    }
    const captures = (options) => (isObject(options) ? !!options.capture : !!options);
    class EventTarget {
        #listeners = [];
        static listenersOf(v) { return v.#listeners; }
        addEventListener(type, callback, options = {}) {
            const listeners = listenersOf(this);
            need(arguments, 2, 'addEventListener');
            type = `${type}`;
            if (callback !== null && callback !== undefined && !isObject(callback))
                throw new TypeError('addEventListener: a function or an object is needed');
            const capture = captures(options), o = isObject(options) ? options : {}, once = !!o.once, passive = !!o.passive, { signal } = o;
            if (signal !== undefined && !isSignal(signal))
                throw new TypeError("addEventListener: 'signal' must be an AbortSignal");
            if (callback === null || callback === undefined || signal?.aborted || find(listeners, type, callback, capture))
                return;
            const l = { target: this, type, callback, capture, once, passive, removed: false, forget: undefined };
            listeners[listeners.length] = l;
            touched(this);
            if (signal !== undefined)
                l.forget = onAbort(signal, () => remove(listeners, l));
        }
        removeEventListener(type, callback, options = {}) {
            const listeners = listenersOf(this);
            need(arguments, 2, 'removeEventListener');
            const l = find(listeners, `${type}`, callback, captures(options));
            if (l !== undefined)
                remove(listeners, l);
        }
        dispatchEvent(event) {
            const listeners = listenersOf(this), e = stateOf(event);
            if (e === undefined)
                throw new TypeError('dispatchEvent: an Event is needed');
            if (e.dispatching || !e.ready)
                throw new DOMException('the event is on its way already', 'InvalidStateError');
            e.trusted = false;
            return dispatch(this, listeners, event, e);
        }
    }
    const { listenersOf } = EventTarget;
    delete EventTarget.listenersOf;
    idl(EventTarget);
    // An event of the runtime's own.
    function fire(target, event) {
        return dispatch(target, listenersOf(target), trusted(event), stateOf(event));
    }
    // A property onNAME of a class: its value is a listener that keeps its place.
    function handler(cls, name) {
        const values = new WeakMap(), type = name.slice(2);
        Object.defineProperty(cls.prototype, name, {
            get() {
                listenersOf(this);
                return values.get(this)?.fn ?? null;
            },
            set(fn) {
                const listeners = listenersOf(this), old = values.get(this);
                if (!isObject(fn))
                    fn = null;
                if (old !== undefined && fn !== null) {
                    old.fn = fn;
                } else if (old !== undefined) {
                    remove(listeners, old.listener);
                    values.delete(this);
                } else if (fn !== null) {
                    const now = { fn, listener: undefined };
                    now.listener = {
                        target: this, type, capture: false, once: false, passive: false, removed: false, forget: undefined,
                        callback(event) {
                            if (typeof now.fn === 'function' && Reflect.apply(now.fn, this, [event]) === false)
                                cancelEvent(stateOf(event));
                        },
                    };
                    listeners[listeners.length] = now.listener;
                    values.set(this, now);
                    touched(this);
                }
            },
            enumerable: true, configurable: true,
        });
    }

    // --- abort

    const secret = Symbol('abort');
    class AbortSignal extends EventTarget {
        #aborted = false; #reason = undefined; #steps = []; #sources = undefined; #dependents = undefined;
        static innards = {
            isSignal: (v) => isObject(v) && #aborted in v,
            // step runs when the signal is aborted; returns what takes it off again.
            onAbort(s, step) {
                if (s.#aborted)
                    return () => {};
                const entry = { step };
                s.#steps[s.#steps.length] = entry;
                keep(s);
                return () => {
                    const i = s.#steps.indexOf(entry);
                    if (i >= 0)
                        s.#steps.splice(i, 1);
                    keep(s);
                };
            },
            // One that follows others is known to them weakly: it lives as long as somebody waits for it.
            keep(s) {
                if (s.#sources === undefined)
                    return;
                if (!s.#aborted && (s.#steps.length > 0 || listenersOf(s).some((l) => l.type === 'abort')))
                    held.add(s);
                else
                    held.delete(s);
            },
            abort(s, reason) {
                if (s.#aborted)
                    return;
                if (reason === undefined)
                    reason = new DOMException('this operation was aborted', 'AbortError');
                const all = [s];
                s.#mark(reason);
                const list = s.#dependents ?? [];
                for (let i = 0; i < list.length; i++) {
                    const d = list[i].deref();
                    if (d !== undefined && !d.#aborted) {
                        d.#mark(reason);
                        all[all.length] = d;
                    }
                }
                for (let i = 0; i < all.length; i++)
                    all[i].#run();
            },
            any(list) {
                const made = new AbortSignal(secret), sources = [];
                const add = (source) => {
                    if (sources.includes(source))
                        return;
                    sources[sources.length] = source;
                    source.#dependents = (source.#dependents ?? []).filter((ref) => ref.deref() !== undefined);
                    source.#dependents[source.#dependents.length] = new WeakRef(made);
                };
                for (let i = 0; i < list.length; i++)
                    if (list[i].#aborted) {
                        made.#mark(list[i].#reason);
                        return made;
                    }
                for (let i = 0; i < list.length; i++) {
                    const of = list[i].#sources;
                    if (of === undefined)
                        add(list[i]);
                    else
                        for (let k = 0; k < of.length; k++)
                            add(of[k]);
                }
                made.#sources = sources;
                return made;
            },
        };
        constructor(key) {
            if (key !== secret)
                throw new TypeError('an AbortSignal is made by an AbortController');
            super();
        }
        #mark(reason) {
            this.#aborted = true;
            this.#reason = reason;
        }
        #run() {
            const steps = this.#steps;
            this.#steps = [];
            for (let i = 0; i < steps.length; i++)
                steps[i].step();
            held.delete(this);
            fire(this, new Event('abort'));
        }
        get aborted() { return this.#aborted; }
        get reason() { return this.#reason; }
        throwIfAborted() { if (this.#aborted) throw this.#reason; }
        static abort(reason = undefined) {
            const s = new AbortSignal(secret);
            s.#mark(reason === undefined ? new DOMException('this operation was aborted', 'AbortError') : reason);
            return s;
        }
        static timeout(milliseconds) {
            need(arguments, 1, 'AbortSignal.timeout');
            const ms = Number(milliseconds);
            if (!(ms > -1) || ms > Number.MAX_SAFE_INTEGER)
                throw new TypeError('AbortSignal.timeout: the time is out of range');
            const s = new AbortSignal(secret);
            internal.need('timers').later(() => abort(s, new DOMException('the operation took too long', 'TimeoutError')), ms);
            return s;
        }
        static any(signals) {
            need(arguments, 1, 'AbortSignal.any');
            if (!isObject(signals) || typeof signals[Symbol.iterator] !== 'function')
                throw new TypeError('AbortSignal.any: a list of signals is needed');
            const list = [...signals];
            for (let i = 0; i < list.length; i++)
                if (!isSignal(list[i]))
                    throw new TypeError('AbortSignal.any: each must be an AbortSignal');
            return anyOf(list);
        }
    }
    const held = new Set(), { abort, any: anyOf, isSignal, onAbort, keep } = AbortSignal.innards;
    delete AbortSignal.innards;
    function touched(target) {
        if (isSignal(target))
            keep(target);
    }
    idl(AbortSignal);
    handler(AbortSignal, 'onabort');

    class AbortController {
        #signal = new AbortSignal(secret);
        get signal() { return this.#signal; }
        abort(reason = undefined) { abort(this.#signal, reason); }
    }
    idl(AbortController);

    return {
        Event, CustomEvent, EventTarget, AbortController, AbortSignal, abort, onAbort, isSignal, fire, handler, dictionary, isObject,
        anyOf, newSignal: () => new AbortSignal(secret),
    };
})
