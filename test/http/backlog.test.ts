import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { UnreadAnswers } from "../../src/http/backlog.ts";
import { ManualClock } from "../support/manual-clock.ts";

const MIB = 2 ** 20;

/** What of a socket is looked at, and nothing behind it. */
class Peer {
  writableLength = 0;
  destroyed = false;
  readonly _handle = { writeQueueSize: 0 };

  hold(bytes: number): void {
    this.writableLength = bytes;
    this._handle.writeQueueSize = bytes;
  }
}

function open(count: number) {
  const clock = new ManualClock();
  const closed: string[] = [];
  const close = (socket: Socket, reason: string): void => {
    (socket as unknown as Peer).destroyed = true;
    closed.push(reason);
  };
  const answers = new UnreadAnswers({ clock, close });
  const peers = Array.from({ length: count }, () => {
    const peer = new Peer();
    return { peer, answer: answers.follow(peer as unknown as Socket) };
  });
  return { clock, closed, peers };
}

test("a client that takes each answer whole stays, though as much of each waits for a moment", () => {
  const { clock, closed, peers } = open(1);
  const [{ peer, answer }] = peers as [(typeof peers)[0]];
  for (let second = 0; second < 100; second += 1) {
    peer.hold(MIB);
    answer.written();
    clock.advance(1_000);
    peer.hold(0);
  }
  expect(closed).toEqual([]);
  peer.hold(MIB);
  answer.written();
  clock.advance(29_000);
  expect(closed).toEqual([]);
  clock.advance(2_000);
  expect(closed).toEqual(["unread"]);
});

test("where too much waits, nobody goes whose answers are out", () => {
  const { closed, peers } = open(300);
  for (const { peer, answer } of peers) {
    peer.hold(MIB);
    answer.written();
    peer.hold(0);
  }
  expect(closed).toEqual([]);
  for (const { peer, answer } of peers) {
    peer.hold(MIB);
    answer.written();
  }
  expect(closed).toEqual(Array.from({ length: 300 - 128 }, () => "crowded"));
});
