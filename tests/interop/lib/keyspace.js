// SPDX-License-Identifier: MIT
//
// The key space of one queue as a plain object, with what can't be equal on two queues made equal:
// instants become steps of STEP since the start (all spans of the test are whole steps, and the test is
// shorter than half of one), tokens and stack traces are only counted, private keys and fields are left out.
'use strict';

const STEP = 1000000; // ms

class Keyspace {
  constructor(redis) {
    this.redis = redis;
    this.t0 = Date.now();
  }

  instant(ms) {
    return `T${Math.round((Number(ms) - this.t0) / STEP)}`;
  }
  span(ms) {
    return ms < 0 ? ms : `${Math.round(ms / STEP)} steps`;
  }

  async dump(q) {
    const base = `bull:${q}:`;
    const keys = (await this.redis.keys(`${base}*`)).sort();
    const read = this.redis.pipeline();
    for (const key of keys) read.type(key).pttl(key);
    const types = await read.exec();
    const values = this.redis.pipeline();
    keys.forEach((key, i) => {
      switch (types[2 * i][1]) {
        case 'hash': return values.hgetall(key);
        case 'list': return values.lrange(key, 0, -1);
        case 'zset': return values.zrange(key, 0, -1, 'WITHSCORES');
        case 'set': return values.smembers(key);
        case 'stream': return values.xrange(key, '-', '+');
        default: return values.get(key);
      }
    });
    const read2 = await values.exec();
    const out = {};
    keys.forEach((key, i) => {
      const name = key.slice(base.length);
      out[name] = this.value(name, types[2 * i][1], read2[i][1]);
      if (types[2 * i + 1][1] >= 0) out[name] = { value: out[name], expires: this.span(types[2 * i + 1][1]) };
    });
    return out;
  }

  value(name, type, v) {
    if (type === 'hash') return name === 'meta' ? this.meta(v) : this.job(v);
    if (type === 'stream') return v.map(([, fields]) => this.event(fields));
    if (type === 'zset') return this.scores(name, v);
    if (type === 'set') return v.sort();
    if (name.endsWith(':lock')) return 'locked';
    if (name === 'stalled-check') return 'an instant';
    return v;
  }

  meta(v) {
    return Object.fromEntries(Object.entries(v).filter(([f]) => !f.startsWith('emq:') && f !== 'version'));
  }

  job(v) {
    const out = {};
    for (const [f, value] of Object.entries(v)) {
      if (f.startsWith('emq:')) continue;
      if (f === 'opts') out[f] = this.options(JSON.parse(value));
      else if (f === 'data' || f === 'returnvalue' || f === 'progress') out[f] = JSON.parse(value);
      else if (f === 'stacktrace') out[f] = `${JSON.parse(value).length} traces`;
      else if (/^(timestamp|processedOn|finishedOn)$/.test(f)) out[f] = this.instant(value);
      else out[f] = value;
    }
    return out;
  }

  options(o) {
    if (o.timestamp) o.timestamp = this.instant(o.timestamp);
    return o;
  }

  event(fields) {
    return fields.map((f, i) => (i > 0 && fields[i - 1] === 'delay' ? this.instant(f) : f)).join(' ');
  }

  scores(name, v) {
    const out = [];
    for (let i = 0; i < v.length; i += 2) {
      const score = Number(v[i + 1]);
      if (name === 'delayed') out.push(`${v[i]} due ${this.instant(score / 4096)}`);
      else if (name === 'prioritized') out.push(`${v[i]} priority ${Math.floor(score / 2 ** 32)}`);
      else if (name === 'marker') out.push(`${v[i]} ${score ? this.instant(score) : 0}`);
      else out.push(`${v[i]} ${this.instant(score)}`);
    }
    return out;
  }
}

// The first difference of two dumps as "key.field: a | b", or undefined.
function difference(a, b, path = '') {
  if (a === b) return undefined;
  const plain = (v) => v && typeof v === 'object';
  if (!plain(a) || !plain(b) || Array.isArray(a) !== Array.isArray(b)) return `${path}: ${JSON.stringify(a)} | ${JSON.stringify(b)}`;
  if (Array.isArray(a) && a.length !== b.length) return `${path}: ${JSON.stringify(a)} | ${JSON.stringify(b)}`;
  for (const k of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const d = difference(a[k], b[k], path ? `${path}.${k}` : k);
    if (d) return d;
  }
  return undefined;
}

module.exports = { Keyspace, STEP, difference };
