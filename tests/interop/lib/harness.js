// SPDX-License-Identifier: MIT
//
// What the interop tests share: the server, fresh queues, waiting, and which sides meet.
// Environment: EMQ_TEST_SERVER, the URL of a server of its own (tests/lib/with_server.c); EMQ, the program.
'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { isDeepStrictEqual } = require('node:util');
const { setTimeout: nap } = require('node:timers/promises');
const Redis = require('ioredis');

const { hostname: host, port } = new URL(process.env.EMQ_TEST_SERVER || 'none:');
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const PATIENCE_MS = 30000;

const redis = new Redis(connection);
const box = fs.mkdtempSync(path.join(os.tmpdir(), 'emq-interop-'));
const suite = path.basename(require.main.filename, '.test.js');
let serial = 0;

// Polls: the condition decides, never the time.
async function until(what, condition) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) assert.fail(`waited ${PATIENCE_MS} ms until ${what}`);
    await nap(10);
  }
}

const file = () => path.join(box, `f${++serial}`);
const open = (gate) => fs.writeFileSync(gate, '');

function runsOf(runs, id) {
  const lines = fs.existsSync(runs) ? fs.readFileSync(runs, 'utf8').trim().split('\n') : [];
  return lines.filter((l) => id === undefined || l.startsWith(`${id} `));
}

// Everything that a test opens is closed when it ends, however it ends, newest first.
function closer(t) {
  const closing = [];
  t.after(async () => {
    for (const close of closing.reverse()) await close();
  });
  return (thing, close) => {
    closing.push(close);
    return thing;
  };
}

const { BullmqSide } = require('./bullmq_side.js');
const { EmqSide } = require('./emq_side.js');
const sides = { bullmq: BullmqSide, emq: EmqSide };

function meet(t, ...names) {
  const keep = closer(t);
  const q = `${suite}-${++serial}`;
  const made = names.map((name) => new sides[name]({ connection, url: process.env.EMQ_TEST_SERVER, keep }));
  return { q, keep, redis, made };
}

// A sentence about an adding and a working side; BullMQ with itself proves that the sentence is BullMQ's.
const PAIRS = [['bullmq', 'bullmq'], ['bullmq', 'emq'], ['emq', 'bullmq']];
function both(sentence, fn) {
  for (const [p, w] of PAIRS)
    test(`${sentence} (${p} adds, ${w} works)`, async (t) => {
      const m = meet(t, p, w);
      await fn({ ...m, p: m.made[0], w: m.made[1], same: p === w, names: [p, w] });
      await sameViews(t, m);
    });
}

// A sentence about one side that BullMQ's getters judge.
function each(sentence, fn) {
  for (const name of ['bullmq', 'emq'])
    test(`${sentence} (${name})`, async (t) => {
      const m = meet(t, name, 'bullmq');
      await fn({ ...m, side: m.made[0], node: m.made[1], name });
      await sameViews(t, m);
    });
}

// A worker of BullMQ without a name leaves in the record the name of the one before it. That it is a worker of EchoMQ's
// is known by the hand-out that `emq:tk` is of, and EchoMQ says then that it does not know the name.
async function withoutLeftName(q, job) {
  const [last = '', on, by] = (await redis.hmget(`bull:${q}:${job.id}`, 'emq:tk', 'processedOn', 'pb')).map((v) => v ?? undefined);
  const [, at, token] = last.split(' ');
  if (token && on && at !== on && token.replace(/:\d+$/, '') === by) delete job.processedBy;
  return job;
}

// At the end of a test both sides see the same queue: counts, jobs in their order, every field.
async function sameViews(t, m) {
  const [node, emq] = [new BullmqSide({ connection, keep: m.keep }), new EmqSide({ url: process.env.EMQ_TEST_SERVER, keep: m.keep })];
  const counts = await until('the queue is at rest', async () => {
    const [before, , after] = [await node.counts(m.q), await nap(20), await node.counts(m.q)];
    return isDeepStrictEqual(before, after) && after;
  });
  assert.deepEqual(await emq.counts(m.q), counts, 'counts, as EchoMQ and BullMQ see them');
  for (const state of ['waiting', 'active', 'delayed', 'prioritized', 'completed', 'failed']) {
    if (!counts[state]) continue;
    const ours = await emq.jobs(m.q, state);
    const theirs = await Promise.all((await node.jobs(m.q, state)).map((job) => withoutLeftName(m.q, job)));
    assert.deepEqual(ours.map((j) => j.id), theirs.map((j) => j.id), `${state} jobs, as EchoMQ and BullMQ see them`);
    ours.forEach((job, i) => assert.deepEqual(job, theirs[i], `a ${state} job, as EchoMQ and BullMQ see it`));
  }
}

test.after(async () => {
  await redis.quit();
  fs.rmSync(box, { recursive: true });
});

module.exports = { assert, both, each, file, meet, nap, open, redis, runsOf, test, until, connection };
