/// The merge patch (RFC 7396) that makes `after` of `before`.
export function patchOf(before, after) {
  const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isMap(before) || !isMap(after)) return after;
  const patch = {};
  for (const name of Object.keys(before)) if (!(name in after)) patch[name] = null;
  for (const [name, value] of Object.entries(after)) {
    if (JSON.stringify(before[name]) !== JSON.stringify(value)) patch[name] = name in before ? patchOf(before[name], value) : value;
  }
  return patch;
}
