// One approval: what will run, and the two steps of deciding. First the text to be signed is shown,
// then, with a click of its own, it is signed; between the two nothing is fetched.

import { checked, digest, signed } from "./deciding.js";
import { element, said } from "./dom.js";
import { spelled } from "./visible.js";

/** @typedef {import("./deciding.js").Json} Json */
/** @typedef {import("./deciding.js").Wanted} Wanted */

export class Card {
  /** @param {import("./service.js").Service} service @param {Json} approval */
  constructor(service, approval) {
    this.service = service;
    this.approval = approval;
    this.path = `/v1/approvals/${approval.id}`;
    this.node = element("article", { className: "card" });
    this.node.dataset["approval"] = approval.id;
    this.foot = element("footer");
    /** @type {Node[]} */
    this.question = [];
    this.notice = element("p", { className: "notice" });
    this.notice.setAttribute("role", "status");
  }

  /** Draw it; nothing is offered that is not as it says. */
  async draw() {
    const { approval } = this;
    const isTrue = (await digest(approval.args_canonical)) === approval.args_sha256;
    this.node.replaceChildren(head(approval), facts(approval), args(approval, isTrue));
    this.node.append(this.notice, this.foot);
    if (!isTrue) this.say("The arguments are not those of the digest: nothing to sign.", true);
    else if (approval.status === "pending") this.ask();
    else this.settle(approval.status, "");
  }

  /** The first step: which decision. */
  ask() {
    const note = element("input", { placeholder: "A note for the model", ariaLabel: "Note" });
    const edited = element("textarea", {
      className: "edit",
      ariaLabel: "Arguments",
      hidden: true,
      rows: 6,
      value: spelled(this.approval.args),
      spellcheck: false,
    });
    const words = () => (note.value === "" ? {} : { note: note.value });
    const approve = button("Approve", "approve", () => {
      const override = edited.hidden ? {} : { override_args: JSON.parse(edited.value) };
      return this.show({ decision: "approve", ...override, ...words() });
    });
    const deny = button("Deny", "deny", () => this.show({ decision: "deny", ...words() }));
    const edit = button("Edit…", "edit-toggle", () => {
      edited.hidden = !edited.hidden;
      approve.textContent = edited.hidden ? "Approve" : "Approve as edited";
    });
    const row = element("div", { className: "row" }, approve, edit, deny);
    this.#guard([approve, deny, edit]);
    this.question = [edited, note, row];
    this.back();
  }

  /** The first step again, with what was written there. */
  back() {
    this.say("");
    this.foot.replaceChildren(...this.question);
  }

  /** The second step: exactly these bytes. @param {Wanted} wanted */
  async show(wanted) {
    const drafted = await this.service.post(`${this.path}/passkey-options`, wanted);
    const payload = await checked(this.approval, wanted, drafted.canonical);
    const what = payload.override_args ?? this.approval.args_canonical;
    const verb = wanted.decision === "approve" ? "let this run" : "refuse this";
    const sign = button(`Sign with passkey: ${verb}`, "sign", () => this.sign(wanted, drafted));
    const back = button("Back", "back", () => this.back());
    this.say("");
    this.foot.replaceChildren(
      element("h4", {}, wanted.decision === "approve" ? "This will run" : "This will not run"),
      bytes(what, "effective"),
      element("h4", {}, "You sign exactly these bytes"),
      bytes(drafted.canonical, "canonical"),
      element("p", { className: "digest" }, `SHA-256 ${await digest(drafted.canonical)}`),
      element("div", { className: "row" }, sign, back),
    );
    this.#guard([sign, back]);
  }

  /** @param {Wanted} wanted @param {Json} drafted */
  async sign(wanted, drafted) {
    this.say("Waiting for your passkey…");
    const passkey = await signed(drafted["canonical"], drafted["options"]);
    const decided = await this.service.post(`${this.path}/${wanted.decision}`, { passkey });
    const { status, required, decisions } = decided.approval;
    if (status === "pending") this.settle("collected", `${decisions.length} of ${required.count}`);
    else this.settle(status, "signed with your passkey");
  }

