// SPDX-License-Identifier: MIT
//
// The same random operations by BullMQ on one queue and by EchoMQ on another: after each the two key spaces
// are the same, but for the rows of gaps.js. EMQ_TEST_SEED repeats a run, EMQ_DIFFERENTIAL_OPS sets its length.
'use strict';

const gaps = require('./gaps.js');
const { assert, connection, redis, test } = require('./lib/harness.js');
const { Keyspace, difference } = require('./lib/keyspace.js');
const { Random, operation } = require('./lib/operations.js');
const { BullmqPlayer, EmqPlayer } = require('./lib/players.js');

const OPS = Number(process.env.EMQ_DIFFERENTIAL_OPS || 1000);
const SEED = Number(process.env.EMQ_TEST_SEED || Math.floor(Math.random() * 2 ** 32));
const SEQUENCE = 60; // operations on one queue
let serial = 0;

class Match {
  constructor(rows) {
    const n = ++serial;
    Object.assign(this, { rows, log: [], names: [`node-${n}`, `emq-${n}`] });
    this.players = [new BullmqPlayer(connection, this.names[0]), new EmqPlayer(process.env.EMQ_TEST_SERVER, this.names[1])];
    this.keyspace = new Keyspace(redis);
  }

  async dumps() {
    const dumps = [];
    for (const q of this.names) dumps.push(await this.keyspace.dump(q));
    return dumps;
  }

  avoided(o, dump) {
    return this.rows.some((row) => row.avoid && row.avoid(o, dump, this.log));
  }

  // Undefined, or what differs after the operation.
  async play(o) {
    this.log.push(o);
    const answers = [];
    for (const p of this.players) answers.push(await this.playOn(p, o));
    const dumps = await this.dumps();
    this.shown = dumps[0];
    const [a, b] = dumps.map((d) => structuredClone(d));
    for (const row of this.rows) if (row.hide) [a, b].forEach((d) => row.hide(d, this.log));
    this.answers = answers;
    for (const a of answers) if (!answers.some((x) => x.done)) delete a.why; // both refused
    return difference(answers[0], answers[1], 'answer') || difference(a, b);
  }

  async playOn(player, o) {
    const said = o.op === 'stall' ? await this.stall(player, o) : await player.play(o);
    const done = ['OK', 'EMPTY', 'DUPLICATE', 'DEDUPLICATED'].includes(said.status);
    return { done, empty: said.status === 'EMPTY', id: said.id, ...(done ? {} : { why: said }) };
  }

  // The owner dies and its lock ends.
  async stall(player, { id, maxStalled }) {
    await redis.del(`bull:${player.q}:${id}:lock`);
    return player.play({ op: 'sweep', maxStalled });
  }

  async close() {
    for (const p of this.players) await p.close();
    const keys = await redis.keys(`bull:${this.names[0]}:*`).then(async (k) => k.concat(await redis.keys(`bull*:${this.names[1]}:*`)));
    if (keys.length) await redis.del(keys);
  }
}

test('random operations leave the same keys', async () => {
  const random = new Random(SEED);
  for (let played = 0; played < OPS; ) {
    const match = new Match(gaps);
    match.shown = {};
    for (let i = 0; i < SEQUENCE && played < OPS; ) {
      const o = operation(random, match.shown);
      if (match.avoided(o, match.shown)) continue;
      const differs = await match.play(o);
      if (differs) {
        const log = match.log.map((x) => JSON.stringify(x)).join('\n');
        await match.close();
        assert.fail(`after ${played} operations, EMQ_TEST_SEED=${SEED}\nBullMQ | EchoMQ: ${differs}\n${JSON.stringify(match.answers)}\n${log}`);
      }
      i++;
      played++;
    }
    await match.close();
  }
});

for (const row of gaps)
  test(`still a gap: ${row.name}`, async () => {
    const match = new Match(gaps.filter((other) => other !== row));
    let differs;
    for (const o of row.proof) differs = differs || (await match.play(o));
    await match.close();
    assert.ok(differs, 'BullMQ does now what EchoMQ does: the row can go');
  });
