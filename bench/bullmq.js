// SPDX-License-Identifier: MIT
//
// BullMQ as a contender: node bullmq.js URL WHAT JOBS BATCH CONCURRENCY IN-FLIGHT. Does a part of the same
// work first, so that its code is compiled, says "ready", waits for a line, works, and says what that took.
// Without arguments: which versions these are.
'use strict';

const path = require('node:path');
const { createInterface } = require('node:readline');

const from = (name) => require(require.resolve(name, { paths: [path.join(__dirname, '../tests/interop')] }));
const { Queue, Worker } = from('bullmq');

const DATA_BYTES = 100;
const WARM_UP = 3000;
// What EchoMQ's defaults are.
const OPTIONS = {
  attempts: 3,
  backoff: { type: 'exponential', delay: 1000 },
  removeOnComplete: { count: 1000, age: 24 * 3600 },
  removeOnFail: { count: 10000, age: 30 * 24 * 3600 },
};

function data(n) {
  const frame = JSON.stringify({ n, pad: '' }).length;
  return { n, pad: 'x'.repeat(DATA_BYTES - frame) };
}

async function addEach(queue, jobs, inFlight) {
  let next = 0;
  const adder = async () => {
    while (next < jobs) await queue.add('job', data(next++), OPTIONS);
  };
  await Promise.all(Array.from({ length: inFlight }, adder));
}

async function addBulk(queue, jobs, batch) {
  for (let done = 0; done < jobs; done += batch) {
    const list = [];
    for (let i = done; i < Math.min(jobs, done + batch); i++) list.push({ name: 'job', data: data(i), opts: OPTIONS });
    await queue.addBulk(list);
  }
}

// Answers { start, done }: a worker that does not run yet, and when it has completed so many jobs.
async function worker(name, connection, jobs, concurrency) {
  const w = new Worker(name, async () => {}, { connection, concurrency, autorun: false });
  w.on('error', fail);
  const done = new Promise((resolve) => {
    let left = jobs;
    w.on('completed', () => --left === 0 && resolve());
  });
  await w.waitUntilReady();
  return { start: () => void w.run().catch(fail), done, close: () => w.close() };
}

// Answers what is to be measured, prepared.
const KINDS = {
  add: async (o, queue) => ({ run: () => addEach(queue, o.jobs, o.inFlight) }),
  bulk: async (o, queue) => ({ run: () => addBulk(queue, o.jobs, o.batch) }),
  work: async (o, queue) => {
    await addBulk(queue, o.jobs, 1000);
    const w = await worker(o.name, o.connection, o.jobs, o.concurrency);
    return { run: () => (w.start(), w.done), close: w.close };
  },
  both: async (o, queue) => {
    const w = await worker(o.name, o.connection, o.jobs, o.concurrency);
    return { run: () => (w.start(), Promise.all([addBulk(queue, o.jobs, o.batch), w.done])), close: w.close };
  },
};

function fail(e) {
  console.error(`bullmq: ${e.stack || e}`);
  process.exit(1);
}

async function lap(what, o, gate) {
  const queue = new Queue(o.name, { connection: o.connection });
  await queue.waitUntilReady();
  const act = await KINDS[what](o, queue);
  await gate();
  const begin = process.hrtime.bigint(), cpu = process.cpuUsage();
  await act.run();
  const end = process.hrtime.bigint(), used = process.cpuUsage(cpu);
  const us = (ns) => Number(ns / 1000n);
  const said = { jobs: o.jobs, begin: us(begin), end: us(end), cpu: used.user + used.system };
  return { said, close: async () => (await act.close?.(), queue.close()) };
}

async function main([url, what, jobs, batch, concurrency, inFlight]) {
  const { hostname: host, port } = new URL(url);
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const o = { connection, batch: Number(batch), concurrency: Number(concurrency), inFlight: Number(inFlight) };
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

  const warm = await lap(what, { ...o, name: 'warm', jobs: WARM_UP }, async () => {});
  await warm.close();
  const { said } = await lap(what, { ...o, name: 'q', jobs: Number(jobs) }, async () => {
    console.log('ready');
    await lines.next();
  });
  console.log(JSON.stringify(said));
  process.exit(0);
}

if (process.argv.length > 2) {
  main(process.argv.slice(2)).catch(fail);
} else {
  const version = (name) => JSON.parse(require('node:fs').readFileSync(
    path.join(__dirname, '../tests/interop/node_modules', name, 'package.json'), 'utf8')).version;
  console.log(`BullMQ ${version('bullmq')}, ioredis ${version('ioredis')}, Node ${process.version}`);
}
