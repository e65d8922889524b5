// A live session that goes on in another one after its connection is lost.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { LOOK_S, ListenSession, mayGoOn } from "../../../src/conch/gateway/page/listen_session.js";

/** Frames of a second each, named by their first byte. */
const frame = (name) => new Uint8Array(32000).fill(name).buffer;
const LOST = { reason: "lost", message: "gone", code: 1006 };
const REFUSED = { reason: "refused", message: "nobody", code: 1006 };

class Socket {
  constructor(options, hooks) {
    Object.assign(this, { options, hooks, frames: [], path: "/v1/listen", isReady: false });
    Object.assign(this, { droppedS: 0, waitingS: 0, isClosed: false });
  }

  get sentS() {
    return this.frames.length;
  }

  send(bytes) {
    this.frames.push(new Uint8Array(bytes)[0]);
    return "fine";
  }

  finalize() {}

  close() {
    this.isClosed = true;
  }

  tell(message) {
    if (message.type === "ready") this.isReady = true;
    this.hooks.onMessage(message);
  }
}

function opened() {
  const sockets = [];
  const told = [];
  const session = new ListenSession(
    { mode: "streaming" },
    {
      onMessage: (message) => told.push(message.type),
      onEnding: (ending) => told.push(ending.message),
      onLost: () => told.push("lost"),
      onResume: (place) => told.push(place),
    },
    (options, hooks) => {
      sockets.push(new Socket(options, hooks));
      return sockets.at(-1);
    },
  );
  sockets[0].tell({ type: "ready" });
  return { session, sockets, told };
}

const heard = (audio_s) => ({ type: "stats", audio_s });

test("the audio since the firm text is sent again, and what comes meanwhile", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const { session, sockets, told } = opened();
    [1, 2, 3, 4].forEach((name) => session.send(frame(name)));
    sockets[0].tell(heard(4));
    sockets[0].tell({ type: "resume", from: 2.5, told: 2.9 });
    session.send(frame(5));
    sockets[0].hooks.onEnding(LOST);
    assert.equal(session.isLost, true);
    session.send(frame(6));
    mock.timers.tick(250);
    assert.equal(sockets.length, 2);
    // The third second holds where the text is firm.
    assert.deepEqual(sockets[1].options, { mode: "streaming", told_s: "0.900" });
    sockets[1].hooks.onEnding(REFUSED);
    session.send(frame(7));
    mock.timers.tick(500);
    sockets[2].tell({ type: "ready" });
    assert.deepEqual(sockets[2].frames, [3, 4, 5, 6, 7]);
    session.send(frame(8));
    assert.deepEqual(sockets[2].frames, [3, 4, 5, 6, 7, 8]);
    sockets[2].tell(heard(1));
    assert.deepEqual(told, [
      ...["ready", "stats", "lost", "lost"],
      ...[{ startS: 2, toldS: 2.9 }, "ready", "stats"],
    ]);
    // It is lost once more, on the clock of the second session.
    sockets[2].tell({ type: "resume", from: 3, told: 3.2 });
    sockets[2].hooks.onEnding({ reason: "error", message: "lost", code: 1013 });
    mock.timers.tick(250);
    sockets[3].tell({ type: "ready" });
    assert.deepEqual(sockets[3].frames, [6, 7, 8]);
    assert.equal(sockets[3].options.told_s, "0.200");
  } finally {
    mock.timers.reset();
  }
});

test("what was lost before the end is asked for gets its last text", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const { session, sockets, told } = opened();
    [1, 2].forEach((name) => session.send(frame(name)));
    sockets[0].tell(heard(2));
    session.close();
    assert.equal(sockets[0].isClosed, true);
    sockets[0].hooks.onEnding(LOST);
    mock.timers.tick(250);
    sockets[1].tell({ type: "ready" });
    assert.deepEqual([sockets[1].frames, sockets[1].isClosed], [[1, 2], true]);
    sockets[1].hooks.onEnding({ reason: "end", message: "done", code: 1000 });
    assert.equal(told.at(-1), "done");
  } finally {
    mock.timers.reset();
  }
});

test("no more audio is on its way than the server takes", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const { session, sockets } = opened();
    session.send(frame(1));
    sockets[0].tell(heard(1));
    sockets[0].hooks.onEnding(LOST);
    for (let name = 2; name <= 45; name++) session.send(frame(name));
    mock.timers.tick(250);
    sockets[1].tell({ type: "ready" });
    assert.equal(sockets[1].frames.length, 20);
    session.close();
    assert.equal(sockets[1].isClosed, false);
    for (let until = 1; until <= 25; until++) sockets[1].tell(heard(until));
    assert.deepEqual([sockets[1].frames.length, sockets[1].isClosed], [45, true]);
    assert.deepEqual(sockets[1].frames.slice(0, 3), [1, 2, 3]);
  } finally {
    mock.timers.reset();
  }
});

test("it gives up after a minute, and what is kept is bounded", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const { session, sockets, told } = opened();
    session.send(frame(1));
    sockets[0].tell(heard(1));
    sockets[0].hooks.onEnding(LOST);
    for (let second = 0; second < LOOK_S + 3; second++) {
      session.send(frame(2));
      mock.timers.tick(1000);
      const last = sockets.at(-1);
      if (last !== sockets[0] && !last.isEnded) {
        last.isEnded = true;
        last.hooks.onEnding(REFUSED);
      }
    }
    assert.equal(told.at(-1), "gone");
    assert.ok(sockets.length > 10);
    for (let second = 0; second < 300; second++) session.send(frame(3));
    assert.equal(session.kept.length, 180);
  } finally {
    mock.timers.reset();
  }
});

test("some ends are for good", () => {
  const { session, sockets, told } = opened();
  sockets[0].hooks.onEnding(LOST);
  assert.equal(told.at(-1), "gone", "nothing was heard yet");
  assert.equal(session.isLost, false);
  const asked = opened();
  asked.sockets[0].tell(heard(1));
  asked.session.close();
  asked.sockets[0].hooks.onEnding({ reason: "end", message: "stops", code: 1001 });
  assert.equal(asked.told.at(-1), "stops");
  const late = { reason: "late", message: "late", code: 1005 };
  const limit = { reason: "error", message: "too much audio waits", code: 1008 };
  const died = { reason: "error", message: "died", code: 1013, cause: "server_lost" };
  assert.deepEqual([late, limit, died].map(mayGoOn), [false, false, false]);
  const full = { reason: "error", message: "full", code: 1013 };
  const stops = { reason: "end", message: "", code: 1001 };
  assert.deepEqual([LOST, full, stops].map(mayGoOn), [true, true, true]);
});
