// Timers: one heap by time, a map by id; natively there is one alarm.
(function (internal) {
    'use strict';
    const timers = new Map();
    const heap = [];
    let nextId = 1;
    let armedFor = Infinity;

    const before = (a, b) => a.due < b.due || (a.due === b.due && a.seq < b.seq);
    function push(t) {
        let i = heap.length;
        heap[i] = t;
        while (i > 0) {
            const up = (i - 1) >> 1;
            if (!before(t, heap[up]))
                break;
            heap[i] = heap[up];
            i = up;
        }
        heap[i] = t;
    }
    function pop() {
        const first = heap[0], last = heap.pop();
        const n = heap.length;
        if (n === 0)
            return first;
        let i = 0;
        for (;;) {
            let down = 2 * i + 1;
            if (down >= n)
                break;
            if (down + 1 < n && before(heap[down + 1], heap[down]))
                down++;
            if (!before(heap[down], last))
                break;
            heap[i] = heap[down];
            i = down;
        }
        heap[i] = last;
        return first;
    }
    function arm() {
        while (heap.length > 0 && heap[0].gone)
            pop();
        const due = heap.length > 0 ? heap[0].due : Infinity;
        if (due === armedFor)
            return;
        armedFor = due;
        internal.wake(due === Infinity ? -1 : Math.max(0, due - internal.now()));
    }
    let seq = 0;
    function schedule(t, ms) {
        t.due = internal.now() + ms;
        t.seq = seq++;
        push(t);
        arm();
    }
    function addTimer(name, fn, ms, args, repeat) {
        if (typeof fn !== 'function')
            throw new TypeError(`${name}: the first argument must be a function`);
        ms = Number(ms) | 0; // as the web's interfaces convert it: what is above 2^31 wraps around
        if (ms < 1)
            ms = repeat ? 1 : 0;
        const t = { id: nextId++, fn, args, every: repeat ? ms : -1, gone: false };
        timers.set(t.id, t);
        schedule(t, ms);
        return t.id;
    }
    function drop(id) {
        const t = timers.get(Number(id));
        if (!t)
            return;
        t.gone = true;
        timers.delete(t.id);
        if (heap.length > 1000 && heap.length > 4 * timers.size) {
            const living = heap.filter((x) => !x.gone);
            heap.length = 0;
            living.forEach(push);
        }
        arm();
    }
    function tick() {
        armedFor = Infinity;
        const until = internal.now(), last = seq;
        while (heap.length > 0 && heap[0].due <= until && heap[0].seq < last) {
            const t = pop();
            if (t.gone)
                continue;
            if (t.every >= 0)
                schedule(t, t.every);
            // a microtask of its own: what it throws is reported, the next one runs
            queueMicrotask(() => run(t));
        }
        arm();
    }
    function run(t) {
        if (t.gone) // by one that was due at the same time
            return;
        if (t.every < 0) {
            t.gone = true;
            timers.delete(t.id);
        }
        try {
            t.fn.apply(undefined, t.args);
        } catch (e) {
            internal.report(e);
        }
    }
    function setTimeout(fn, ms, ...args) { return addTimer('setTimeout', fn, ms, args, false); }
    function setInterval(fn, ms, ...args) { return addTimer('setInterval', fn, ms, args, true); }
    function clearTimeout(id) { drop(id); }
    function clearInterval(id) { drop(id); }
    // For signals: once, in so many milliseconds, which may be more than a timer of a module takes.
    function later(fn, ms) {
        const t = { id: nextId++, fn, args: [], every: -1, gone: false };
        timers.set(t.id, t);
        schedule(t, ms);
    }
    return { later, setTimeout, setInterval, clearTimeout, clearInterval, tick };
})
