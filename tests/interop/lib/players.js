// SPDX-License-Identifier: MIT
//
// Two players of the same operations: BullMQ's classes, and EchoMQ's public functions (peer.c). An
// operation is { op, … }; each player answers { status, id? } in EchoMQ's words.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const readline = require('node:readline');
const { redis } = require('./harness.js');
const { Job, Queue, UnrecoverableError, Worker } = require('bullmq');

const OK = { status: 'OK' };

class BullmqPlayer {
  constructor(connection, q) {
    Object.assign(this, { q, held: new Map(), serial: 0 });
    this.queue = new Queue(q, { connection });
    this.worker = new Worker(q, undefined, { connection, name: 'w', autorun: false, lockDuration: 1000000 });
    this.worker.on('error', () => {});
  }

  // Answers a refusal by what happened, not by its words.
  async play(o) {
    try {
      return (await this[o.op](o)) || OK;
    } catch (e) {
      return { status: 'refused', error: e.message };
    }
  }

  async add({ name, data, opts }) {
    return { ...OK, id: (await this.queue.add(name, data, opts)).id };
  }
  async take() {
    const token = `t:${++this.serial}`;
    const job = await this.worker.getNextJob(token, { block: false });
    if (!job) return { status: 'EMPTY' };
    if (job.deferredFailure) { // what its own run would do first
      await job.moveToFailed(new UnrecoverableError(job.deferredFailure), token, false);
      return { status: 'EMPTY' };
    }
    this.held.set(job.id, { job, token });
    return { ...OK, id: job.id };
  }
  // With the token of the hand-out, or a stranger's.
  async owned(id, act) {
    const { job, token } = this.held.get(id) || { job: await Job.fromId(this.queue, id), token: 'nobody:1' };
    return act(job, token);
  }
  async settled(id, act) {
    try {
      await this.owned(id, act);
    } finally {
      this.held.delete(id);
    }
  }
  complete({ id, value }) { return this.settled(id, (j, token) => j.moveToCompleted(value, token, false)); }
  fail({ id, reason }) { return this.settled(id, (j, token) => j.moveToFailed(new Error(reason), token, false)); }
  fatal({ id, reason }) { return this.settled(id, (j, token) => j.moveToFailed(new UnrecoverableError(reason), token, false)); }
  release({ id }) { return this.settled(id, (j, token) => j.moveToWait(token)); }
  async extend({ id }) {
    const done = await this.owned(id, (j, token) => j.extendLock(token, 1000000));
    if (!done) throw new Error('not extended');
  }
  async progress({ id, value }) { await this.owned(id, (j) => j.updateProgress(value)); }
  async log({ id, line }) { await this.owned(id, (j) => j.log(line)); }
  job(id) { return Job.fromId(this.queue, id); }
  async data({ id, value }) { await (await this.job(id)).updateData(value); }
  async priority({ id, priority, lifo }) { await (await this.job(id)).changePriority({ priority, lifo }); }
  async delay({ id, delay }) { await (await this.job(id)).changeDelay(delay); }
  async promote({ id }) { await (await this.job(id)).promote(); }
  async retry({ id }) {
    const job = await this.job(id);
    await job.retry(await job.getState());
  }
  async remove({ id }) { await (await this.job(id)).remove(); }
  async pause() { await this.queue.pause(); }
  async resume() { await this.queue.resume(); }
  async concurrency({ limit }) { await (limit ? this.queue.setGlobalConcurrency(limit) : this.queue.removeGlobalConcurrency()); }
  async drain({ delayed }) { await this.queue.drain(delayed); }
  async clean({ state }) { await this.queue.clean(0, 0, state === 'waiting' ? 'wait' : state); }
  async retryAll({ state }) { await this.queue.retryJobs({ state }); }
  async promoteAll() { await this.queue.promoteJobs(); }
  async releaseDedup({ dedup }) { if (!(await this.queue.removeDeduplicationKey(dedup))) throw new Error('nobody has it'); }
  async obliterate() { await this.queue.obliterate({ force: true }); }
  // The looks that a recovery takes.
  async sweep({ maxStalled }) {
    this.worker.opts.maxStalledCount = maxStalled;
    for (let look = 0; look < 2; look++) {
      await redis.del(`bull:${this.q}:stalled-check`);
      await this.worker.moveStalledJobsToWait();
    }
  }

  async close() {
    await this.worker.close(true);
    await this.queue.close();
  }
}

const keep = (k) => (k === true ? 'none' : k === undefined || k === false ? 'all' : String(k.count ?? k));

// BullMQ's options as a line of a batch file, with what BullMQ does without them.
function batchLine({ name, data, opts: o }) {
  const line = { name, data, attempts: o.attempts || 1, keepCompleted: keep(o.removeOnComplete), keepFailed: keep(o.removeOnFail) };
  line.backoff = o.backoff ? `${o.backoff.type}:${o.backoff.delay}ms` : 'none';
  if (o.jobId) line.id = o.jobId;
  for (const same of ['delay', 'priority', 'lifo', 'keepLogs']) if (o[same]) line[same] = o[same];
  const d = o.deduplication;
  if (d) {
    line.dedup = d.id;
    if (d.ttl) line.dedupTtl = d.ttl;
    line.dedupMode = d.keepLastIfActive ? 'keep-last' : d.replace ? 'replace' : d.extend ? 'extend' : 'simple';
  }
  return line;
}

class EmqPlayer {
  constructor(url, q) {
    this.q = q;
    this.child = spawn(process.env.EMQ_PEER, [`${url}?prefix=bull`], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.answers = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  async play(o) {
    const line = o.op === 'add' ? { op: 'add', line: batchLine(o) } : { ...o };
    this.child.stdin.write(JSON.stringify({ ...line, queue: this.q }) + '\n');
    const { value } = await this.answers.next();
    const answer = JSON.parse(value);
    if (answer.error) throw new Error(`${JSON.stringify(o)}: ${answer.status}: ${answer.error}`);
    return answer;
  }

  async close() {
    this.child.stdin.end();
    await once(this.child, 'exit');
  }
}

module.exports = { BullmqPlayer, EmqPlayer };
