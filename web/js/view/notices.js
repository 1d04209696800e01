// Notices, the state of the connection, and the dialog for a token.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { get, needsToken, post } from "../core/api.js";
import { useCell } from "../core/cell.js";
import { line, tryNow } from "../core/stream.js";
import { dismiss, notices } from "../data/notices.js";
import { loadStatus } from "../data/status.js";
import { refresh } from "../data/threads.js";
import { Icon } from "./icons.js";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export function Notices() {
  const all = useCell(notices);
  return html`<div class="notices" role="region" aria-label=${t("Notices")} aria-live="polite">
    ${all.map((one) => html`<div key=${one.id} class=${`notice notice-${one.kind}`} role=${one.kind === "bad" ? "alert" : undefined}><p>${one.text}</p><button type="button" class="button-icon" aria-label=${t("Dismiss")} onClick=${() => dismiss(one.id)}><${Icon} name="close" size="16" /></button></div>`)}
  </div>`;
}

export function Line() {
  const now = useCell(line);
  const wasLost = useRef(false);
  const [isBack, setBack] = useState(false);
  useEffect(() => {
    if (wasLost.current && !now.isLost) {
      setBack(true);
      const timer = setTimeout(() => setBack(false), 3_000);
      wasLost.current = false;
      return () => clearTimeout(timer);
    }
    wasLost.current = now.isLost;
    return undefined;
  }, [now.isLost]);
  return html`<div class="line" role="status" aria-live="assertive">
    ${now.isLost && html`<p class="line-lost"><${Icon} name="warn" size="16" />${t("The connection to the server is lost. Runs continue on the server; this page reconnects automatically.")} <button type="button" class="link" onClick=${tryNow}>${t("Try now")}</button></p>`}
    ${isBack && !now.isLost && html`<p class="line-back"><${Icon} name="check" size="16" />${t("Connected again.")}</p>`}
  </div>`;
}

export function Token() {
  const isNeeded = useCell(needsToken);
  const dialog = useRef(null);
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState("");
  const [provider, setProvider] = useState(null);
  useEffect(() => {
    // Without an answer the token is still a way in.
    if (isNeeded) get("/api/session").then((ways) => setProvider(ways?.provider ?? null), () => setProvider(null));
  }, [isNeeded]);
  useLayoutEffect(() => {
    if (isNeeded && !dialog.current.open) dialog.current.showModal();
    if (!isNeeded && dialog.current.open) dialog.current.close();
  }, [isNeeded]);
  const enter = async (event) => {
    event.preventDefault();
    try {
      await post("/api/session", { token: token.trim() });
      setToken("");
      setWrong("");
      needsToken.value = false;
      loadStatus();
      refresh();
    } catch (trouble) {
      setWrong(trouble.status === 401 ? t("This token is not valid on this server.") : trouble.message);
    }
  };
  return html`<dialog class="token" ref=${dialog} aria-labelledby="token-title" onCancel=${(event) => event.preventDefault()}>
    <form onSubmit=${enter}><h2 id="token-title"><${Icon} name="key" />${t("Sign in")}</h2>
      ${provider && html`<a class="button button-primary" href=${`${provider.start}?to=${encodeURIComponent(`/${location.hash}`)}`}>${t("Sign in with {provider}", { provider: provider.title })}</a><p class="quiet">${t("Or with a token:")}</p>`}
      <p>${t("This server requires an access token. Create one on the server with")} <code>baton tokens add NAME</code>.</p>
      <label><span>${t("Token")}</span><input type="password" autocomplete="current-password" required value=${token} onInput=${(event) => setToken(event.target.value)} /></label>
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      <button class=${provider ? "button" : "button button-primary"}>${t("Sign in")}</button></form>
  </dialog>`;
}