  /** It is over, by whomever. @param {string} status @param {string} how */
  settle(status, how) {
    this.node.dataset["status"] = status;
    this.say("");
    this.foot.replaceChildren(
      element("p", { className: `verdict ${status}` }, status, how ? " · " : "", said(how)),
    );
  }

  /** @param {string} text */
  say(text, isBad = false) {
    this.notice.replaceChildren(said(text));
    this.notice.classList.toggle("bad", isBad);
  }

  /** One thing at a time, and what fails is told here. @param {HTMLButtonElement[]} buttons */
  #guard(buttons) {
    for (const each of buttons) {
      const act = /** @type {() => Promise<void> | void} */ (each.onclick);
      each.onclick = async () => {
        buttons.forEach((other) => (other.disabled = true));
        try {
          await act();
        } catch (error) {
          this.say(String(error), true);
        }
        buttons.forEach((other) => (other.disabled = false));
      };
    }
  }
}

/** @param {Json} approval */
function head(approval) {
  const title = element("h3", {}, "Allow ", element("code", {}, said(approval["tool"])), "?");
  const from = approval["worker"] === null ? approval["agent"] : approval["worker"].agent;
  return element("header", {}, title, element("p", {}, "asked by the agent ", said(from)));
}

/** @param {Json} approval */
function facts(approval) {
  const { risk, required } = approval;
  const rows = element("dl");
  /** @param {string} name @param {...(Node | string)} value */
  const row = (name, ...value) => rows.append(element("dt", {}, name), element("dd", {}, ...value));
  if (risk.destination !== null) row("Goes to", element("code", {}, said(risk.destination)));
  if (approval.reason) row("Why you are asked", said(approval.reason));
  row("Needs", ...chips(approval.required_capabilities, approval.missing_capabilities));
  if (approval.tainted_by.length > 0) {
    const seqs = approval.tainted_by.join(", ");
    row("Taint", element("span", { className: "taint" },
      `⚠ Strangers' words led here: events ${seqs}. Read the arguments as theirs.`));
  }
  if (risk.outcome_unknown) row("Again", "It may have run before; how that ended is unknown.");
  if (risk.sandbox_escalation) row("Sandbox", "It asks to run with a relaxed sandbox.");
  const better = required.assurance === "passkey" ? "" : " or better";
  row("Takes", `${required.count} × ${required.assurance}${better}`);
  if (approval.expires_at !== null) row("Until", new Date(approval.expires_at).toLocaleString());
  const definition = said(approval.tool_definition_digest);
  row("Definition", element("code", { className: "digest" }, definition));
  return rows;
}

/** @param {string[]} required @param {string[]} missing */
function chips(required, missing) {
  const all = [...new Set([...required, ...missing])];
  if (all.length === 0) return ["no capability"];
  return all.map((name) =>
    element("span", { className: missing.includes(name) ? "chip missing" : "chip" }, said(name)));
}

/** @param {Json} approval @param {boolean} isTrue */
function args(approval, isTrue) {
  const mark = isTrue ? "✓ computed here" : "✗ not the digest of these bytes";
  return element(
    "section",
    {},
    element("h4", {}, "The exact arguments"),
    bytes(approval["args_canonical"], "args"),
    element("p", { className: isTrue ? "digest" : "digest bad" },
      "SHA-256 ", said(approval["args_sha256"]), ` ${mark}`),
  );
}

/** A text whose every byte counts. @param {string} text @param {string} name */
function bytes(text, name) {
  return element("pre", { className: `bytes ${name}`, tabIndex: 0 }, said(text));
}

/** @param {string} text @param {string} name @param {() => Promise<void> | void} onclick */
function button(text, name, onclick) {
  return element("button", { type: "button", className: name, onclick }, text);
}
