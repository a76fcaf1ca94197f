// Headers, as the fetch standard says, without the names that browsers forbid.
(function (internal) {
    'use strict';
    const { idl, need, byteString, pairs, isObject } = internal.need('idl');
    const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/, { test } = RegExp.prototype;
    const isToken = (s) => Reflect.apply(test, token, [s]);

    function trim(s) {
        let from = 0, to = s.length;
        const white = (c) => c === 32 || c === 9 || c === 10 || c === 13;
        while (from < to && white(s.charCodeAt(from)))
            from++;
        while (to > from && white(s.charCodeAt(to - 1)))
            to--;
        return s.slice(from, to);
    }
    function validName(name, what) {
        name = byteString(name, what);
        if (!isToken(name))
            throw new TypeError(`${what}: '${name.slice(0, 80)}' is no name of a header`);
        return name;
    }
    function validValue(value, what) {
        value = trim(byteString(value, what));
        for (let i = 0; i < value.length; i++) {
            const c = value.charCodeAt(i);
            if (c === 0 || c === 10 || c === 13)
                throw new TypeError(`${what}: a value holds a character that no header may have`);
        }
        return value;
    }
    function writable(h) {
        if (h.guard === 'immutable')
            throw new TypeError('these headers cannot be changed');
    }
    // h: {list: [[name, value, lower case of the name] …], guard, sorted}
    function append(h, name, value) {
        h.list[h.list.length] = [name, value, name.toLowerCase()];
        h.sorted = undefined;
    }
    function get(h, lower) {
        let out = null;
        for (let i = 0; i < h.list.length; i++)
            if (h.list[i][2] === lower)
                out = out === null ? h.list[i][1] : `${out}, ${h.list[i][1]}`;
        return out;
    }
    function remove(h, lower) {
        h.list = h.list.filter((x) => x[2] !== lower);
        h.sorted = undefined;
    }
    function set(h, name, value) {
        const lower = name.toLowerCase(), i = h.list.findIndex((x) => x[2] === lower);
        if (i < 0) {
            append(h, name, value);
            return;
        }
        h.list[i][1] = value;
        h.list = h.list.filter((x, k) => k <= i || x[2] !== lower);
        h.sorted = undefined;
    }
    // Sorted, values of one name in one, but those of set-cookie.
    function combined(h) {
        if (h.sorted !== undefined)
            return h.sorted;
        const names = [...new Set(h.list.map((x) => x[2]))].sort(), out = [];
        for (const name of names)
            if (name === 'set-cookie')
                for (const x of h.list.filter((y) => y[2] === name))
                    out[out.length] = [name, x[1]];
            else
                out[out.length] = [name, get(h, name)];
        h.sorted = out;
        return out;
    }
    function fill(h, init) {
        if (!isObject(init))
            throw new TypeError('Headers: an object or a list of pairs is needed');
        const own = stateOf(init), make = init[Symbol.iterator];
        if (own !== undefined && make === Headers.prototype[Symbol.iterator]) {
            for (const x of combined(own))
                append(h, x[0], x[1]);
            return;
        }
        if (make !== undefined && make !== null) {
            if (typeof make !== 'function')
                throw new TypeError('Headers: the list of pairs cannot be iterated');
            const list = [];
            for (const pair of { [Symbol.iterator]: () => Reflect.apply(make, init, []) }) {
                if (!isObject(pair))
                    throw new TypeError('Headers: a pair is no list');
                list[list.length] = [...pair].map((x) => byteString(x, 'Headers'));
            }
            for (const pair of list) {
                if (pair.length !== 2)
                    throw new TypeError('Headers: a pair must have two members');
                append(h, validName(pair[0], 'Headers'), validValue(pair[1], 'Headers'));
            }
            return;
        }
        const list = [];
        for (const key of Reflect.ownKeys(init)) {
            if (!Reflect.getOwnPropertyDescriptor(init, key)?.enumerable)
                continue;
            if (typeof key === 'symbol')
                throw new TypeError('Headers: a name is a symbol');
            list[list.length] = [byteString(key, 'Headers'), byteString(init[key], 'Headers')];
        }
        for (const pair of list)
            append(h, validName(pair[0], 'Headers'), validValue(pair[1], 'Headers'));
    }
    const secret = Symbol('made by the runtime');
    class Headers {
        #h;
        static stateOf(v) { return isObject(v) && #h in v ? v.#h : undefined; }
        static of(v) { return v.#h; }
        constructor(init = undefined, state = undefined) {
            if (init === secret) {
                this.#h = state;
                return;
            }
            this.#h = newState();
            if (init !== undefined)
                fill(this.#h, init);
        }
        append(name, value) {
            const h = this.#h;
            need(arguments, 2, 'append');
            name = validName(name, 'append');
            value = validValue(value, 'append');
            writable(h);
            append(h, name, value);
        }
        delete(name) {
            const h = this.#h;
            need(arguments, 1, 'delete');
            name = validName(name, 'delete');
            writable(h);
            remove(h, name.toLowerCase());
        }
        get(name) {
            const h = this.#h;
            need(arguments, 1, 'get');
            return get(h, validName(name, 'get').toLowerCase());
        }
        getSetCookie() { return this.#h.list.filter((x) => x[2] === 'set-cookie').map((x) => x[1]); }
        has(name) {
            const h = this.#h;
            need(arguments, 1, 'has');
            const lower = validName(name, 'has').toLowerCase();
            return h.list.some((x) => x[2] === lower);
        }
        set(name, value) {
            const h = this.#h;
            need(arguments, 2, 'set');
            name = validName(name, 'set');
            value = validValue(value, 'set');
            writable(h);
            set(h, name, value);
        }
    }
    const { stateOf, of } = Headers;
    delete Headers.stateOf;
    delete Headers.of;
    Object.defineProperty(Headers, 'length', { value: 0, configurable: true });
    pairs(Headers, (v) => combined(of(v)));
    idl(Headers);

    const newState = (guard = 'none') => ({ list: [], guard, sorted: undefined });
    // From [name, value, name, value …] of the wire, as they are.
    function fromFlat(flat, guard) {
        const h = newState(guard);
        for (let i = 0; i + 1 < flat.length; i += 2)
            append(h, flat[i], trim(flat[i + 1]));
        return h;
    }
    return { Headers, newState, fill, fromFlat, stateOf, append, get, set, combined, isToken, wrap: (h) => new Headers(secret, h) };
})
