// The only way text gets into this page: as text. No markup is ever made of a string.

import { visible } from "./visible.js";

/**
 * An element. Strings among its children are our own words; what others wrote goes through `said`.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag @param {Record<string, any>} [members] @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, members = {}, ...children) {
  const made = Object.assign(document.createElement(tag), members);
  made.append(...children);
  return made;
}

/**
 * What a model, a tool or a person wrote, with nothing hidden in it.
 * @param {unknown} text @param {string} [plain]
 */
export function said(text, plain = "") {
  const all = document.createDocumentFragment();
  for (const part of visible(String(text), plain)) {
    all.append(
      part.escape
        ? element("span", { className: "escape", title: "one character, made visible" }, part.text)
        : part.text,
    );
  }
  return all;
}

/** The element of the page with that id. @param {string} id @returns {any} */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found;
}
