// A live session that goes on in another one after its connection is lost.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { LOOK_S, ListenSession, mayGoOn } from "../../../src/conch/gateway/page/listen_session.js";

/** Frames of a second each, named by their first byte. */
const frame = (name) => new Uint8Array(32000).fill(name).buffer;
const LOST = { reason: "lost", message: "gone", code: 1006 };
const REFUSED = { reason: "refused", message: "nobody", code: 1006 };

globalThis.location = new URL("http://conch.test/");
globalThis.localStorage = { getItem: () => null };

/** Stands for the browser's; a session opens one after the other. */
class Socket {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSED = 3;

  constructor(address) {
    Object.assign(this, { query: address.searchParams, frames: [], isClosed: false });
    Object.assign(this, { readyState: Socket.CONNECTING, bufferedAmount: 0, texts: [] });
    Socket.all.push(this);
  }

  send(data) {
    assert.equal(this.readyState, Socket.OPEN);
    if (typeof data !== "string") this.frames.push(new Uint8Array(data)[0]);
    else this.texts.push(JSON.parse(data).type);
    this.isClosed = this.texts.includes("close");
  }

  close() {
    this.end({ code: 1005 });
  }

  tell(message) {
    if (message.type === "ready") {
      this.readyState = Socket.OPEN;
      this.onopen();
    }
    this.onmessage({ data: JSON.stringify(message) });
  }

  /** End as the browser tells it, after an error or the last message of the gateway. */
  end({ message = "gone", code, reason = "lost", cause }) {
    if (reason === "error") this.tell({ type: "error", error: { message, code: cause } });
    if (reason === "end") this.tell({ type: "end" });
    this.readyState = Socket.CLOSED;
    this.onclose({ code, reason: message });
  }
}
globalThis.WebSocket = Socket;

function opened(isReady = true) {
  const sockets = (Socket.all = []);
  const told = [];
  const session = new ListenSession(
    { mode: "streaming" },
    {
      onMessage: (message) => told.push(message.type),
      onEnding: ({ reason, message, code }) => told.push(message || `${reason} ${code}`),
      onLost: () => told.push("lost"),
      onResume: (place) => told.push(place),
    },
  );
  if (isReady) sockets[0].tell({ type: "ready" });
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
    sockets[0].end(LOST);
    assert.equal(session.isLost, true);
    session.send(frame(6));
    mock.timers.tick(250);
    assert.equal(sockets.length, 2);
    // The third second holds where the text is firm.
    assert.equal(sockets[0].query.get("told_s"), null);
    assert.deepEqual(
      ["mode", "include", "told_s"].map((name) => sockets[1].query.get(name)),
      ["streaming", "stats,resume", "0.900"],
    );
    sockets[1].end(REFUSED);
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
    sockets[2].end({ reason: "error", message: "lost", code: 1013 });
    mock.timers.tick(250);
    sockets[3].tell({ type: "ready" });
    assert.deepEqual(sockets[3].frames, [6, 7, 8]);
    assert.equal(sockets[3].query.get("told_s"), "0.200");
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
    sockets[0].end(LOST);
    mock.timers.tick(250);
    sockets[1].tell({ type: "ready" });
    assert.deepEqual([sockets[1].frames, sockets[1].isClosed], [[1, 2], true]);
    sockets[1].end({ reason: "end", code: 1000 });
    assert.equal(told.at(-1), "end 1000");
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
    sockets[0].end(LOST);
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

test("what is said before the connection is open is sent once it is", () => {
  const { session, sockets } = opened(false);
  for (let name = 1; name <= 12; name++) assert.equal(session.send(frame(name)), "fine");
  assert.deepEqual(sockets[0].frames, []);
  sockets[0].tell({ type: "ready" });
  assert.equal(sockets[0].frames.length, 12);
  assert.deepEqual([session.sentS, session.droppedS], [12, 0]);
});

test("audio that the network does not take is left out and counted", () => {
  const { session, sockets } = opened();
  session.send(frame(1));
  sockets[0].bufferedAmount = 2 * 32000;
  assert.equal(session.send(frame(2)), "late");
  sockets[0].bufferedAmount = 9 * 32000;
  assert.equal(session.send(frame(3)), "drop");
  sockets[0].bufferedAmount = 0;
  assert.equal(session.send(frame(4)), "fine");
  assert.deepEqual([sockets[0].frames, session.droppedS], [[1, 2, 4], 1]);
});

test("it gives up after a minute, and what is kept is bounded", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  try {
    const { session, sockets, told } = opened();
    session.send(frame(1));
    sockets[0].tell(heard(1));
    sockets[0].end(LOST);
    for (let second = 0; second < LOOK_S + 3; second++) {
      session.send(frame(2));
      mock.timers.tick(1000);
      const last = sockets.at(-1);
      if (last !== sockets[0] && !last.isEnded) {
        last.isEnded = true;
        last.end(REFUSED);
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
  sockets[0].end(LOST);
  assert.equal(told.at(-1), "gone", "nothing was heard yet");
  assert.equal(session.isLost, false);
  const asked = opened();
  asked.sockets[0].tell(heard(1));
  asked.session.close();
  asked.sockets[0].end({ reason: "end", code: 1001 });
  assert.equal(asked.told.at(-1), "end 1001");
  const late = { reason: "late", message: "late", code: 1005 };
  const limit = { reason: "error", message: "too much audio waits", code: 1008 };
  const died = { reason: "error", message: "died", code: 1013, cause: "server_lost" };
  assert.deepEqual([late, limit, died].map(mayGoOn), [false, false, false]);
  const full = { reason: "error", message: "full", code: 1013 };
  const stops = { reason: "end", message: "", code: 1001 };
  assert.deepEqual([LOST, full, stops].map(mayGoOn), [true, true, true]);
});
