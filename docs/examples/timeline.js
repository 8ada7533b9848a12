// A run as it is told by its events: what was said, what was called, what is asked, how it ended.

import { Card } from "./card.js";
import { element, said } from "./dom.js";

/** @typedef {import("./stream.js").RunEvent} RunEvent */

export class Timeline {
  /** Streamed text of the step so far. @type {HTMLElement | null} */
  #draft = null;
  /** @type {Map<string, Card>} */
  #cards = new Map();

  /**
   * @param {import("./service.js").Service} service
   * @param {HTMLElement} story  what a person reads
   * @param {HTMLElement} log  every event
   */
  constructor(service, story, log) {
    this.service = service;
    this.story = story;
    this.log = log;
    story.replaceChildren();
    log.replaceChildren();
  }

  /** @param {RunEvent} event */
  async add(event) {
    this.#note(event);
    const { data } = event;
    switch (event.type) {
      case "message.user":
        return this.#tell("user", said(textOf(data.content), "\n"));
      case "text.delta":
        this.#draft ??= this.#tell("assistant");
        return this.#draft.append(said(data.text, "\n"));
      case "step.discarded":
        this.#draft?.remove();
        this.#draft = null;
        return;
      case "message.assistant":
        return this.#message(data);
      case "tool.completed":
        return this.#tell("tool", code(data.tool), " → ", said(data.result, "\n"));
      case "tool.failed":
        return this.#tell("tool bad", code(data.tool), " failed: ", said(data.error));
      case "tool.settled":
        return this.#tell("tool", code(data.tool), " · ", said(data.outcome));
      case "approval.requested":
        return this.#ask(data.id);
      case "approval.resolved":
        return this.#cards.get(data.approval_id)?.settle(data.status, `by ${data.by}`);
      case "run.completed":
        return this.#answer(data.answer.answer);
      case "run.failed":
        return this.#tell("answer bad", said(`${data.code}: ${data.message}`));
      case "run.cancelled":
        return this.#tell("answer bad", "cancelled by ", said(data.by));
    }
  }

  /** The final text of a step; its calls are told when they run. @param {any} data */
  #message(data) {
    const text = textOf(data.content);
    if (text !== "") (this.#draft ?? this.#tell("assistant")).replaceChildren(said(text, "\n"));
    else this.#draft?.remove();
    this.#draft = null;
  }

  /** The answer takes the place of the message that it was said in. @param {string} text */
  #answer(text) {
    const before = this.story.lastElementChild;
    const answer = this.#tell("answer", said(text, "\n"));
    if (before?.matches(".assistant") && before.textContent === answer.textContent) before.remove();
  }

  /** Events may be cut; what is signed is read whole. @param {string} id */
  async #ask(id) {
    const place = this.#tell("tool", "An approval is asked for… ");
    const read = async () => {
      const card = new Card(this.service, await this.service.get(`/v1/approvals/${id}`));
      await card.draw();
      this.#cards.set(id, card);
      place.replaceWith(card.node);
    };
    // Whatever hinders this read, the events go on; somebody may try it again.
    const failed = (/** @type {unknown} */ error) => {
      const retry = element("button", { type: "button" }, "Try again");
      retry.onclick = () => read().catch(failed);
      place.replaceChildren("The approval could not be read: ", said(error), " ", retry);
    };
    await read().catch(failed);
  }

  /** @param {string} kind @param {...(Node | string)} children @returns {HTMLElement} */
  #tell(kind, ...children) {
    const told = element("div", { className: `told ${kind}`, dir: "auto" }, ...children);
    this.story.append(told);
    return told;
  }

  /** @param {RunEvent} event */
  #note(event) {
    const seq = element("b", {}, String(event.seq));
    const summary = element("summary", {}, seq, " ", said(event.type));
    if (event["trust"] === "quarantined_content") summary.append(element("i", {}, "quarantined"));
    const text = said(JSON.stringify(event.data, null, 1), "\n");
    this.log.append(element("details", {}, summary, element("pre", { className: "bytes" }, text)));
  }
}

/** @param {string} name */
function code(name) {
  return element("code", {}, said(name));
}

/** @param {{ type: string, text?: string }[]} content */
function textOf(content) {
  return content.flatMap((part) => (part.type === "text" ? [part.text ?? ""] : [])).join("");
}
