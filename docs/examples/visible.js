// Text in which nothing hides. What cannot be seen, what turns a line around, and letters that pass
// for others become escapes, marked so that nobody takes them for characters of the text.
//
// The digest of a text tells two look-alikes apart; this is for the eyes that come before it.

/** @typedef {{ text: string, escape: boolean, of: string }} Part  `of`: what it stands for */

// Controls, formats (direction marks, zero-width characters), private and unassigned characters,
// half characters, and every space that is not the space.
const HIDING = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}]/u;
const MARK = /\p{M}/u;
const WORDS = /[\p{L}\p{M}\p{N}]+/gu;
const LATIN = /\p{Script=Latin}/u;
// Alphabets with letters that look like Latin ones; in a Latin word they are not what they seem.
const ALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}]/u;

/**
 * The text in parts; those that are escapes stand for one character each.
 * @param {string} text @param {string} [plain] characters that are shown as they are, such as "\n"
 * @returns {Part[]}
 */
export function visible(text, plain = "") {
  const disguised = disguises(text);
  /** @type {Part[]} */
  const parts = [];
  let before = "";
  let at = 0;
  for (const character of text) {
    const hides =
      character !== " " && !plain.includes(character) && HIDING.test(character)
      || disguised.has(at)
      || (MARK.test(character) && merges(before, character));
    const last = parts.at(-1);
    if (hides) parts.push({ text: escaped(character), escape: true, of: character });
    else if (last && !last.escape) last.text += character;
    else parts.push({ text: character, escape: false, of: "" });
    before = character;
    at += character.length;
  }
  return parts;
}

/**
 * JSON for a field that can be edited, where nothing can be marked: the same value, with what hides
 * spelled as JSON spells it.
 * @param {unknown} value
 */
export function spelled(value) {
  const parts = visible(JSON.stringify(value, null, 2), "\n");
  return parts.map((part) => (part.escape ? units(part.of) : part.text)).join("");
}

/** @param {string} character */
function units(character) {
  const codes = character.split("").map((unit) => unit.charCodeAt(0));
  return codes.map((code) => `\\u${code.toString(16).padStart(4, "0")}`).join("");
}

/** Where letters of another alphabet stand in a Latin word. @param {string} text */
function disguises(text) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const word of text.matchAll(WORDS)) {
    if (!LATIN.test(word[0])) continue;
    let at = word.index;
    for (const letter of word[0]) {
      if (ALIKE.test(letter)) found.add(at);
      at += letter.length;
    }
  }
  return found;
}

/** Whether a mark makes one letter with what it follows. @param {string} a @param {string} b */
function merges(a, b) {
  return (a + b).normalize("NFC") !== a + b;
}

/** @param {string} character */
function escaped(character) {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff
    ? `\\U${code.toString(16).padStart(8, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`;
}
