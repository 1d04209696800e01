// LaTeX formulas as MathML, which browsers draw by themselves: the part of LaTeX's mathematics that answers use.
//
//   mathOf(tex) -> {tag, attrs, inner: [node | text]} | null      null: a command that is not known; the page then shows the source
import { ACCENTS, FUNCTIONS, LARGE, LETTERS, OPERATORS, SPACES, VARIANTS } from "./math_symbols.js";

const DEPTH_MAX = 40;
const CHARS_MAX = 4_000;

const node = (tag, inner, attrs = {}) => ({ tag, attrs, inner: [].concat(inner) });
const row = (inner) => (inner.length === 1 ? inner[0] : node("mrow", inner));

export function mathOf(tex) {
  if (tex.length > CHARS_MAX) return null;
  try {
    const reader = { tokens: tokensOf(tex), at: 0, depth: 0 };
    const inner = list(reader, () => false);
    return reader.at < reader.tokens.length ? null : row(inner);
  } catch (trouble) {
    if (trouble instanceof Unknown) return null;
    throw trouble;
  }
}

class Unknown extends Error {}

/// Words between braces are one token, because their spaces count.
const tokensOf = (tex) => tex.match(/\\text(?:bf|it|rm)?\{[^{}]*\}|\\[a-zA-Z]+\*?|\\.|[{}^_&~]|\d+(?:\.\d+)?|[^\s\\]/g) ?? [];

const peek = (reader) => reader.tokens[reader.at];
const next = (reader) => reader.tokens[reader.at++];

function expect(reader, token) {
  if (next(reader) !== token) throw new Unknown(token);
}

/// Nodes until `isEnd(token)`, which is not read.
function list(reader, isEnd) {
  reader.depth += 1;
  if (reader.depth > DEPTH_MAX) throw new Unknown("depth");
  const all = [];
  while (reader.at < reader.tokens.length && !isEnd(peek(reader)) && peek(reader) !== "}") all.push(scripted(reader));
  reader.depth -= 1;
  return all;
}

/// A node with what stands above and below it.
function scripted(reader) {
  const isBig = (LARGE[peek(reader)] !== undefined && !peek(reader).endsWith("int")) || /^\\(lim|max|min|sup|inf|limsup|liminf)$/.test(peek(reader));
  const base = ["^", "_"].includes(peek(reader)) ? node("mrow", []) : atom(reader);
  let [sub, sup] = [null, null];
  while (["^", "_", "'", "\\limits", "\\nolimits"].includes(peek(reader))) {
    const mark = next(reader);
    if (mark === "_" && sub === null) sub = argument(reader);
    else if (mark === "^" && sup === null) sup = argument(reader);
    else if (mark === "'") sup = row([...(sup ? [sup] : []), node("mo", "′")]);
    else if (mark === "^" || mark === "_") throw new Unknown(mark);
  }
  if (sub && sup) return node(isBig ? "munderover" : "msubsup", [base, sub, sup]);
  if (sub) return node(isBig ? "munder" : "msub", [base, sub]);
  return sup ? node(isBig ? "mover" : "msup", [base, sup]) : base;
}

/// One symbol, or what is between braces.
function argument(reader) {
  if (/^\d\d/.test(peek(reader) ?? "")) {
    // Without braces an argument is one digit.
    const digits = next(reader);
    reader.tokens.splice(reader.at, 0, digits.slice(1));
    return node("mn", digits[0]);
  }
  if (peek(reader) !== "{") return atom(reader);
  next(reader);
  const inner = list(reader, () => false);
  expect(reader, "}");
  return row(inner);
}

/// The words between braces, as they are.
function plain(reader) {
  expect(reader, "{");
  let text = "";
  for (let depth = 0; ; ) {
    const token = next(reader);
    if (token === undefined) throw new Unknown("}");
    if (token === "{") depth += 1;
    if (token === "}" && depth-- === 0) return text;
    text += token === "~" || token === "\\ " ? " " : token.replace(/^\\(?=[^a-zA-Z])/, "");
  }
}

function atom(reader) {
  const token = next(reader);
  if (token === undefined || token === "&" || token === "}") throw new Unknown(token);
  if (token === "{") {
    reader.at -= 1;
    return argument(reader);
  }
  if (token === "~") return node("mspace", [], { width: "0.333em" });
  if (/^\d/.test(token)) return node("mn", token);
  if (/^[a-zA-Z\u0370-\u03ff]$/.test(token)) return node("mi", token);
  if (!token.startsWith("\\")) return node("mo", token === "-" ? "−" : token === "*" ? "∗" : token);
  if (token.startsWith("\\text")) return node("mtext", token.slice(token.indexOf("{") + 1, -1).replaceAll(" ", "\u00a0"));
  if (token in COMMANDS) return COMMANDS[token](reader);
  if (token in LETTERS) return node("mi", LETTERS[token]);
  if (token in OPERATORS) return node("mo", OPERATORS[token]);
  if (token in LARGE) return node("mo", LARGE[token], { largeop: "true" });
  if (token in SPACES) return node("mspace", [], { width: SPACES[token] });
  if (token in ACCENTS) return node("mover", [argument(reader), node("mo", ACCENTS[token], { stretchy: /over|wide/.test(token) ? "true" : "false" })], { accent: "true" });
  if (token in VARIANTS) return node("mi", styled(plain(reader), VARIANTS[token]), { mathvariant: "normal" });
  if (FUNCTIONS.includes(token.slice(1))) return node("mi", token.slice(1));
  throw new Unknown(token);
}

