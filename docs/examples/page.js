// The page: sign in, a passkey, a run, its events, its approvals, its answer.

import { created } from "./deciding.js";
import { byId, element, said } from "./dom.js";
import { claims } from "./inbox.js";
import { Problem, Service } from "./service.js";
import { RunStream, withoutGaps } from "./stream.js";
import { Timeline } from "./timeline.js";

const EXAMPLE = {
  model: "script",
  tools: ["files_write"],
  approval: { files_write: "ask" },
  assurance: { default: "passkey" },
};
const LOST = "connection lost, coming back";

/** @type {Service | null} */
let service = null;
/** @type {RunStream | null} */
let stream = null;

on("sign-in", "submit", async () => {
  service = new Service(byId("url").value, byId("token").value.trim());
  await showPasskeys();
  const { sub, tid, exp } = claims(service.token);
  const until = new Date(exp * 1000).toLocaleTimeString();
  byId("who").replaceChildren(said(`${sub} of ${tid}, until ${until}`));
  byId("signed-in").hidden = false;
  await showWaiting();
  // The stream has ended with the token; the log still has everything.
  if (stream !== null && stream.ended === null) start(stream.options.run);
});

on("register", "click", async () => {
  const options = await signedIn().post("/v1/passkeys/registration-options");
  const credential = await created(options);
  await signedIn().post("/v1/passkeys", { label: "browser", credential });
  await showPasskeys();
});

on("run", "submit", async () => {
  const agent = byId("agent").value;
  await ensure(`/v1/agents/${encodeURIComponent(agent)}`);
  const run = await signedIn().post("/v1/runs", { agent, input: byId("input").value });
  start(run.id);
});

/** Whoever opens the page again, or decides for others, finds here what waits for them. */
async function showWaiting() {
  const { items } = await signedIn().get("/v1/approvals?status=pending&limit=20");
  byId("waiting").replaceChildren(
    ...items.map((/** @type {any} */ approval) => {
      const open = element("button", { type: "button" }, said(approval.tool));
      open.onclick = () => start(approval.run_id);
      return element("li", {}, open, " asked by ", said(approval.agent));
    }),
  );
  byId("waits").hidden = items.length === 0;
}

/** Watch a run beside whatever else is done; nothing waits for its end. @param {string} run */
function start(run) {
  watch(run).catch((error) => complain(byId("run"), error));
}

/** An agent of somebody's is used as it is. @param {string} path */
async function ensure(path) {
  try {
    await signedIn().get(path);
  } catch (error) {
    if (!(error instanceof Problem && error.status === 404)) throw error;
    await signedIn().put(path, EXAMPLE);
  }
}

async function showPasskeys() {
  const { items } = await signedIn().get("/v1/passkeys");
  const live = items.filter((/** @type {any} */ passkey) => passkey.revoked_at === null);
  byId("passkeys").replaceChildren(
    ...live.map((/** @type {any} */ passkey) => element("li", {}, said(passkey.label), " ",
      element("code", {}, said(passkey.thumbprint.slice(0, 12))))),
  );
  // A further one needs the word of the first (docs/approving.md 1), which this page does not give.
  byId("register").hidden = live.length > 0;
}

/** @param {string} run */
async function watch(run) {
  stream?.stop();
  const { url, token } = signedIn();
  const timeline = new Timeline(signedIn(), byId("story"), byId("log"));
  byId("watching").hidden = false;
  byId("run-id").textContent = run;
  const following = new RunStream({
    url,
    run,
    token: () => signedIn().token || token,
    onConnection: (connection, detail) => showConnection(following, connection, detail),
  });
  stream = following;
  byId("watching").scrollIntoView();
  // The stream has told already that it was cut at a gap; it comes back after the log is read.
  for await (const event of withoutGaps(following, () => {})) {
    showStatus(statusAfter(event.type));
    await timeline.add(event);
  }
}

/**
 * A lost socket is told as that. How the run fares is asked of the run.
 * @param {RunStream} following @param {string} connection @param {string} detail
 */
function showConnection(following, connection, detail) {
  if (following !== stream) return;
  const pill = byId("connection");
  pill.textContent = connection === "lost" ? LOST : connection;
  pill.dataset.state = connection;
  pill.title = detail;
  if (connection === "lost") following.run().then((run) => showStatus(run.status), () => {});
}

/** @param {string | null} status */
function showStatus(status) {
  if (status === null) return;
  byId("status").textContent = status;
  byId("status").dataset.state = status;
}

/** @param {string} type */
function statusAfter(type) {
  if (type === "run.created") return "queued";
  if (type === "run.started" || type === "run.resumed") return "running";
  return type.startsWith("run.") && type !== "run.checkpointed" ? type.slice(4) : null;
}

function signedIn() {
  if (service === null) throw new Error("sign in first");
  return service;
}

/**
 * What a person starts, once at a time; what fails is told beside it.
 * @param {string} id @param {string} kind @param {() => Promise<void>} act
 */
function on(id, kind, act) {
  const node = byId(id);
  const button = node.querySelector("button") ?? node;
  node.addEventListener(kind, async (/** @type {Event} */ event) => {
    event.preventDefault();
    complain(node, null);
    button.disabled = true;
    try {
      await act();
    } catch (error) {
      complain(node, error);
    }
    button.disabled = false;
  });
}

/** @param {HTMLElement} node @param {unknown} error */
function complain(node, error) {
  const place = node.closest("section")?.querySelector(".complaint");
  place?.replaceChildren(error === null ? "" : said(String(error)));
}

// Whoever frames this page could have you click on what you do not see.
if (window.top === window.self) document.body.hidden = false;
