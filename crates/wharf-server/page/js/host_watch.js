// @ts-check
/**
 * Whether the host answers (rule 19.8). It does not if nothing at all has come from it for 5 seconds after something was sent, or for
 * 25 seconds while a stream or polls go on, or once the browser is offline. Anything that comes from it ends that.
 */
import { routeUrl } from "./base.js";

/** A live host answers within this time, or its answer to a probe comes first. */
const ANSWER_MS = 5000;
/** A request may take longer than this. Whether the host is alive is asked then. */
const PROBE_AFTER_MS = 2000;
/** A stream has a beat every ten seconds. */
const SILENCE_MS = 25_000;
/** The pause between two questions to a host that does not answer. */
const PROBE_PAUSE_MS = 2000;

const watch = {
  answers: true,
  isFollowing: false,
  /** Counts what came from the host. */
  heard: 0,
  heardAt: 0,
  isProbing: false,
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  silence: undefined,
};
/** @type {Set<(answers: boolean) => void>} */
const listeners = new Set();

/** Calls back when the host stops answering, and when it answers again. @param {(answers: boolean) => void} listener */
export function onAnswersChange(listener) {
  listeners.add(listener);
}

export const hostAnswers = () => watch.answers;

/** Notes that something came from the host. */
export function noteHeard() {
  watch.heard += 1;
  watch.heardAt = performance.now();
  setAnswers(true);
  waitForSilence();
}

/**
 * Notes that a request is under way whose answer begins soon. While there is none, the host has to give other signs of life. Returns
 * what notes its end.
 */
export function noteSent() {
  const sentAt = performance.now();
  /** What had come when the host was asked. */
  let probedAfter = -1;
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  const look = () => {
    const silence = performance.now() - Math.max(sentAt, watch.heardAt);
    if (silence >= ANSWER_MS) setAnswers(false);
    else if (silence >= PROBE_AFTER_MS && probedAfter !== watch.heard) {
      probedAfter = watch.heard;
      probeHost();
    }
    const next = silence < PROBE_AFTER_MS ? PROBE_AFTER_MS : silence < ANSWER_MS ? ANSWER_MS : silence + ANSWER_MS;
    timer = setTimeout(look, next - silence);
  };
  timer = setTimeout(look, PROBE_AFTER_MS);
  return () => clearTimeout(timer);
}

/** Says whether a stream or polls go on, so that silence means something. @param {boolean} isFollowing */
export function setFollowing(isFollowing) {
  // Another session that is followed is no sign of life.
  if (isFollowing === watch.isFollowing) return;
  watch.isFollowing = isFollowing;
  waitForSilence();
}

function waitForSilence() {
  clearTimeout(watch.silence);
  // A tab that is not seen polls as seldom as the browser lets it.
  if (watch.isFollowing && document.visibilityState === "visible")
    watch.silence = setTimeout(() => setAnswers(false), SILENCE_MS);
}

/** @param {boolean} answers */
function setAnswers(answers) {
  if (answers === watch.answers) return;
  watch.answers = answers;
  listeners.forEach((listener) => listener(answers));
  if (!answers) keepProbing();
}

/** Asks the host whether it is there. Returns false if it does not answer in time. */
export async function probeHost() {
  try {
    await fetch(routeUrl("healthz"), {
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    noteHeard();
    return true;
  } catch {
    return false;
  }
}

/** Asks the host of a tab that is seen again. What came before says nothing of it. */
async function checkHost() {
  const before = watch.heard;
  if (!(await probeHost()) && watch.heard === before) setAnswers(false);
}

/** Asks a host that does not answer until it does. */
async function keepProbing() {
  if (watch.isProbing) return;
  watch.isProbing = true;
  while (!watch.answers) {
    await new Promise((resolve) => setTimeout(resolve, PROBE_PAUSE_MS));
    if (!watch.answers) await probeHost();
  }
  watch.isProbing = false;
}

document.addEventListener("visibilitychange", () => {
  waitForSilence();
  if (watch.isFollowing && document.visibilityState === "visible") checkHost();
});
addEventListener("offline", () => setAnswers(false));
addEventListener("online", () => {
  if (!watch.answers) probeHost();
});
