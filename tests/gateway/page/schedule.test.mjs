// When pieces of audio sound, and what is heard at a time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Schedule } from "../../../src/conch/gateway/page/schedule.js";

test("pieces that come in time follow one another without a gap", () => {
  const schedule = new Schedule();
  const first = schedule.add(0.2, 1);
  assert.ok(first > 1 && first < 1.1);
  assert.equal(schedule.add(0.6, 1.05), first + 0.2);
  assert.equal(schedule.placeAt(1), -1);
  assert.ok(Math.abs(schedule.placeAt(first + 0.5) - 0.5) < 1e-9);
  assert.ok(Math.abs(schedule.placeAt(9) - 0.8) < 1e-9);
});

test("behind a gap the place goes on where it was", () => {
  const schedule = new Schedule();
  schedule.add(1, 0);
  const late = schedule.add(1, 5);
  assert.ok(late > 5);
  assert.equal(schedule.placeAt(4), 1);
  assert.ok(Math.abs(schedule.placeAt(late + 0.25) - 1.25) < 1e-9);
  assert.equal(schedule.end, late + 1);
});
