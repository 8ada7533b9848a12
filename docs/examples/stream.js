// A run's events over the WebSocket, each once and in order, over as many sockets as that takes.
//
// The rules it keeps are those of docs/streaming.md:
//  * A client goes on after the last seq it was given; nothing else is remembered of a lost socket.
//  * `prev` is the seq that came before. Where it is not the one we had, something is missing, and
//    that is an error with both numbers. What is missing is in the log: `withoutGaps` reads it.
//  * After the close codes in FINAL nothing would change; after all others we come back, later each
//    time a socket brings nothing new.
//  * A socket says nothing about the run. Whether that goes on is asked of the run: `run()`.
//  * A browser reads ahead of whoever takes the events, without bound. So we let go of a socket
//    that is too far ahead and come back once its frames are taken.

import { Inbox, PACE } from "./inbox.js";

/** @typedef {import("./inbox.js").Frame} Frame */
/** @typedef {import("./inbox.js").Frame & { seq: number, data: any }} RunEvent */
/** @typedef {"idle"|"connecting"|"open"|"live"|"lost"|"ended"|"closed"} Connection */
/**
 * @typedef {object} Options
 * @property {string} url  the service, such as https://turngate.example
 * @property {string} run  the id of the run
 * @property {() => string | Promise<string>} token  asked for each socket, and before one is over
 * @property {number} [after]  the last seq that is known; 0 for the whole run
 * @property {"replay" | "hold"} [mode]  "hold": the run waits for whoever takes the events
 * @property {number} [window]  how many events may be out before it waits
 * @property {Partial<typeof PACE>} [pace]
 * @property {(connection: Connection, detail: string) => void} [onConnection]
 */

const FINAL = new Set([1000, 4400, 4401, 4403, 4404]);
const PAGE = 1000;

/** Something is missing between the seq that we had and the one that was sent before this one. */
export class GapError extends Error {
  /** @param {number} had @param {number} prev */
  constructor(had, prev) {
    super(`the stream has a gap: the last event was ${had}, and the next one follows ${prev}`);
    this.name = "GapError";
    this.had = had;
    this.prev = prev;
  }
}

/** The service has closed the stream in a way that coming back would not mend. */
export class ClosedError extends Error {
  /** @param {number} closeCode @param {Frame | null} refusal */
  constructor(closeCode, refusal) {
    super(refusal ? `${refusal.code}: ${refusal.detail}` : `closed with ${closeCode}`);
    this.name = "ClosedError";
    this.closeCode = closeCode;
    this.code = refusal?.code ?? null;
  }
}

