// @ts-check
/**
 * Prompts on their way to the host, per session in the order in which they were written. Each is sent until the host has answered,
 * with one idempotency key, so that it counts once. They are kept in the browser until then, each under a name of its own: other tabs
 * have prompts too, and a prompt belongs to its tab until that is closed.
 */
import * as api from "./api.js";
import { readDraft, writeDraft } from "./drafts.js";
import { hostAnswers, onAnswersChange } from "./host_watch.js";
import * as storage from "./storage.js";

/** @import { PromptArgs, Upload } from "contract" */

const PREFIX = "outbox:";
/** The pause before a prompt is sent again if the way to the host failed. */
const RETRY_PAUSE_MS = 2000;
/** A prompt that a page finds after so long is put back into the field: its time may be over. */
const MAX_AGE_MS = 600_000;

/** The lock that this tab holds until it is closed. */
const OWN_LOCK = `${PREFIX}${api.randomText()}`;

/**
 * A file that a prompt may name.
 * @typedef {{ path: string, uri: string } | { path: string, absolute: string, uri?: undefined }} NamedFile
 */

/**
 * `body` is null until the images have been uploaded. Of the files those with an address of their own (`uri`) go along in any case,
 * others if the text names them.
 * @typedef {{ session: string, key: string, text: string, at: number, body: PromptArgs | null,
 *   images: { blob: Blob, name: string, url: string }[], files: NamedFile[], isTakenBack?: boolean }} OutgoingPrompt
 */

/** @type {Map<string, OutgoingPrompt[]>} */
const waiting = new Map();
/** @type {Set<string>} the sessions whose first prompt is being sent */
const busy = new Set();
/** The fields that take prompts back, by session. @type {Map<string, (prompt: OutgoingPrompt) => void>} */
const fields = new Map();
/** The last prompt that was taken back, by session: sent again with the same text it is the same prompt. @type {Map<string, OutgoingPrompt>} */
const returned = new Map();
/** @type {{ changed: () => void, say: (text: string) => void }} */
const views = { changed: () => {}, say: () => {} };

/** @param {typeof views} actual */
export function connectOutbox(actual) {
  Object.assign(views, actual);
}

/** Has the field of a session take back what is not sent. @param {string} session @param {(prompt: OutgoingPrompt) => void} take */
export function takeReturns(session, take) {
  fields.set(session, take);
  return () => void fields.delete(session);
}

/** Returns the prompts of a session that the host has not taken yet. @param {string} session @returns {readonly OutgoingPrompt[]} */
export const listOutgoing = (session) => waiting.get(session) ?? [];

/** Sends a prompt when those before it are sent. @param {Pick<OutgoingPrompt, "session" | "text" | "images" | "files">} prompt */
export function sendLater(prompt) {
  const before = returned.get(prompt.session);
  const isSame = before && before.text === prompt.text && !prompt.images.length;
  const body = prompt.images.length ? null : { prompt: buildPrompt(prompt.text, [], prompt.files), queue: true };
  returned.delete(prompt.session);
  add(
    isSame && before.body
      ? { ...before, isTakenBack: false }
      : { ...prompt, key: api.randomText(), at: Date.now(), body },
  );
}

/** @param {OutgoingPrompt} prompt */
function add(prompt) {
  waiting.set(prompt.session, [...listOutgoing(prompt.session), prompt]);
  keep(prompt);
  sendFirst(prompt.session);
}

// Another tab has removed a prompt: the host has it, or its person has taken it back there.
storage.onChangeElsewhere((name, value) => {
  if (value !== null) return;
  for (const prompt of [...waiting.values()].flat()) {
    if (nameOf(prompt) !== name) continue;
    prompt.isTakenBack = true;
    remove(prompt);
  }
});

/** Takes up the prompts of tabs that have been closed, or that are just being closed. */
export function resumeOutbox() {
  for (const owner of new Set(listForeign().map((kept) => kept.owner))) {
    // Over plain HTTP browsers have no locks.
    if (navigator.locks) navigator.locks.request(owner, () => takeOver(owner, true));
    else takeOver(owner, false);
  }
}

/** @param {string} owner the lock of a tab @param {boolean} isClosed true if that tab is known to be closed */
function takeOver(owner, isClosed) {
  const left = listForeign().filter((kept) => kept.owner === owner);
  for (const { session, key, text, at, body } of left.sort((one, other) => one.at - other.at)) {
    // Images are not kept in the browser.
    const prompt = { session, key, text, at, body, images: [], files: [] };
    const isOld = Date.now() - at > MAX_AGE_MS;
    if (body && !isOld) add(prompt);
    // The other tab may be uploading the images.
    else if (isClosed || isOld) {
      storage.save(nameOf(prompt), null);
      giveBack(prompt);
    }
  }
}

/** Returns the prompts that are kept and that this tab has not. */
function listForeign() {
  const kept = storage.listNames(PREFIX).map((name) => parseKept(storage.load(name)));
  return kept.flatMap((one) => (one && !listOutgoing(one.session).some((own) => own.key === one.key) ? [one] : []));
}

