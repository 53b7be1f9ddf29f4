// SPDX-License-Identifier: MIT
//
// BullMQ as the tests use it. The same methods as emq_side.js.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { Job, Queue, QueueEvents } = require('bullmq');
const { bullmqWorker } = require('./bullmq_worker.js');

// What both sides can tell of a job.
const FIELDS = [
  'id', 'name', 'data', 'priority', 'delay', 'timestamp', 'attemptsMade', 'attemptsStarted',
  'stalledCounter', 'processedOn', 'finishedOn', 'returnvalue', 'failedReason', 'stacktrace', 'progress',
  'processedBy', 'deduplicationId', 'deferredFailure',
];
function view(job) {
  const out = {};
  for (const f of FIELDS) if (job[f] !== undefined && job[f] !== null) out[f] = job[f];
  if (out.stacktrace && !out.stacktrace.length) delete out.stacktrace;
  return out;
}

class BullmqSide {
  constructor({ connection, url, keep }) {
    Object.assign(this, { connection, url, keep, queues: new Map(), listening: new Map() });
  }

  queue(q) {
    if (!this.queues.has(q)) {
      const queue = new Queue(q, { connection: this.connection });
      this.queues.set(q, this.keep(queue, () => queue.close()));
    }
    return this.queues.get(q);
  }

  async add(q, name, data, opts) {
    return (await this.queue(q).add(name, data, opts)).id;
  }

  addMany(q, jobs) { return this.queue(q).addBulk(jobs); }

  // Returns { stop, kill, worker }.
  async work(q, o = {}) {
    if (o.process) {
      const args = [path.join(__dirname, 'bullmq_worker.js'), this.url, q, JSON.stringify(o)];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
      return this.child(child);
    }
    const worker = bullmqWorker(this.connection, q, o);
    this.keep(worker, () => worker.close(true));
    await worker.waitUntilReady();
    return { worker, stop: () => worker.close() };
  }

  child(child) {
    const gone = once(child, 'exit');
    const end = (signal) => async () => {
      child.kill(signal);
      await gone;
    };
    this.keep(child, end('SIGKILL'));
    return { kill: end('SIGKILL'), stop: end('SIGTERM'), pid: child.pid };
  }

  async counts(q) {
    const c = await this.queue(q).getJobCounts();
    delete c.paused;
    return c;
  }

  // In the order in which they would be taken, are due, or were finished.
  async jobs(q, state) {
    return (await this.queue(q).getJobs([state], 0, -1, true)).map(view);
  }

  async job(q, id) {
    const job = await Job.fromId(this.queue(q), id);
    return job && { ...view(job), state: await job.getState() };
  }

  async logs(q, id) {
    return (await this.queue(q).getJobLogs(id)).logs;
  }

  async events(q) {
    if (!this.listening.has(q)) {
      const events = new QueueEvents(q, { connection: this.connection });
      this.listening.set(q, this.keep(events, () => events.close()));
      await events.waitUntilReady();
    }
    return this.listening.get(q);
  }

  // { value } or { reason }
  async finished(q, id) {
    const events = await this.events(q);
    const job = await Job.fromId(this.queue(q), id);
    try {
      return { value: await job.waitUntilFinished(events, 30000) };
    } catch (e) {
      return { reason: e.message };
    }
  }

  async withJob(q, id, act) {
    return act(await Job.fromId(this.queue(q), id));
  }
  pause(q) { return this.queue(q).pause(); }
  resume(q) { return this.queue(q).resume(); }
  drain(q, delayed) { return this.queue(q).drain(delayed); }
  clean(q, state, graceMs) { return this.queue(q).clean(graceMs, 0, { waiting: 'wait' }[state] || state); }
  retryAll(q, state) { return this.queue(q).retryJobs({ state }); }
  promoteAll(q) { return this.queue(q).promoteJobs(); }
  obliterate(q, force) { return this.queue(q).obliterate({ force }); }
  retry(q, id) { return this.withJob(q, id, (j) => j.retry(j.finishedOn && j.failedReason ? 'failed' : 'completed')); }
  promote(q, id) { return this.withJob(q, id, (j) => j.promote()); }
  remove(q, id) { return this.withJob(q, id, (j) => j.remove()); }
  setPriority(q, id, priority, lifo) { return this.withJob(q, id, (j) => j.changePriority({ priority, lifo })); }
  setDelay(q, id, delay) { return this.withJob(q, id, (j) => j.changeDelay(delay)); }
  setData(q, id, data) { return this.withJob(q, id, (j) => j.updateData(data)); }
  releaseDedup(q, id) { return this.queue(q).removeDeduplicationKey(id); }
}

module.exports = { BullmqSide, view };
