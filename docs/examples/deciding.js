// What may be signed: the text that the service proposes is compared with what was shown. The
// service is not the one who decides what you sign (docs/approving.md 3).

/** @typedef {{ [member: string]: any }} Json */

const BOUND = ["run_id", "conversation_id", "turn_id", "request_id", "tool",
  "tool_definition_digest", "args_sha256"];

/**
 * What a person asked for: the body of `passkey-options`.
 * @typedef {{ decision: "approve" | "deny", override_args?: Json, note?: string, reason?: string }}
 *   Wanted
 */

/**
 * The payload within a text, if that is the one asked for over the approval shown. Throws Error.
 * @param {Json} approval @param {Wanted} wanted @param {string} text
 * @returns {Promise<Json>}
 */
export async function checked(approval, wanted, text) {
  if ((await digest(approval.args_canonical)) !== approval.args_sha256) {
    throw new Error("the digest is not that of the arguments that were shown");
  }
  const payload = JSON.parse(text);
  if (canonical(payload) !== text) {
    throw new Error("the text is not canonical: somebody may read it otherwise");
  }
  for (const name of BOUND) {
    if (payload[name] !== approval[name]) throw new Error(`${name} is not what was shown`);
  }
  const override = wanted.override_args === undefined ? null : canonical(wanted.override_args);
  const asked = {
    typ: "turngate.decision",
    approval_id: approval.id,
    decision: wanted.decision,
    override_args: override,
    note: wanted.note ?? null,
    reason: wanted.reason ?? null,
    scope: "once",
    sandbox_mode: null,
  };
  for (const [name, value] of Object.entries(asked)) {
    if (payload[name] !== value) throw new Error(`${name} is not what was asked for`);
  }
  const covered = wanted.decision === "approve" ? approval.missing_capabilities : [];
  if (canonical(payload.covered_capabilities) !== canonical([...covered].sort())) {
    throw new Error("covered_capabilities are not those that were shown");
  }
  return payload;
}

/**
 * The passkey's word over a text, as `approve` and `deny` take it. Throws Error.
 * @param {string} text @param {Json} options
 */
export async function signed(text, options) {
  const bytes = new Uint8Array(await sha256(text));
  if (options.challenge !== base64url(bytes)) {
    throw new Error("the challenge is not the digest of the text that was shown");
  }
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(/** @type {any} */ (options));
  const credential = await navigator.credentials.get({ publicKey });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("there was no passkey");
  return { canonical: text, assertion: credential.toJSON() };
}

/**
 * A new passkey, as `POST /v1/passkeys` takes it. Throws Error.
 * @param {Json} options
 */
export async function created(options) {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(/** @type {any} */ (options));
  const credential = await navigator.credentials.create({ publicKey });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("no passkey was made");
  return credential.toJSON();
}

/** The lower-case hex SHA-256 of a text. @param {string} text */
export async function digest(text) {
  const bytes = new Uint8Array(await sha256(text));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * RFC 8785: JSON as JavaScript writes it, with members in the order of their UTF-16 code units.
 * @param {any} value @returns {string}
 */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** @param {string} text */
function sha256(text) {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
