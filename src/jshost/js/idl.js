// Classes look as the web's interfaces do: members can be enumerated, and each has its name.
(function () {
    'use strict';
    const { defineProperty, getOwnPropertyDescriptor } = Object, { ownKeys } = Reflect;
    function enumerate(target, but) {
        for (const key of ownKeys(target)) {
            const d = getOwnPropertyDescriptor(target, key);
            if (typeof key === 'string' && !but.includes(key) && d.configurable)
                defineProperty(target, key, { enumerable: true });
        }
    }
    const prototypes = new Set(), { has } = Set.prototype, { getPrototypeOf } = Object;
    function idl(cls, constants) {
        prototypes.add(cls.prototype);
        enumerate(cls.prototype, ['constructor']);
        enumerate(cls, ['length', 'name', 'prototype']);
        defineProperty(cls.prototype, Symbol.toStringTag, { value: cls.name, configurable: true });
        for (const name in constants) {
            const d = { value: constants[name], enumerable: true };
            defineProperty(cls, name, d);
            defineProperty(cls.prototype, name, d);
        }
        return cls;
    }
    // Is it of one of these classes?
    function isPlatform(v) {
        for (let p = getPrototypeOf(v); p !== null; p = getPrototypeOf(p))
            if (Reflect.apply(has, prototypes, [p]))
                return true;
        return false;
    }
    // At least n arguments.
    function need(args, n, what) {
        if (args.length < n)
            throw new TypeError(`${what}: ${n} argument${n > 1 ? 's are' : ' is'} needed, ${args.length} given`);
    }
    // A string in which each unit is a byte.
    function byteString(v, what) {
        const s = `${v}`;
        for (let i = 0; i < s.length; i++)
            if (s.charCodeAt(i) > 255)
                throw new TypeError(`${what}: '${s.slice(0, 80)}' has characters above U+00FF`);
        return s;
    }
    const usv = (v) => `${v}`.toWellFormed();
    // Iteration over pairs that may change meanwhile: list(object) → [[key, value] …].
    const arrayIterator = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
    function pairs(cls, list) {
        const proto = Object.create(arrayIterator), states = new WeakMap();
        defineProperty(proto, Symbol.toStringTag, { value: `${cls.name} Iterator`, configurable: true });
        defineProperty(proto, 'next', {
            value: { next() {
                const s = states.get(this);
                if (!s)
                    throw new TypeError(`this is no iterator of ${cls.name}`);
                const all = list(s.target);
                if (s.at >= all.length)
                    return { value: undefined, done: true };
                const [k, v] = all[s.at++];
                return { value: s.kind === 'keys' ? k : s.kind === 'values' ? v : [k, v], done: false };
            } }.next,
            writable: true, enumerable: true, configurable: true,
        });
        const make = (target, kind) => {
            const it = Object.create(proto);
            list(target); // is it one?
            states.set(it, { target, kind, at: 0 });
            return it;
        };
        const methods = {
            entries() { return make(this, 'entries'); },
            keys() { return make(this, 'keys'); },
            values() { return make(this, 'values'); },
            forEach(fn, self = undefined) {
                list(this);
                if (typeof fn !== 'function')
                    throw new TypeError('forEach: a function is needed');
                for (let i = 0, all; i < (all = list(this)).length; i++)
                    Reflect.apply(fn, self, [all[i][1], all[i][0], this]);
            },
        };
        for (const name in methods)
            defineProperty(cls.prototype, name, { value: methods[name], writable: true, enumerable: true, configurable: true });
        defineProperty(cls.prototype, Symbol.iterator, { value: methods.entries, writable: true, configurable: true });
    }
    // What is an object for the language, functions too.
    const isObject = (v) => (typeof v === 'object' && v !== null) || typeof v === 'function';
    // A dictionary of the web: nothing is an empty one.
    function dictionary(v, what) {
        if (v === undefined || v === null)
            return {};
        if (!isObject(v))
            throw new TypeError(`${what} must be an object`);
        return v;
    }
    return { idl, isPlatform, need, byteString, usv, pairs, isObject, dictionary };
})
