// structuredClone. C says what an object is; what the language can copy is copied, all else is refused.
(function (internal) {
    'use strict';
    const { need, isPlatform } = internal.need('idl');
    const { DOMException, Map, Set, Date, RegExp, DataView, ArrayBuffer, Error, Object, Reflect } = globalThis, { classOf, detach } = internal;
    const [NONE, OBJECT, ARRAY, DATE, REGEXP, MAP, SET, ERROR, BUFFER, TYPED, VIEW, WRAPPER, DOM_EXCEPTION] = Array.from({ length: 13 }, (_, i) => i);
    const call = (fn) => (self, ...args) => Reflect.apply(fn, self, args);
    const getter = (proto, name) => call(Object.getOwnPropertyDescriptor(proto, name).get);
    const TypedArray = Object.getPrototypeOf(Uint8Array);
    const getTime = call(Date.prototype.getTime), source = getter(RegExp.prototype, 'source'), flags = getter(RegExp.prototype, 'flags');
    const mapForEach = call(Map.prototype.forEach), setForEach = call(Set.prototype.forEach), mapSet = call(Map.prototype.set);
    const mapGet = call(Map.prototype.get), setAdd = call(Set.prototype.add), valid = call(TypedArray.prototype.keys);
    const nameOf = getter(TypedArray.prototype, Symbol.toStringTag), bufferOf = getter(TypedArray.prototype, 'buffer');
    const offsetOf = getter(TypedArray.prototype, 'byteOffset'), lengthOf = getter(TypedArray.prototype, 'length');
    const viewBuffer = getter(DataView.prototype, 'buffer'), viewOffset = getter(DataView.prototype, 'byteOffset');
    const viewLength = getter(DataView.prototype, 'byteLength'), isDetached = getter(ArrayBuffer.prototype, 'detached');
    const size = getter(ArrayBuffer.prototype, 'byteLength'), most = getter(ArrayBuffer.prototype, 'maxByteLength');
    const resizable = getter(ArrayBuffer.prototype, 'resizable');
    const typed = {
        Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float16Array, Float32Array, Float64Array,
        BigInt64Array, BigUint64Array,
    };
    const errors = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const values = [Boolean, Number, String, BigInt].map((C) => call(C.prototype.valueOf));
    const refuse = (what) => { throw new DOMException(`${what} cannot be cloned`, 'DataCloneError'); };

    function cloneBuffer(buffer) {
        if (isDetached(buffer))
            refuse('a detached ArrayBuffer');
        const n = size(buffer), copy = resizable(buffer) ? new ArrayBuffer(n, { maxByteLength: most(buffer) }) : new ArrayBuffer(n);
        new Uint8Array(copy).set(new Uint8Array(buffer));
        return copy;
    }
    function cloneTyped(v, memory) {
        try {
            valid(v);
        } catch {
            refuse('a view that lies outside of its buffer');
        }
        const C = typed[nameOf(v)], buffer = bufferOf(v), offset = offsetOf(v), n = lengthOf(v);
        const copy = cloneValue(buffer, memory);
        // One that follows the length of its buffer cannot be told from one that ends where the buffer does.
        const follows = resizable(buffer) && size(buffer) - offset - n * C.BYTES_PER_ELEMENT < C.BYTES_PER_ELEMENT;
        return follows ? new C(copy, offset) : new C(copy, offset, n);
    }
    function cloneView(v, memory) {
        let n, offset;
        try {
            n = viewLength(v);
            offset = viewOffset(v);
        } catch {
            refuse('a view that lies outside of its buffer');
        }
        const buffer = viewBuffer(v), copy = cloneValue(buffer, memory);
        return resizable(buffer) && offset + n === size(buffer) ? new DataView(copy, offset) : new DataView(copy, offset, n);
    }
    function ownText(v, name) {
        const d = Reflect.getOwnPropertyDescriptor(v, name);
        return d === undefined || !('value' in d) ? undefined : `${d.value}`;
    }
    function cloneError(v, memory) {
        const name = `${v.name}`, C = Object.hasOwn(errors, name) ? errors[name] : Error;
        const message = ownText(v, 'message'), copy = message === undefined ? new C() : new C(message);
        mapSet(memory, v, copy);
        const define = (key, value) => Object.defineProperty(copy, key, { value, writable: true, configurable: true });
        if (typeof v.stack === 'string')
            define('stack', v.stack);
        if (Object.hasOwn(v, 'cause'))
            define('cause', cloneValue(v.cause, memory));
        return copy;
    }
    function cloneWrapper(v) {
        for (let i = 0; i < values.length; i++) {
            try {
                return Object(values[i](v));
            } catch { /* another one */ }
        }
        return refuse('this object');
    }
    function members(v, copy, memory) {
        mapSet(memory, v, copy);
        for (const key of Object.keys(v))
            if (Object.hasOwn(v, key))
                Object.defineProperty(copy, key, {
                    value: cloneValue(v[key], memory), writable: true, enumerable: true, configurable: true,
                });
        return copy;
    }
    function cloneMap(v, memory) {
        const copy = new Map(), list = [];
        mapSet(memory, v, copy);
        mapForEach(v, (value, key) => { list[list.length] = [key, value]; });
        for (let i = 0; i < list.length; i++)
            mapSet(copy, cloneValue(list[i][0], memory), cloneValue(list[i][1], memory));
        return copy;
    }
    function cloneSet(v, memory) {
        const copy = new Set(), list = [];
        mapSet(memory, v, copy);
        setForEach(v, (value) => { list[list.length] = value; });
        for (let i = 0; i < list.length; i++)
            setAdd(copy, cloneValue(list[i], memory));
        return copy;
    }
    function cloneObject(v, memory) {
        if (!isPlatform(v))
            return members(v, {}, memory);
        const { stateOf, File, make, makeFile } = internal.need('blob'), b = stateOf(v);
        if (b === undefined)
            return refuse('this object');
        return v instanceof File ? makeFile(b.bytes, v.name, b.type, v.lastModified) : make(b.bytes, b.type);
    }
    function arrayOf(v) {
        const copy = [];
        copy.length = v.length;
        return copy;
    }
    const makers = {
        [OBJECT]: cloneObject, [ARRAY]: (v, memory) => members(v, arrayOf(v), memory), [DATE]: (v) => new Date(getTime(v)),
        [REGEXP]: (v) => new RegExp(source(v), flags(v)), [MAP]: cloneMap, [SET]: cloneSet, [ERROR]: cloneError, [BUFFER]: cloneBuffer,
        [TYPED]: cloneTyped, [VIEW]: cloneView, [WRAPPER]: cloneWrapper, [DOM_EXCEPTION]: (v) => new DOMException(v.message, v.name),
        [NONE]: (v) => refuse(typeof v === 'function' ? 'a function' : 'this object'),
    };
    function cloneValue(v, memory) {
        if (typeof v === 'symbol')
            return refuse('a symbol');
        if (typeof v !== 'function' && (typeof v !== 'object' || v === null))
            return v;
        const seen = mapGet(memory, v);
        if (seen !== undefined)
            return seen;
        const copy = makers[classOf(v)](v, memory);
        mapSet(memory, v, copy);
        return copy;
    }
    function transferList(options) {
        if (options === undefined || options === null)
            return [];
        if (typeof options !== 'object' && typeof options !== 'function')
            throw new TypeError('structuredClone: the options must be an object');
        const { transfer } = options;
        if (transfer === undefined)
            return [];
        if (typeof transfer?.[Symbol.iterator] !== 'function')
            throw new TypeError('structuredClone: transfer must be a list');
        const list = [...transfer];
        for (let i = 0; i < list.length; i++) {
            if (typeof list[i] !== 'object' || list[i] === null)
                throw new TypeError('structuredClone: transfer is a list of objects');
            if (classOf(list[i]) !== BUFFER || isDetached(list[i]) || list.indexOf(list[i]) !== i)
                throw new DOMException('only an ArrayBuffer that is not detached can be transferred, once', 'DataCloneError');
        }
        return list;
    }
    function structuredClone(value, options = undefined) {
        need(arguments, 1, 'structuredClone');
        const list = transferList(options), copy = cloneValue(value, new Map());
        for (let i = 0; i < list.length; i++)
            detach(list[i]);
        return copy;
    }
    return { structuredClone, clone: (v) => cloneValue(v, new Map()) };
})