/// Letters of another alphabet: `base` are the first capital, small letter and digit.
const styled = (text, [capital, small, digit, holes = {}]) =>
  [...text]
    .map((char) => {
      if (holes[char]) return holes[char];
      if (/[A-Z]/.test(char) && capital) return String.fromCodePoint(capital + char.charCodeAt(0) - 65);
      if (/[a-z]/.test(char) && small) return String.fromCodePoint(small + char.charCodeAt(0) - 97);
      return /\d/.test(char) && digit ? String.fromCodePoint(digit + Number(char)) : char;
    })
    .join("");

const fraction = (reader, attrs = {}) => node("mfrac", [argument(reader), argument(reader)], attrs);
const fence = (text) => node("mo", text === "." ? "" : text, { stretchy: "true", fence: "true" });
const DELIMITERS = { "\\{": "{", "\\}": "}", "\\langle": "⟨", "\\rangle": "⟩", "\\|": "‖", "\\lVert": "‖", "\\rVert": "‖", "\\lfloor": "⌊", "\\rfloor": "⌋", "\\lceil": "⌈", "\\rceil": "⌉", "\\vert": "|", "\\lbrace": "{", "\\rbrace": "}" };
const delimiter = (reader) => {
  const token = next(reader) ?? "";
  return DELIMITERS[token] ?? token;
};

const COMMANDS = {
  "\\frac": (reader) => fraction(reader),
  "\\dfrac": (reader) => node("mstyle", fraction(reader), { displaystyle: "true" }),
  "\\tfrac": (reader) => fraction(reader),
  "\\binom": (reader) => node("mrow", [fence("("), fraction(reader, { linethickness: "0" }), fence(")")]),
  "\\sqrt"(reader) {
    if (peek(reader) !== "[") return node("msqrt", argument(reader));
    next(reader);
    const degree = row(list(reader, (token) => token === "]"));
    expect(reader, "]");
    return node("mroot", [argument(reader), degree]);
  },
  "\\left"(reader) {
    const open = delimiter(reader);
    const inner = list(reader, (token) => token === "\\right");
    expect(reader, "\\right");
    return node("mrow", [fence(open), ...inner, fence(delimiter(reader))]);
  },
  "\\mathrm": (reader) => node("mi", plain(reader), { mathvariant: "normal" }),
  "\\operatorname": (reader) => node("mi", plain(reader), { mathvariant: "normal" }),
  "\\underline": (reader) => node("munder", [argument(reader), node("mo", "_", { stretchy: "true" })]),
  "\\underbrace": (reader) => node("munder", [argument(reader), node("mo", "⏟", { stretchy: "true" })]),
  "\\overbrace": (reader) => node("mover", [argument(reader), node("mo", "⏞", { stretchy: "true" })]),
  "\\overset": (reader) => reversed("mover", reader),
  "\\underset": (reader) => reversed("munder", reader),
  "\\pmod": (reader) => node("mrow", [node("mo", "("), node("mi", "mod"), argument(reader), node("mo", ")")]),
  "\\boxed": (reader) => node("mrow", argument(reader), { class: "math-boxed" }),
  "\\displaystyle": () => node("mrow", []),
  "\\begin": (reader) => environment(reader),
};
for (const size of ["\\big", "\\Big", "\\bigg", "\\Bigg", "\\bigl", "\\bigr", "\\Bigl", "\\Bigr", "\\middle"]) COMMANDS[size] = (reader) => node("mo", delimiter(reader));

function reversed(tag, reader) {
  const mark = argument(reader);
  return node(tag, [argument(reader), mark]);
}

const FENCES = { pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", "."] };
const TABLES = ["matrix", "smallmatrix", "aligned", "align", "align*", "array", "gathered", "split", "equation", "equation*", ...Object.keys(FENCES)];

function environment(reader) {
  const name = plain(reader);
  if (!TABLES.includes(name)) throw new Unknown(name);
  // How columns are aligned in an array is left to the browser.
  if (name === "array") plain(reader);
  const rows = [[]];
  const isEnd = (token) => token === "&" || token === "\\\\" || token === "\\end";
  for (;;) {
    rows.at(-1).push(node("mtd", list(reader, isEnd)));
    const token = next(reader);
    if (token === "\\\\") rows.push([]);
    else if (token === "\\end") break;
    else if (token !== "&") throw new Unknown(token);
  }
  if (plain(reader) !== name) throw new Unknown(name);
  const table = node("mtable", rows.map((cells) => node("mtr", cells)), /align|split|cases/.test(name) ? { class: "math-aligned" } : {});
  const [open, close] = FENCES[name] ?? ["", ""];
  return open ? node("mrow", [fence(open), table, fence(close)]) : table;
}
