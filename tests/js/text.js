const bytes = (...b) => new Uint8Array(b);
check('encode', () => {
    same(new TextEncoder().encode('aß€😀\uD800'), bytes(97, 195, 159, 226, 130, 172, 240, 159, 152, 128, 239, 191, 189));
    same(new TextEncoder().encode().length, 0);
});
check('encodeInto takes whole characters', () => {
    const to = new Uint8Array(5);
    same(new TextEncoder().encodeInto('a€😀', to), { read: 2, written: 4 });
    same(to, bytes(97, 226, 130, 172, 0));
    same(new TextEncoder().encodeInto('\uD83D\uDE00', new Uint8Array(4)), { read: 2, written: 4 });
});
check('wrong bytes become U+FFFD, one for each part', () => {
    const d = new TextDecoder();
    same(d.decode(bytes(0xF0, 0x9F, 0x92, 65)), '\uFFFDA');
    same(d.decode(bytes(0xED, 0xA0, 0x80)), '\uFFFD\uFFFD\uFFFD');
    same(d.decode(bytes(0xC3)), '\uFFFD');
});
check('a stream of bytes', () => {
    const d = new TextDecoder();
    same(d.decode(bytes(0xE2, 0x82), { stream: true }), '');
    same(d.decode(bytes(0xAC, 0xE2), { stream: true }), '€');
    same(d.decode(), '\uFFFD');
});
check('a mark of the byte order', () => {
    const b = bytes(0xEF, 0xBB, 0xBF, 65), d = new TextDecoder();
    same(d.decode(b), 'A');
    same(d.decode(b), 'A');
    same(new TextDecoder('utf8', { ignoreBOM: true }).decode(b), '\uFEFFA');
    same(new TextDecoder('utf-16').decode(bytes(0xFF, 0xFE, 65, 0)), 'A');
});
check('fatal', async () => {
    const d = new TextDecoder('utf-8', { fatal: true });
    await fails(() => d.decode(bytes(0xFF)), 'TypeError');
    same(d.decode(bytes(65)), 'A');
    await fails(() => new TextDecoder('utf-16be', { fatal: true }).decode(bytes(0xD8)), 'TypeError');
});
check('other encodings', async () => {
    same(new TextDecoder('utf-16le').decode(bytes(0x3D, 0xD8, 0x00, 0xDE, 65, 0)), '😀A');
    same(new TextDecoder('utf-16be').decode(bytes(0xD8, 0x3D, 0, 65)), '\uFFFDA');
    same(new TextDecoder('latin1').decode(bytes(0x80, 0xE4, 0x9F)), '€äŸ');
    same(new TextDecoder(' ASCII\n').encoding, 'windows-1252');
    await fails(() => new TextDecoder('koi8-r'), 'RangeError');
    await fails(() => new TextDecoder('utf-8 latin1'), 'RangeError');
});
check('views of all kinds, and what shrank or was taken', () => {
    const buffer = new ArrayBuffer(8, { maxByteLength: 16 }), view = new Uint8Array(buffer), d = new TextDecoder();
    view.fill(65);
    same(d.decode(new DataView(buffer, 2, 3)), 'AAA');
    same(d.decode(new Uint16Array(buffer, 0, 2)), 'AAAA');
    buffer.resize(2);
    same(d.decode(view), 'AA');
    buffer.transfer();
    same(d.decode(view), '');
});