/**
 * @param {string | null} text
 * @returns {{ owner: string, session: string, key: string, text: string, at: number, body: PromptArgs | null } | null}
 */
function parseKept(text) {
  try {
    const kept = JSON.parse(text ?? "null");
    return kept?.owner && kept.session && kept.key ? kept : null;
  } catch {
    return null;
  }
}

/** Takes a prompt back into its field. @param {OutgoingPrompt} prompt */
export function takeBack(prompt) {
  prompt.isTakenBack = true;
  remove(prompt);
  giveBack(prompt);
}

/** @param {OutgoingPrompt} prompt */
function giveBack(prompt) {
  returned.set(prompt.session, prompt);
  const field = fields.get(prompt.session);
  if (field) field(prompt);
  else writeDraft(prompt.session, joinTexts(prompt.text, readDraft(prompt.session)));
}

/** Puts a text that comes back before what has been typed since. @param {string} text @param {string} typed */
export const joinTexts = (text, typed) => [text, typed].filter((one) => one.trim()).join("\n\n");

/** Takes all back: with another login the host would not know them as the same prompts. */
export function takeAllBack() {
  for (const prompt of [...waiting.values()].flat()) takeBack(prompt);
}

/** Forgets all, when the login has ended. */
export function clearOutbox() {
  for (const prompt of [...waiting.values()].flat()) prompt.isTakenBack = true;
  waiting.clear();
  returned.clear();
}

/** @param {OutgoingPrompt} prompt */
function remove(prompt) {
  const rest = listOutgoing(prompt.session).filter((one) => one !== prompt);
  if (rest.length) waiting.set(prompt.session, rest);
  else waiting.delete(prompt.session);
  storage.save(nameOf(prompt), null);
  views.changed();
}

/** Returns the name under which a prompt is kept. @param {{ session: string, key: string }} prompt */
const nameOf = (prompt) => `${PREFIX}${prompt.session}:${prompt.key}`;

/** @param {OutgoingPrompt} prompt */
function keep({ session, key, text, at, body }) {
  storage.save(nameOf({ session, key }), JSON.stringify({ owner: OWN_LOCK, session, key, text, at, body }));
  views.changed();
}

/** Sends the first prompt of a session, then the next ones. @param {string} session */
async function sendFirst(session) {
  if (busy.has(session)) return;
  busy.add(session);
  for (let prompt = listOutgoing(session)[0]; prompt; prompt = listOutgoing(session)[0]) {
    try {
      await sendOnce(prompt);
      if (prompt.isTakenBack) continue;
      remove(prompt);
      prompt.images.forEach((image) => URL.revokeObjectURL(image.url));
    } catch (caught) {
      if (prompt.isTakenBack) continue;
      const error = /** @type {api.CallError} */ (caught);
      if (isOnTheWay(error)) await untilHostAnswers();
      else {
        takeBack(prompt);
        views.say(error.message);
      }
    }
  }
  busy.delete(session);
}

/** @param {OutgoingPrompt} prompt */
async function sendOnce(prompt) {
  if (!prompt.body) {
    /** @type {Upload[]} */
    const uploads = [];
    for (const image of prompt.images) {
      const path = /** @type {const} */ (`sessions/${prompt.session}/uploads${api.toQuery({ name: image.name })}`);
      uploads.push(
        await api.call("POST", path, {
          raw: image.blob,
          headers: { "Content-Type": image.blob.type || "application/octet-stream" },
        }),
      );
    }
    prompt.body = { prompt: buildPrompt(prompt.text, uploads, prompt.files), queue: true };
    if (!prompt.isTakenBack) keep(prompt);
  }
  if (!prompt.isTakenBack)
    await api.post(`sessions/${prompt.session}/prompt`, prompt.body, { "Idempotency-Key": prompt.key });
}

/** True for a failure of the way to the host: it may have taken the prompt, or not. @param {api.CallError} error */
const isOnTheWay = (error) => error.status === 0 || (error.status >= 500 && error.code === "unknown");

/** Waits for a pause, and until the host answers. */
async function untilHostAnswers() {
  await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE_MS));
  while (!hostAnswers()) await new Promise((resolve) => answerWaiters.push(() => resolve(undefined)));
}

/** @type {(() => void)[]} */
const answerWaiters = [];
onAnswersChange((answers) => {
  if (answers) answerWaiters.splice(0).forEach((resume) => resume());
});

/**
 * Returns the content of a prompt.
 * @param {string} text @param {{ id: string }[]} uploads @param {NamedFile[]} files
 */
export function buildPrompt(text, uploads, files) {
  const named = files.filter((file) => file.uri || text.includes(`@${file.path}`));
  if (!uploads.length && !named.length) return text;
  return [
    ...(text.trim() ? [{ type: "text", text }] : []),
    ...named.map((file) => ({
      type: "resource_link",
      uri: file.uri ?? `file://${encodeURI(file.absolute)}`,
      name: file.path,
    })),
    ...uploads.map((upload) => ({ type: "upload", id: upload.id })),
  ];
}

navigator.locks?.request(OWN_LOCK, () => new Promise(() => {}));
