// Small choices that stay in this browser: theme, flow, model, limits. A browser that keeps nothing forgets them.
export function kept(name, otherwise) {
  try {
    const text = localStorage.getItem(`baton.${name}`);
    return text === null ? otherwise : JSON.parse(text);
  } catch (_) {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(`baton.${name}`, JSON.stringify(value));
  } catch (_) {
    // Full or forbidden: the choice holds until the page is closed.
  }
}
