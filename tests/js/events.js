check('listeners run in order, once where asked', async () => {
    const t = new EventTarget(), seen = [];
    t.addEventListener('x', (e) => seen.push(`a${e.detail}`));
    t.addEventListener('x', { handleEvent(e) { seen.push(this === e.currentTarget ? 'wrong' : 'b'); } }, { once: true });
    t.addEventListener('x', () => { throw new Error('reported, not thrown'); });
    t.addEventListener('x', (e) => e.preventDefault());
    same(t.dispatchEvent(new CustomEvent('x', { cancelable: true, detail: 1 })), false);
    same(t.dispatchEvent(new CustomEvent('x', { detail: 2 })), true);
    same(seen, ['a1', 'b', 'a2']);
    const e = new Event('x');
    t.addEventListener('x', () => t.dispatchEvent(e));
    await fails(() => t.dispatchEvent({}), 'TypeError');
});
check('stopImmediatePropagation and removal while it runs', () => {
    const t = new EventTarget(), seen = [], late = () => seen.push('late');
    t.addEventListener('x', () => t.removeEventListener('x', late));
    t.addEventListener('x', late);
    t.dispatchEvent(new Event('x'));
    t.addEventListener('y', (e) => e.stopImmediatePropagation());
    t.addEventListener('y', late);
    t.dispatchEvent(new Event('y'));
    same(seen, []);
});
check('abort', async () => {
    const c = new AbortController(), seen = [], why = new Error('why');
    c.signal.onabort = (e) => seen.push(e.type, e.isTrusted);
    c.signal.addEventListener('abort', () => seen.push(c.signal.reason === why));
    c.abort(why);
    c.abort(new Error('later'));
    same(seen, ['abort', true, true]);
    await fails(() => c.signal.throwIfAborted(), why);
    same(AbortSignal.abort().reason.name, 'AbortError');
    await fails(() => new AbortSignal(), 'TypeError');
});
check('a signal ends listening', () => {
    const c = new AbortController(), t = new EventTarget();
    let n = 0;
    t.addEventListener('x', () => n++, { signal: c.signal });
    t.dispatchEvent(new Event('x'));
    c.abort();
    t.dispatchEvent(new Event('x'));
    same(n, 1);
});
check('timeout and any', async () => {
    const c = new AbortController(), s = AbortSignal.any([AbortSignal.any([c.signal]), AbortSignal.timeout(5)]);
    await new Promise((resolve) => s.addEventListener('abort', resolve));
    same(s.reason.name, 'TimeoutError');
    same(c.signal.aborted, false);
    const other = AbortSignal.any([c.signal]);
    c.abort(7);
    same(other.reason, 7);
    same(AbortSignal.any([]).aborted, false);
    await fails(() => AbortSignal.timeout(-1), 'TypeError');
});
check('timers', async () => {
    const seen = [];
    setTimeout(() => seen.push('b'), 10);
    const gone = setTimeout(() => seen.push('gone'), 1);
    setTimeout((...args) => seen.push(...args), 0, 'a', 'a2');
    clearTimeout(gone);
    let id = setInterval(() => {
        seen.push('i');
        clearInterval(id);
    }, 1);
    await pause(60);
    same(seen.toSorted(), ['a', 'a2', 'b', 'i']);
    same(seen.indexOf('a') < seen.indexOf('b'), true);
    await fails(() => setTimeout('code'), 'TypeError');
});
