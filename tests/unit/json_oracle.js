// SPDX-License-Identifier: MIT
//
// Compares our JSON scanner, reader and writer with JSON.parse: valid texts, mutated texts, and
// texts that only just differ from valid ones, in one batch. The argument is the C half's program.
'use strict'
const { spawnSync } = require('child_process')
const { isDeepStrictEqual } = require('util')
const { randomInt } = require('crypto')

const COUNT = 6000
const seed = process.env.EMQ_TEST_SEED ? Number(process.env.EMQ_TEST_SEED) : randomInt(1, 2 ** 31)

let state = seed >>> 0
function random(n) { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % n
}
const pick = list => list[random(list.length)]

const spaces = ['', '', '', ' ', '\n', '\t', '\r', '  \r\n\t']
const numbers = ['0', '-0', '1', '-1', '10', '1.5', '-0.0', '1e5', '1E-5', '1e+05', '0e0', '123456789',
    '9007199254740993', '0.1', '5e-324', '1e400', '-1e-400', '1.7976931348623157e308',
    '2.2250738585072011e-308', '12345678901234567890123', '0.30000000000000004', '1e23']
const pieces = ['a', 'b', 'key', '', ' ', '\\n', '\\"', '\\\\', '\\/', '\\u0041', '\\u0000', '\\ud83d\\ude00',
    '\\ud800', '\\udc00', '\\ud83d\\u0041', 'é', '€', '😀', '\u2028', '\u007f', '\ufeff', '{', ']', ',', ':', "'",
    '__proto__', '\\b\\f\\r\\t', 'a long run of plain text, more than one word of it']
const scraps = ['"', '\\', ',', ':', '{', '}', '[', ']', '0', '1', '-', '+', '.', 'e', 'E', 'u', 'true', 'null',
    'nul', 'NaN', 'Infinity', '//', '/*', ' ', '\n', '\u00a0', '\ufeff', '\x00', '\x1f', '\x7f', '\v', "'",
    '\\x', '\\u12', '01', '1.', '.5', 'undefined', '\u2028', ',]', ',}', '""']
const raw = [[0x80], [0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82],
    [0xf0, 0x9f, 0x98], [0x00], [0xef, 0xbb, 0xbf]]

function string() {
    let s = ''
    for (let n = random(4); n > 0; n--)
        s += pick(pieces)
    return `"${s}"`
}

function value(depth) {
    const kind = random(depth > 5 ? 6 : 10)
    if (kind < 2) return pick(['null', 'true', 'false'])
    if (kind < 4) return pick(numbers)
    if (kind < 6) return string()
    const members = []
    for (let n = random(5); n > 0; n--) {
        const v = pick(spaces) + value(depth + 1) + pick(spaces)
        members.push(kind < 8 ? v : pick(spaces) + string() + pick(spaces) + ':' + v)
    }
    const inside = members.join(',') || pick(spaces)
    return kind < 8 ? `[${inside}]` : `{${inside}}`
}

// One change of bytes: cut, remove, double, swap, insert, replace.
function mutate(bytes) {
    const at = random(bytes.length + 1)
    const end = Math.min(bytes.length, at + 1 + random(3))
    const head = bytes.subarray(0, at), cut = bytes.subarray(at, end), tail = bytes.subarray(end)
    switch (random(7)) {
    case 0: return head
    case 1: return Buffer.concat([head, tail])
    case 2: return Buffer.concat([head, cut, cut, tail])
    case 3: return Buffer.concat([head, Buffer.from(pick(scraps)), cut, tail])
    case 4: return Buffer.concat([head, Buffer.from(pick(scraps)), tail])
    case 5: return Buffer.concat([head, Buffer.from(pick(raw)), cut, tail])
    default: return Buffer.concat([head, Buffer.from([random(256)]), tail])
    }
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
function parse(bytes) {
    try {
        return { valid: true, value: JSON.parse(strict.decode(bytes)) }
    } catch (e) {
        return { valid: false }
    }
}

// Our reader turns lone surrogates into U+FFFD, in keys too; two keys may become one by that.
const whole = s => Buffer.from(s, 'utf8').toString('utf8')
function wellFormed(v) {
    if (typeof v === 'string') return whole(v)
    if (Array.isArray(v)) return v.map(wellFormed)
    if (v === null || typeof v !== 'object') return v
    return Object.entries(v).map(([k, x]) => [whole(k), wellFormed(x)]).sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)
}
const keysCollide = text => /\\ud[89a-f]/i.test(text)

const texts = []
for (let i = 0; i < COUNT; i++) {
    let bytes = Buffer.from(pick(spaces) + value(i % 7 === 0 ? 6 : 0) + pick(spaces))
    for (let n = i % 3 === 0 ? 0 : 1 + random(3); n > 0; n--)
        bytes = mutate(bytes)
    texts.push(bytes)
}
for (const s of [...numbers, ...scraps, ...pieces.map(p => `"${p}"`)])
    texts.push(Buffer.from(s), Buffer.from(`[${s}]`), Buffer.from(`{"a":${s}}`))

const input = Buffer.concat(texts.flatMap(t => {
    const head = Buffer.alloc(4)
    head.writeUInt32LE(t.length)
    return [head, t]
}))
const child = spawnSync(process.argv[2], { input, maxBuffer: 1 << 28 })
if (child.error || child.status !== 0) {
    console.error(`${process.argv[2]}: ${child.error || 'status ' + (child.status ?? child.signal)}\n${child.stderr}`)
    process.exit(1)
}

let at = 0, valid = 0, compared = 0, wrong = 0
function complain(text, what) {
    wrong++
    if (wrong <= 10)
        console.error(`${what}: ${JSON.stringify(text.toString('latin1'))}`)
}
for (const text of texts) {
    const ours = child.stdout[at] === 1
    const length = child.stdout.readUInt32LE(at + 1)
    const again = child.stdout.subarray(at + 5, at + 5 + length)
    const theirs = parse(text)
    at += 5 + length
    if (ours !== theirs.valid) {
        complain(text, `JSON.parse ${theirs.valid ? 'accepts' : 'refuses'}, we do not`)
        continue
    }
    if (!ours)
        continue
    valid++
    if (length === 0) {
        complain(text, 'valid, but could not be read')
        continue
    }
    const back = parse(again)
    if (!back.valid) {
        complain(text, `what we wrote is not JSON: ${again}`)
    } else if (!keysCollide(text.toString()) || typeof theirs.value === 'string') {
        compared++
        if (!isDeepStrictEqual(wellFormed(theirs.value), wellFormed(back.value)))
            complain(text, `read as ${again}`)
    }
}
if (at !== child.stdout.length)
    complain(Buffer.from(''), 'more answers than texts')
console.log(`${texts.length} texts, ${valid} valid, ${compared} values compared, seed ${seed}`)
if (wrong) {
    console.error(`${wrong} differ; again with: EMQ_TEST_SEED=${seed} node ${process.argv.slice(1).join(' ')}`)
    process.exit(1)
}
if (valid < COUNT / 4 || texts.length - valid < COUNT / 4) {
    console.error('the generator has lost its balance')
    process.exit(1)
}
