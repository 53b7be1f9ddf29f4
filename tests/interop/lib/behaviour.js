// SPDX-License-Identifier: MIT
//
// What a handler does is said by the job's data, so that the same job can be given to either side:
//   { do: 'return', value }                 the result
//   { do: 'throw', message }                this attempt fails
//   { do: 'throwUntil', attempt, value }    fails in the attempts before that one
//   { do: 'fatal', message }                fails for good
//   { do: 'tell', progress: [], logs: [], value }
//   { do: 'hold', gate }                    until that file is there; then 'held'
// Anything else is given back as the result. Each start leaves a line "id attempt" in the runs file.
'use strict';

const fs = require('node:fs');
const { setTimeout: nap } = require('node:timers/promises');

class Fatal extends Error {}

async function behave(job, runs) {
  const d = job.data;
  if (runs) fs.appendFileSync(runs, `${job.id} ${job.attempt}\n`);
  switch (d && typeof d === 'object' ? d.do : undefined) {
    case 'return':
      return d.value;
    case 'throw':
      throw new Error(d.message);
    case 'throwUntil':
      if (job.attempt < d.attempt) throw new Error(`attempt ${job.attempt}`);
      return d.value;
    case 'fatal':
      throw new Fatal(d.message);
    case 'tell':
      for (const p of d.progress || []) await job.progress(p);
      for (const line of d.logs || []) await job.log(line);
      return d.value;
    case 'hold':
      while (!fs.existsSync(d.gate)) await nap(5);
      return 'held';
    default:
      return d;
  }
}

module.exports = { behave, Fatal };