/** One run, followed. `seq` is the last event that was given out. */
export class RunStream {
  /** @type {Connection} */
  connection = "idle";
  /** How the run ended, once the stream has said so. @type {string | null} */
  ended = null;
  #isHolding;
  #isStopped = false;
  /** @type {Inbox | null} */
  #inbox = null;
  #goOn = () => {};

  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.pace = { ...PACE, ...options.pace };
    this.seq = options.after ?? 0;
    this.#isHolding = options.mode === "hold";
  }

  /**
   * The events up to the run's end. Throws GapError, ClosedError.
   * @returns {AsyncGenerator<RunEvent>}
   */
  async *events() {
    for (let empty = 0; !this.#isStopped; ) {
      const before = this.seq;
      const inbox = await this.#connect();
      try {
        yield* this.#taken(inbox);
      } finally {
        inbox.leave();
      }
      if (this.ended !== null) return;
      empty = this.seq > before ? 0 : empty + 1;
      if (!inbox.isTooFull && !this.#isStopped) await this.#pause(empty);
    }
  }

  /** The events after `seq` from the pages of the log, up to what there is now. */
  async *pages() {
    for (;;) {
      const page = await this.#get(`/events?after=${this.seq}&limit=${PAGE}`);
      for (const event of page.items) {
        this.seq = event.seq;
        yield /** @type {RunEvent} */ (event);
      }
      if (page.items.length < PAGE) return;
    }
  }

  /** The run as it is: what a lost socket cannot tell. */
  run() {
    return this.#get("");
  }

  /** Let go of the run; it goes on without us. */
  stop() {
    this.#isStopped = true;
    this.#inbox?.leave();
    this.#goOn();
  }

  async #connect() {
    this.#be("connecting", "");
    const token = await this.options.token();
    const { url, run, window = 256 } = this.options;
    const mode = this.#isHolding ? "hold" : "replay";
    const subscribe = { type: "subscribe", after: this.seq, mode, window };
    const address = `${url.replace(/^http/, "ws")}/v1/runs/${run}/stream`;
    const inbox = new Inbox(address, { token, subscribe, renewed: this.options.token }, this.pace);
    this.#inbox = inbox;
    if (this.#isStopped) inbox.leave();
    return inbox;
  }

  /** What one socket brings. @param {Inbox} inbox @returns {AsyncGenerator<RunEvent>} */
  async *#taken(inbox) {
    const window = this.options.window ?? 256;
    let unacked = 0;
    for (let frame = await inbox.next(); frame !== null; frame = await inbox.next()) {
      if (frame.type === "event") {
        if (frame.seq <= this.seq) continue;
        if (frame.prev !== this.seq) throw this.#gap(frame.prev);
        this.seq = frame.seq;
        unacked += 1;
        yield frame.event;
        // Not each by itself, for the service reads 50 frames a second; but no run waits for it.
        if (this.#isHolding && (inbox.isEmpty || unacked * 2 >= window)) {
          inbox.say({ type: "ack", seq: this.seq });
          unacked = 0;
        }
      } else {
        this.#heed(frame);
      }
      if (this.ended !== null) return;
    }
    this.#closed(inbox);
  }

  /** @param {Frame} frame */
  #heed(frame) {
    if (frame.type === "hello") this.#be("open", "");
    if (frame.type === "live") this.#be("live", "");
    if (frame.type === "demoted") {
      this.#isHolding = false;
      this.#be(this.connection, `the run waits for us no longer (${frame.reason})`);
    }
    if (frame.type === "end") {
      this.ended = frame.status;
      this.#be("ended", frame.status);
    }
  }

  /** @param {Inbox} inbox */
  #closed(inbox) {
    if (this.#isStopped) return this.#be("closed", "we have let go");
    if (FINAL.has(inbox.closeCode)) {
      const error = new ClosedError(inbox.closeCode, inbox.refusal);
      this.#be("closed", error.message);
      throw error;
    }
    if (!inbox.isTooFull) this.#be("lost", `the socket closed with ${inbox.closeCode}`);
  }

  /** @param {number} prev */
  #gap(prev) {
    const gap = new GapError(this.seq, prev);
    this.#be("lost", gap.message);
    return gap;
  }

  /** @param {Connection} connection @param {string} detail */
  #be(connection, detail) {
    this.connection = connection;
    this.options.onConnection?.(connection, detail);
  }

  /** Wait, longer after each socket that brought nothing. @param {number} empty */
  #pause(empty) {
    const longest = Math.min(this.pace.longestWait, this.pace.firstWait * 2 ** empty);
    // Half of it is chance: the clients of a service that went down do not come back together.
    return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      this.#goOn = resolve;
      setTimeout(resolve, longest * (0.5 + Math.random() / 2));
    });
  }

  /** @param {string} path */
  async #get(path) {
    const headers = { Authorization: `Bearer ${await this.options.token()}` };
    const { url, run } = this.options;
    const answer = await fetch(`${url}/v1/runs/${run}${path}`, { headers });
    const body = await answer.json();
    if (!answer.ok) throw new Error(`${body.code}: ${body.detail}`);
    return body;
  }
}

/**
 * The events up to the run's end, with what a stream left out read from the log. `onGap` is told.
 * @param {RunStream} stream @param {(gap: GapError) => void} onGap
 * @returns {AsyncGenerator<RunEvent>}
 */
export async function* withoutGaps(stream, onGap) {
  for (;;) {
    try {
      yield* stream.events();
      return;
    } catch (error) {
      if (!(error instanceof GapError)) throw error;
      onGap(error);
      yield* stream.pages();
      // The log knows of nothing between: then it is not the wire that is wrong.
      if (stream.seq === error.had) throw error;
    }
  }
}
