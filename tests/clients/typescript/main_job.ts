// The main job as a front end does it: a key, a run, the card, the signature, the events.

import { client } from './client/client.gen.js';
import {
  approveApproval,
  createRun,
  getRun,
  listRunEvents,
  prepareDecision,
  putAgent,
  registerKey,
} from './client/sdk.gen.js';
import type { Event, PublicJwk } from './client/types.gen.js';

declare const process: { argv: string[] };

const [, , baseUrl = '', token = ''] = process.argv;
client.setConfig({ baseUrl, auth: token });

const ES256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const key = await crypto.subtle.generateKey(ES256, false, ['sign', 'verify']);

function base64url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function encoded(text: string): string {
  return base64url(new TextEncoder().encode(text));
}

async function sign(payload: string, kid: string, typ: string): Promise<string> {
  const signed = `${encoded(JSON.stringify({ alg: 'ES256', kid, typ }))}.${encoded(payload)}`;
  const bytes = new TextEncoder().encode(signed);
  const signature = await crypto.subtle.sign(ES256, key.privateKey, bytes);
  return `${signed}.${base64url(new Uint8Array(signature))}`;
}

async function register(): Promise<string> {
  const { crv, kty, x, y } = (await crypto.subtle.exportKey('jwk', key.publicKey)) as PublicJwk;
  // Members in the order of their names and no white space: for these texts that is RFC 8785.
  const digest = await crypto.subtle.digest(
    'SHA-256',
    new TextEncoder().encode(JSON.stringify({ crv, kty, x, y })),
  );
  const thumbprint = base64url(new Uint8Array(digest));
  const iat = Math.floor(Date.now() / 1000);
  const statement = { exp: iat + 300, iat, sub: 'bob', tenant: 'acme', thumbprint };
  const canonical = JSON.stringify({ ...statement, typ: 'turngate.key-proof' });
  const proof_jws = await sign(canonical, thumbprint, 'turngate-key-proof+jws');
  const body = { public_jwk: { crv, kty, x, y }, label: 'browser', proof_jws };
  return (await registerKey({ body, throwOnError: true })).data.id;
}

async function answer(run_id: string): Promise<string | undefined> {
  let last: Event | undefined;
  for (;;) {
    const query = { after: last?.seq ?? 0, wait: 30 };
    const page = await listRunEvents({ path: { run_id }, query, throwOnError: true });
    last = page.data?.items.at(-1);
    if (last === undefined) return undefined;
    // The tag narrows the union: `data.answer` exists on this event alone.
    if (last.type === 'run.completed') return last.data.answer.answer;
  }
}

const kid = await register();
await putAgent({
  path: { name: 'bobs-clock' },
  body: { model: 'script', tools: ['clock_now'], approval: { clock_now: 'ask' } },
  throwOnError: true,
});
const run = await createRun({
  headers: { Prefer: 'wait=30' },
  body: { agent: 'bobs-clock', input: 'call clock_now {}\n---\nsay told' },
  throwOnError: true,
});
const asked = run.data.pause?.approvals ?? [];
const path = { approval_id: asked[0]?.id ?? '' };
const unsigned = await prepareDecision({ path, body: { decision: 'approve' }, throwOnError: true });
const decision_jws = await sign(unsigned.data.canonical, kid, 'turngate-decision+jws');
const decided = await approveApproval({ path, body: { decision_jws }, throwOnError: true });
const told = await answer(run.data.id);
const after = await getRun({ path: { run_id: run.data.id }, throwOnError: true });
const missing = await getRun({ path: { run_id: 'run_0' } });

console.log(
  JSON.stringify({
    paused: asked.map((approval) => approval.tool),
    persisted: decided.data.persisted,
    status: after.data.status,
    answer: told,
    missing: missing.error?.code,
  }),
);
