// Notifications of the system when a run ends or asks while the page is not looked at. They are off until somebody switches them on.
import { cell } from "../core/cell.js";
import { keep, kept } from "../core/kept.js";
import { go, to } from "../core/route.js";
import { t } from "../core/words.js";
import { keepFeedWhile, onThread } from "./threads.js";

/// Shorter runs end while one still looks.
const RUN_MS_MIN = 5_000;

const canNotify = () => typeof Notification !== "undefined" && window.isSecureContext;

export const notifying = cell(kept("notify", false) === true && canNotify() && Notification.permission === "granted");

/// Resolves to why it cannot be switched on, or "".
export async function setNotifying(isOn) {
  if (isOn && !canNotify()) return t("This browser shows notifications only over HTTPS or on localhost.");
  if (isOn && (await Notification.requestPermission()) !== "granted") return t("The browser does not allow notifications for this page. Allow them in its settings for this site.");
  notifying.value = isOn;
  keep("notify", isOn);
  return "";
}

// A hidden page closes its streams; this one reports when a run ends.
keepFeedWhile(() => notifying.value);

/// When the runs that are seen to run began, by thread.
const since = new Map();
/// Threads whose question is known already.
const asked = new Set();
const texts = () => ({ done: t("The answer is ready."), failed: t("The run failed. There is no answer."), asking: t("Needs your answer") });

onThread((row) => {
  if (row.status === "running") {
    since.set(row.thread, since.get(row.thread) ?? row.updated_ms);
    asked.delete(row.thread);
    return;
  }
  const began_ms = since.get(row.thread);
  since.delete(row.thread);
  const isAsking = row.status === "asking" || row.status === "waiting";
  // A run may ask before it was ever reported as running.
  if (isAsking ? asked.has(row.thread) : began_ms === undefined) return;
  if (isAsking) asked.add(row.thread);
  const body = texts()[isAsking ? "asking" : row.status];
  const isLong = isAsking || Date.now() - began_ms >= RUN_MS_MIN;
  if (!notifying.value || !document.hidden || !body || !isLong) return;
  const shown = new Notification(row.title || "Baton", { body, icon: "/assets/icon-192.png", tag: row.thread });
  shown.onclick = () => {
    window.focus();
    go(to.thread(row.thread));
    shown.close();
  };
});
