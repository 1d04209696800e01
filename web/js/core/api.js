// The server's JSON API. Every failure becomes a `Trouble` with what happened and what to do.
import { cell } from "./cell.js";
import { serverText, t } from "./words.js";

/// Set when the server wants a token; the page then asks for one.
export const needsToken = cell(false);

export class Trouble extends Error {
  constructor(message, status = 0, kind = "network", program = null) {
    super(message);
    /// The command line that the server wants to be confirmed.
    this.program = program;
    this.status = status;
    this.kind = kind;
  }
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}, headers = {}) => call("POST", path, body, headers);
export const patch = (path, body) => call("PATCH", path, body);
export const put = (path, body) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);

/// Uploads a file unchanged. `onProgress` is called with the share that is sent, from 0 to 1.
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", path);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () => reject(unreachable());
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) return resolve(parsed(request.responseText));
      reject(trouble(request.status, parsed(request.responseText)));
    };
    request.send(file);
  });
}

async function call(method, path, body, headers = {}) {
  const options = { method, headers: { Accept: "application/json", ...headers } };
  if (method !== "GET") {
    // Without this type the server refuses: a form on somebody else's page cannot send it.
    options.headers["Content-Type"] = "application/json";
    options.body = body === undefined ? undefined : JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (_) {
    throw unreachable();
  }
  const text = await response.text();
  if (response.ok) return parsed(text);
  if (response.status === 401) needsToken.value = true;
  throw trouble(response.status, parsed(text));
}

function unreachable() {
  return new Trouble(t("The server cannot be reached. Is `baton serve` still running? This page retries automatically."));
}

function trouble(status, body) {
  const error = body?.error;
  if (error?.message) return new Trouble(serverText(error.message), status, error.kind, error.program);
  if (status === 401) return new Trouble(t("This server requires a token. Create one with `baton tokens add NAME`."), status, "refused");
  if (status === 429) return new Trouble(t("Too many requests at once. Wait a moment and try again."), status, "limit");
  return new Trouble(t("The server answered with status {status} and no message. Its log (BATON_LOG=debug) has the details.", { status }), status, "internal");
}

function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch (_) {
    return null;
  }
}
