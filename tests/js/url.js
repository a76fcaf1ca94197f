check('parts of a URL', () => {
    const u = new URL('../b?x=1#h', 'HTTPS://u:p@Exämple.com:8443/a/c');
    same([u.href, u.origin, u.host, u.pathname, u.search, u.hash, u.username, u.password],
        ['https://u:p@xn--exmple-cua.com:8443/b?x=1#h', 'https://xn--exmple-cua.com:8443', 'xn--exmple-cua.com:8443', '/b', '?x=1', '#h', 'u', 'p']);
    u.port = '443';
    u.protocol = 'file';
    u.hostname = '[::1]';
    u.pathname = 'a b';
    same(u.href, 'https://u:p@[::1]/a%20b?x=1#h');
    same(JSON.stringify({ u }), '{"u":"https://u:p@[::1]/a%20b?x=1#h"}');
});
check('what is no URL', async () => {
    for (const bad of ['', '/a', 'http://', 'http://a b/', 'https://a:99999/'])
        await fails(() => new URL(bad), 'TypeError');
    same([URL.canParse('a', 'http://b/'), URL.canParse('a'), URL.parse('nope')], [true, false, null]);
    const u = new URL('http://a/');
    await fails(() => { u.href = 'nope'; }, 'TypeError');
    same(u.href, 'http://a/');
    same(new URL('http://a/\uD800').href, 'http://a/%EF%BF%BD');
    same(new URL('http://a/#\0b').href, 'http://a/#%00b');
});
check('searchParams and their URL follow each other', () => {
    const u = new URL('http://a/?q=1&q=2&z=%20+');
    const p = u.searchParams;
    same(p.getAll('q'), ['1', '2']);
    same(p.get('z'), '  ');
    p.append('n', 'ü&=');
    p.delete('q', '1');
    same(u.search, '?q=2&z=++&n=%C3%BC%26%3D');
    u.search = '?k=v';
    same([...p], [['k', 'v']]);
    p.delete('k');
    same(u.href, 'http://a/');
});
check('URLSearchParams by itself', async () => {
    same(new URLSearchParams({ a: 1, b: '2' }).toString(), 'a=1&b=2');
    same(new URLSearchParams('?a=%zz&&b').toString(), 'a=%25zz&b=');
    const p = new URLSearchParams([['b', '2'], ['a', '1'], ['b', '1']]);
    p.sort();
    same([...p.keys()], ['a', 'b', 'b']);
    const seen = [];
    for (const [k] of p) { // while the list changes
        seen.push(k);
        p.delete(k);
    }
    same(seen, ['a', 'b']);
    await fails(() => new URLSearchParams([['a']]), 'TypeError');
});
