// One socket, turned around: its frames are pulled. What no frame shows is seen to here: a wire
// that died without a word, a token that is nearly over, a reader that falls behind.

/** @typedef {{ type: string, [member: string]: any }} Frame */
/**
 * @typedef {object} Entry  how to be let in, and to stay
 * @property {string} token
 * @property {Frame} subscribe
 * @property {() => string | Promise<string>} renewed
 */

/** How long things take, in milliseconds, and how many frames may lie before nobody takes them. */
export const PACE = {
  firstWait: 250,
  longestWait: 30_000,
  // A wire that is cut without a word looks like a quiet one, so we ask, and wait as long again.
  silence: 20_000,
  renewEarly: 60_000,
  renewAtMost: 30_000,
  mostFrames: 1024,
};
const LONGEST_TIMER = 2 ** 31 - 1;

/** A socket; `next()` gives null once it is closed and everything that came was taken. */
export class Inbox {
  /** 0 while it is open. */
  closeCode = 0;
  isTooFull = false;
  /** What the service said before it closed. @type {Frame | null} */
  refusal = null;
  /** @type {Frame[]} */
  #frames = [];
  #wake = () => {};
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #quiet;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #renewal;

  /** @param {string} address @param {Entry} entry @param {typeof PACE} pace */
  constructor(address, entry, pace) {
    this.pace = pace;
    this.socket = new WebSocket(address, ["turngate.v1"]);
    this.socket.onopen = () => {
      this.#authenticate(entry.token, entry.renewed);
      this.say(entry.subscribe);
    };
    this.socket.onmessage = (message) => this.#take(JSON.parse(message.data));
    this.socket.onclose = ({ code }) => this.#end(code);
    this.#listen();
  }

  get isEmpty() {
    return this.#frames.length === 0;
  }

  /** @returns {Promise<Frame | null>} */
  async next() {
    while (this.isEmpty && this.closeCode === 0) {
      await new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#frames.shift() ?? null;
  }

  /** @param {Frame} frame */
  say(frame) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  /** Close, without waiting for a wire that may be dead to say so. */
  leave() {
    this.#end(1006);
    this.socket.onmessage = null;
    this.socket.close();
  }

  /** @param {Frame} frame */
  #take(frame) {
    this.#listen();
    if (frame.type === "error") this.refusal = frame;
    else if (frame.type !== "pong") this.#frames.push(frame);
    // A page cannot slow its browser down, which would go on reading: so we come back for the rest.
    if (this.#frames.length >= this.pace.mostFrames) {
      this.isTooFull = true;
      this.leave();
    }
    this.#wake();
  }

  /** Ask when it is quiet, and leave when nobody answers. */
  #listen() {
    clearTimeout(this.#quiet);
    this.#quiet = setTimeout(() => {
      this.say({ type: "ping" });
      this.#quiet = setTimeout(() => this.leave(), this.pace.silence);
    }, this.pace.silence);
  }

  /** @param {string} token @param {Entry["renewed"]} renewed */
  #authenticate(token, renewed) {
    this.say({ type: "auth", token });
    const left = (claims(token).exp ?? 0) * 1000 - Date.now() - this.pace.renewEarly;
    // Our clock may be wrong, so it never makes us ask without end.
    const wait = Math.min(Math.max(left, this.pace.renewAtMost), LONGEST_TIMER);
    this.#renewal = setTimeout(async () => this.#authenticate(await renewed(), renewed), wait);
  }

  /** @param {number} code */
  #end(code) {
    if (this.closeCode === 0) this.closeCode = code;
    clearTimeout(this.#quiet);
    clearTimeout(this.#renewal);
    this.#wake();
  }
}

/**
 * What a token says of its owner; only the service can tell whether it is true.
 * @param {string} token
 */
export function claims(token) {
  try {
    const [, body = ""] = token.split(".");
    const text = atob(body.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {};
  }
}
