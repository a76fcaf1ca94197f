// The language's own functions as they were before the module ran: what it changes later changes nothing of ours. Loaded by core.js, so
// before the module; other parts take them by internal.need('primordials'). ArrayPrototypePush(a, x) is a.push(x), ObjectKeys is
// Object.keys. A name that is missing here is added to the list.
(function () {
    'use strict';
    const p = { __proto__: null };
    const uncurry = Function.prototype.bind.bind(Function.prototype.call);
    const capital = (name) => name[0].toUpperCase() + name.slice(1);
    const take = (prefix, from, names, change) => {
        for (const name of names.split(' '))
            p[prefix + capital(name)] = change(from[name]);
    };
    const methods = (prefix, C, names) => take(`${prefix}Prototype`, C.prototype, names, uncurry);
    const statics = (prefix, C, names) => take(prefix, C, names, (f) => f.bind(C));
    const getter = (name, proto, key) => {
        p[name] = uncurry(Object.getOwnPropertyDescriptor(proto, key).get);
    };

    for (const C of [Array, ArrayBuffer, DOMException, DataView, Error, Map, Promise, Proxy, RangeError, Set, String, Symbol, TypeError,
        Uint8Array, WeakMap])
        p[C.name] = C;
    methods('Array', Array, 'push shift splice join includes slice filter map forEach sort indexOf');
    methods('ArrayBuffer', ArrayBuffer, 'slice');
    methods('Map', Map, 'get set has delete clear forEach');
    methods('Set', Set, 'add has delete forEach');
    methods('WeakMap', WeakMap, 'get set has');
    methods('String', String, 'split trim includes slice indexOf startsWith endsWith toLowerCase toUpperCase charCodeAt padStart replace');
    methods('Promise', Promise, 'then');
    methods('Object', Object, 'hasOwnProperty');
    methods('RegExp', RegExp, 'exec');
    methods('Uint8Array', Uint8Array, 'set subarray slice');
    methods('Function', Function, 'call');
    statics('Array', Array, 'isArray from');
    statics('ArrayBuffer', ArrayBuffer, 'isView');
    statics('JSON', JSON, 'parse stringify');
    statics('Math', Math, 'trunc min max floor');
    statics('Number', Number, 'isInteger isFinite');
    statics('Object', Object, 'freeze isFrozen defineProperty keys values entries fromEntries create getPrototypeOf getOwnPropertyDescriptor');
    statics('Promise', Promise, 'resolve reject');
    statics('Reflect', Reflect, 'apply construct ownKeys');
    statics('String', String, 'fromCharCode');
    statics('Uint8Array', Uint8Array, 'fromBase64');
    const TypedArray = Object.getPrototypeOf(Uint8Array);
    getter('TypedArrayLength', TypedArray.prototype, 'length');
    getter('TypedArrayByteLength', TypedArray.prototype, 'byteLength');
    getter('ArrayBufferByteLength', ArrayBuffer.prototype, 'byteLength');
    getter('MapSize', Map.prototype, 'size');
    p.SymbolAsyncIterator = Symbol.asyncIterator;
    p.SymbolIterator = Symbol.iterator;
    return Object.freeze(p);
})
