// The service over HTTP, for one person. The token lies in memory only, and goes with the page.

/** A refusal, as the service words it; `code` is stable. */
export class Problem extends Error {
  /** @param {{ [member: string]: any }} document */
  constructor(document) {
    super(`${document.code}: ${document.detail ?? document.title}`);
    this.name = "Problem";
    this.code = document.code;
    this.status = document.status;
  }
}

export class Service {
  /** @param {string} url @param {string} token */
  constructor(url, token) {
    this.url = url.replace(/\/+$/, "");
    this.token = token;
  }

  /** @param {string} path */
  get(path) {
    return this.#ask("GET", path);
  }

  /** @param {string} path @param {object} [body] */
  post(path, body) {
    return this.#ask("POST", path, body);
  }

  /** @param {string} path @param {object} body */
  put(path, body) {
    return this.#ask("PUT", path, body);
  }

  /**
   * Throws Problem, or Error where nothing answers that lets this page read it.
   * @param {string} method @param {string} path @param {object} [body] @returns {Promise<any>}
   */
  async #ask(method, path, body) {
    /** @type {Record<string, string>} */
    const headers = { Authorization: `Bearer ${this.token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const sent = body === undefined ? null : JSON.stringify(body);
    const asked = fetch(this.url + path, { method, headers, body: sent });
    const answer = await asked.catch((cause) => {
      const hint = `is it there, and does it allow pages of ${location.origin}?`;
      throw new Error(`no answer from ${this.url}: ${hint}`, { cause });
    });
    if (answer.status === 204) return null;
    const document = await answer.json();
    if (!answer.ok) throw new Problem(document);
    return document;
  }
}
