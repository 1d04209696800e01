// Settings of a flow as the server lists them: how a value is typed in, and what of it is in a request.

const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/// What was typed, as the value that the server takes; `undefined` if nothing was.
export function valueOf(setting, typed) {
  if (typed === undefined || typed === null) return undefined;
  if (setting.kind === "boolean") return Boolean(typed);
  const text = String(typed).trim();
  if (text === "") return undefined;
  if (setting.kind === "list") return text.split(",").map((part) => part.trim()).filter((part) => part !== "");
  return setting.kind === "integer" || setting.kind === "number" ? Number(text) : text;
}

/// A value as it is typed in.
export const typedOf = (value) => (value === null || value === undefined ? "" : Array.isArray(value) ? value.join(", ") : String(value));

/// What differs from the defaults, by name; `typed` is what was typed for each.
export function changed(settings, typed) {
  const values = settings.map((setting) => [setting.name, valueOf(setting, typed?.[setting.name]), setting.default]);
  return Object.fromEntries(values.filter(([, value, usual]) => value !== undefined && !isSame(value, usual)).map(([name, value]) => [name, value]));
}

/// The flow's own settings, and those of each flow it may call: `[[flow or "", [[label, setting]…]]…]`.
export function grouped(settings) {
  const groups = new Map();
  for (const setting of settings) {
    const at = setting.name.indexOf(".");
    const group = at < 0 ? "" : setting.name.slice(0, at);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push([setting.name.slice(at + 1), setting]);
  }
  return [...groups];
}
