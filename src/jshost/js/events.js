// Events and abort.
(function (internal) {
    'use strict';
    class Event {
        #type; #cancelable; #prevented = false;
        target = null;
        timeStamp = performance.now();
        constructor(type, options = {}) {
            if (arguments.length === 0)
                throw new TypeError('Event: a type is needed');
            this.#type = String(type);
            this.#cancelable = !!options?.cancelable;
        }
        get type() { return this.#type; }
        get currentTarget() { return this.target; }
        get bubbles() { return false; }
        get cancelable() { return this.#cancelable; }
        get defaultPrevented() { return this.#prevented; }
        preventDefault() { if (this.#cancelable) this.#prevented = true; }
        stopPropagation() {}
        stopImmediatePropagation() { this.stopped = true; }
    }
    class EventTarget {
        #listeners = [];
        addEventListener(type, listener, options) {
            if (listener === null || listener === undefined)
                return;
            if (typeof listener !== 'function' && typeof listener !== 'object')
                throw new TypeError('addEventListener: a function or an object is needed');
            const o = typeof options === 'object' && options !== null ? options : {};
            type = String(type);
            if (o.signal?.aborted || this.#listeners.some((l) => l.type === type && l.listener === listener))
                return;
            this.#listeners.push({ type, listener, once: !!o.once });
            o.signal?.addEventListener('abort', () => this.removeEventListener(type, listener));
        }
        removeEventListener(type, listener) {
            this.#listeners = this.#listeners.filter((l) => l.type !== String(type) || l.listener !== listener);
        }
        dispatchEvent(event) {
            if (!(event instanceof Event))
                throw new TypeError('dispatchEvent: an Event is needed');
            event.target = this;
            for (const l of [...this.#listeners]) {
                if (l.type !== event.type || !this.#listeners.includes(l))
                    continue;
                if (l.once)
                    this.removeEventListener(l.type, l.listener);
                try {
                    if (typeof l.listener === 'function')
                        l.listener.call(this, event);
                    else
                        l.listener.handleEvent(event);
                } catch (e) {
                    internal.report(e);
                }
                if (event.stopped)
                    break;
            }
            return !event.defaultPrevented;
        }
    }
    const secret = Symbol('abort');
    class AbortSignal extends EventTarget {
        #reason; #aborted = false; #steps = [];
        onabort = null;
        constructor(key) {
            super();
            if (key !== secret)
                throw new TypeError('AbortSignal is made by an AbortController');
        }
        get aborted() { return this.#aborted; }
        get reason() { return this.#reason; }
        throwIfAborted() { if (this.#aborted) throw this.#reason; }
        static abort(reason) {
            const s = new AbortSignal(secret);
            s.#abort(reason);
            return s;
        }
        static timeout(ms) {
            const s = new AbortSignal(secret);
            internal.need('timers').setTimeout(() => s.#abort(new DOMException('the time is over', 'TimeoutError')), ms);
            return s;
        }
        static any(signals) {
            const s = new AbortSignal(secret), list = [...signals];
            const first = list.find((x) => x.aborted);
            if (first)
                s.#abort(first.reason);
            else
                for (const x of list)
                    x.#steps.push(() => s.#abort(x.reason));
            return s;
        }
        static [secret](s, reason) { s.#abort(reason); }
        static onAbort(key, s, step) {
            if (key !== secret)
                return;
            s.#steps.push(step);
            return () => { s.#steps = s.#steps.filter((x) => x !== step); };
        }
        #abort(reason) {
            if (this.#aborted)
                return;
            this.#aborted = true;
            this.#reason = reason === undefined ? new DOMException('it was aborted', 'AbortError') : reason;
            for (const step of this.#steps.splice(0))
                step();
            const event = new Event('abort');
            if (typeof this.onabort === 'function') {
                try {
                    this.onabort.call(this, event);
                } catch (e) {
                    internal.report(e);
                }
            }
            this.dispatchEvent(event);
        }
    }
    const abort = AbortSignal[secret], onAbort = AbortSignal.onAbort;
    delete AbortSignal[secret];
    delete AbortSignal.onAbort;
    class AbortController {
        #signal = new AbortSignal(secret);
        get signal() { return this.#signal; }
        abort(reason) { abort(this.#signal, reason); }
    }
    return { 
        Event, EventTarget, AbortController, AbortSignal, abort,
        onAbort: (s, step) => onAbort(secret, s, step),
        isSignal: (v) => v instanceof AbortSignal,
    };
})
