// A picture in an answer. Shown are files that the run wrote and pictures that are part of the text; the server leaves those of a model out of checked
// answers. Any other address is a link: opening a picture reveals to its server who reads the answer.
import { html } from "../core/html.js";
import { t } from "../core/words.js";
import { webAddress } from "../model/text.js";
import { Icon } from "./icons.js";
import { useState } from "preact/hooks";

const PICTURE = /\.(png|jpe?g|gif|webp)$/i;

export const isPicture = (path) => PICTURE.test(path);

export function Picture({ alt, address, thread, files = [] }) {
  const [isLost, setLost] = useState(false);
  const source = isLost ? null : shownFrom(address, thread, files);
  if (source) return html`<img class="picture" src=${source} alt=${alt} loading="lazy" onError=${() => setLost(true)} />`;
  const href = webAddress(address);
  const name = alt || t("Image");
  if (!href) return html`<span class="picture-link"><${Icon} name="image" size="15" />${name}</span>`;
  return html`<a class="picture-link" href=${href} target="_blank" rel="noopener noreferrer"><${Icon} name="image" size="15" />${name} <small>${t("image at {host}", { host: new URL(href).host })}</small></a>`;
}

function shownFrom(address, thread, files) {
  if (address.startsWith("data:image/")) return address;
  const path = address.replace(/^(\.\/|sandbox:\/*|file:\/*)/, "");
  const file = thread && isPicture(path) ? files.find((one) => one.path === path || one.path.endsWith(`/${path}`)) : null;
  return file ? `/api/threads/${encodeURIComponent(thread)}/files/${file.path.split("/").map(encodeURIComponent).join("/")}` : null;
}
