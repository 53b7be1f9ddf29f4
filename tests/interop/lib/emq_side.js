// SPDX-License-Identifier: MIT
//
// EchoMQ as the tests use it: its program, with the prefix of a BullMQ fleet.
'use strict';

const assert = require('node:assert/strict');
const { execFile, spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { view } = require('./bullmq_side.js');

const program = process.env.EMQ || path.join(__dirname, '../../../build/emq');

function keepFlag(keep) {
  if (keep === true) return 'none';
  if (keep === false) return 'all';
  if (typeof keep === 'number') return String(keep);
  return [keep.count, keep.age && `${keep.age}s`].filter(Boolean).join(',');
}

// BullMQ's options as flags. What BullMQ does without an option is said here too.
function addFlags(o) {
  const flags = ['--attempts', o.attempts || 1];
  const flag = (name, value) => value !== undefined && flags.push(name, value);
  const b = typeof o.backoff === 'number' ? { type: 'fixed', delay: o.backoff } : o.backoff;
  flag('--backoff', b ? `${b.type}:${b.delay}ms${b.jitter ? `,jitter=${b.jitter}` : ''}` : 'none');
  flag('--id', o.jobId);
  flag('--delay', o.delay && `${o.delay}ms`);
  flag('--priority', o.priority);
  if (o.lifo) flags.push('--lifo');
  flag('--keep-logs', o.keepLogs);
  flag('--keep-completed', keepFlag(o.removeOnComplete ?? false));
  flag('--keep-failed', keepFlag(o.removeOnFail ?? false));
  const d = o.deduplication;
  if (d) {
    flags.push('--dedup', d.id);
    flag('--dedup-ttl', d.ttl && `${d.ttl}ms`);
    const mode = d.keepLastIfActive ? 'keep-last' : d.replace ? 'replace' : d.extend ? 'extend' : 'simple';
    flags.push('--dedup-mode', mode);
  }
  return flags.map(String);
}

class EmqSide {
  constructor({ url, keep }) {
    Object.assign(this, { env: { ...process.env, EMQ_URL: `${url}?prefix=bull` }, keep });
  }

  // { child, ended: { code, out, err } to come }
  start(...args) {
    let child;
    const ended = new Promise((resolve) => {
      const how = { env: this.env, maxBuffer: 1 << 28, encoding: 'buffer' };
      child = execFile(program, args.map(String), how, (e, out, err) =>
        resolve({ code: e ? e.code : 0, out, err: err.toString() }));
    });
    return { child, ended };
  }

  run(...args) { return this.start(...args).ended; }

  async ok(...args) {
    const r = await this.run(...args);
    assert.equal(r.code, 0, `emq ${args.join(' ')}: ${r.err}`);
    return r.out.toString();
  }

  // Text and bytes (a Buffer) go as they are, anything else as JSON.
  add(q, name, data, opts = {}) {
    return this.addBytes(q, name, JSON.stringify(data === undefined ? {} : data), opts);
  }

  addBytes(q, name, bytes, opts = {}) {
    return this.feed(bytes, 'add', q, '-', '--name', name, ...addFlags(opts));
  }

  addMany(q, jobs) {
    const lines = jobs.map((j) => JSON.stringify({ attempts: 1, backoff: 'none', ...j }) + '\n');
    return this.feed(lines.join(''), 'add', q, '--batch', '-');
  }

  // A command with something on its standard input.
  async feed(bytes, ...args) {
    const child = spawn(program, args, { env: this.env });
    const chunks = [];
    let err = '';
    child.stdout.on('data', (c) => chunks.push(c));
    child.stderr.on('data', (c) => (err += c));
    child.stdin.end(bytes);
    const [code] = await once(child, 'close');
    assert.equal(code, 0, `emq ${args[0]}: ${err}`);
    return Buffer.concat(chunks).toString().trim();
  }

  async work(q, o = {}) {
    const flags = [];
    const flag = (name, value, unit = '') => value !== undefined && flags.push(name, `${value}${unit}`);
    flag('--name', o.name);
    flag('--concurrency', o.concurrency);
    flag('--lock', o.lock, 'ms');
    flag('--stalled-interval', o.stalled, 'ms');
    flag('--max-stalled', o.maxStalled);
    flag('--mode', o.mode);
    const command = o.command || [process.execPath, path.join(__dirname, 'emq_handler.js'), ...(o.runs ? [o.runs] : [])];
    if (!o.command) flags.push('--stream');
    const child = spawn(program, ['work', q, ...flags, '--quiet', '--', ...command], {
      env: this.env,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const gone = once(child, 'exit');
    const end = (signal) => async () => {
      child.kill(signal);
      await gone;
    };
    this.keep(child, end('SIGKILL'));
    return { kill: end('SIGKILL'), stop: end('SIGTERM'), pid: child.pid };
  }

  async counts(q) {
    const s = JSON.parse(await this.ok('stats', q, '--json'));
    const states = ['active', 'completed', 'delayed', 'failed', 'prioritized', 'waiting', 'waiting-children'];
    return Object.fromEntries(states.map((state) => [state, s[state]]));
  }

  async jobs(q, state) {
    const out = await this.ok('ls', q, '--state', state, '--json');
    return out.split('\n').filter(Boolean).map((l) => view(JSON.parse(l)));
  }

  async job(q, id) {
    const r = await this.run('show', q, id, '--json');
    if (r.code === 1) return undefined;
    assert.equal(r.code, 0, r.err);
    const job = JSON.parse(r.out);
    return { ...view(job), state: job.state };
  }

  async logs(q, id) {
    return (await this.ok('logs', q, id)).split('\n').slice(0, -1);
  }

  async finished(q, id) {
    const r = await this.run('wait', q, id, '--timeout', '30s');
    if (r.code === 0) return { value: JSON.parse(r.out) };
    assert.equal(r.code, 1, r.err);
    return { reason: (await this.job(q, id)).failedReason };
  }

  pause(q) { return this.ok('pause', q); }
  resume(q) { return this.ok('resume', q); }
  drain(q, delayed) { return this.ok('drain', q, ...(delayed ? ['--delayed'] : [])); }
  clean(q, state, graceMs) { return this.ok('clean', q, '--state', state, '--older', `${graceMs}ms`); }
  retryAll(q, state) { return this.ok('retry', q, '--state', state); }
  promoteAll(q) { return this.ok('promote', q, '--all'); }
  obliterate(q, force) { return this.ok('obliterate', q, ...(force ? ['--force'] : [])); }
  retry(q, id) { return this.ok('retry', q, id); }
  promote(q, id) { return this.ok('promote', q, id); }
  remove(q, id) { return this.ok('rm', q, id); }
  setPriority(q, id, priority, lifo) { return this.ok('edit', q, id, '--priority', priority, ...(lifo ? ['--lifo'] : [])); }
  setDelay(q, id, delay) { return this.ok('edit', q, id, '--delay', `${delay}ms`); }
  setData(q, id, data) { return this.ok('edit', q, id, '--data', JSON.stringify(data)); }
  releaseDedup(q, id) { return this.ok('dedup', 'release', q, id); }
}

module.exports = { EmqSide };
