// @ts-check
/**
 * The rows of one session as this page has them: pages and stream events are applied in the order in which they come.
 * A row object is never changed, only replaced, so that a view can compare by identity. Texts of streaming rows are the
 * exception in cost, not in kind: an append makes a new row object with the longer text.
 */

/** @import { Row, RowAppend, RowHead, RowPage, RowPart, SessionStreamEvent, TranscriptState } from "contract" */

/** A row of a kind. @template {Row["kind"]} K @typedef {Extract<Row, { kind: K }>} RowOf */

/** A row with content. @typedef {{ open: boolean, parts: RowPart[] }} RowWithParts */

/** Rows that stay in memory while the end is followed. */
const MAX_ROWS = 600;
/** Rows that are dropped at once, so that dropping is rare. */
const DROPPED_ROWS = 200;

/** Compares two row ids by their place in the log. @param {string} a @param {string} b */
export function compareRows(a, b) {
  const [x, y] = [parseRowId(a), parseRowId(b)];
  return x[0] - y[0] || x[1] - y[1];
}

/** @param {string} id @returns {[number, number]} */
function parseRowId(id) {
  const [seq, part] = (id.split("-")[1] ?? "0").split(".");
  return [Number(seq), Number(part ?? 1)];
}

/**
 * Appends text to a part: to the end that is shown, if the part is cut.
 * @param {RowPart} part @param {string} text @returns {RowPart}
 */
const growPart = (part, text) => {
  if (part.type !== "text") return part;
  return part.cut
    ? { ...part, cut: { ...part.cut, tail: (part.cut.tail ?? "") + text } }
    : { ...part, text: part.text + text };
};

export class Transcript {
  /** @param {string} session @param {(row: string) => Promise<Row>} readRow */
  constructor(session, readRow) {
    this.session = session;
    this.readRow = readRow;
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Map<string, number>} the revision that the stream told of rows that are not loaded */
    this.unseenRevs = new Map();
    this.fold = 0;
    this.before = /** @type {string | null} */ (null);
    /** True while rows between the loaded ones and the end are missing: the page was opened at an older row. */
    this.after = /** @type {string | null} */ (null);
    this.turnHead = /** @type {RowHead | null} */ (null);
    this.state = /** @type {TranscriptState | null} */ (null);
    this.position = /** @type {string | null} */ (null);
    this.asOf = "";
    this.loaded = false;
    this.gone = false;
    /** Rises with every change, for views. */
    this.version = 0;
    /** Rows that changed since the view last drew, for appends without a new layout. */
    this.appendListeners = /** @type {Map<string, (row: RowWithParts) => void>} */ (new Map());
  }

  /** @param {string} id */
  indexOf(id) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compareRows(this.rows[middle].id, id) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {string | null | undefined} id @returns {Row | undefined} */
  find(id) {
    if (!id) return undefined;
    const row = this.rows[this.indexOf(id)];
    return row?.id === id ? row : undefined;
  }

  /**
   * Applies an event of the stream. Returns true if the layout may have changed.
   * @param {SessionStreamEvent} message @param {string | null} id
   */
  apply({ event, data }, id) {
    if (id) this.position = id;
    if (event === "page") this.#replaceAll(data);
    else if (event === "row") this.#putRow(data);
    else if (event === "append" || event === "tail") return this.#append(data);
    else if (event === "state") this.state = /** @type {TranscriptState} */ ({ ...this.state, ...data });
    else if (event === "reset") this.#forget();
    else if (event === "gone") this.gone = true;
    else if (event === "beat") {
      this.asOf = data.asOf;
      return false;
    } else return false;
    this.version += 1;
    return true;
  }

  /** @param {RowPage} page */
  #replaceAll(page) {
    this.rows = page.rows;
    this.unseenRevs.clear();
    this.fold = page.fold;
    this.before = page.before ?? null;
    this.after = null;
    this.turnHead = page.turnHead ?? null;
    this.state = page.state ?? this.state;
    this.asOf = page.asOf;
    this.loaded = true;
    this.gone = false;
  }

  #forget() {
    this.rows = [];
    this.unseenRevs.clear();
    this.position = null;
    this.loaded = false;
  }

  /** @param {Row} row */
  #putRow(row) {
    const place = this.indexOf(row.id);
    const known = this.rows[place];
    if (known?.id === row.id) {
      if (row.rev > known.rev) this.#setRow(place, row);
      return;
    }
    const isOlder = place === 0 && this.rows.length > 0 && this.before !== null;
    if (isOlder || this.after !== null) {
      this.unseenRevs.set(row.id, Math.max(row.rev, this.unseenRevs.get(row.id) ?? 0));
      return;
    }
    this.rows = [...this.rows.slice(0, place), row, ...this.rows.slice(place)];
  }

  /** @param {number} place @param {Row} row */
  #setRow(place, row) {
    this.rows = this.rows.with
      ? this.rows.with(place, row)
      : this.rows.map((known, index) => (index === place ? row : known));
  }

  /** @param {RowAppend} append */
  #append(append) {
    const place = this.indexOf(append.id);
    const known = this.rows[place];
    if (known?.id !== append.id) {
      this.unseenRevs.set(append.id, append.rev);
      return false;
    }
    if (known.rev >= append.rev) return false;
    if (known.rev !== append.from || !("parts" in known) || !known.parts) {
      this.refetch(append.id);
      return false;
    }
    const parts = known.parts.map((part, index) => (index === append.part ? growPart(part, append.text) : part));
    const row = { ...known, rev: append.rev, changedAt: append.changedAt, parts };
    // The array is changed in place: a view that listens to this row appends nodes, and no other view has to be drawn.
    this.rows[place] = row;
    const listener = this.appendListeners.get(append.id);
    if (!listener) {
      this.rows = this.rows.slice();
      this.version += 1;
      return true;
    }
    listener(row);
    return false;
  }

  /** Reads a row again whose changes were missed. @param {string} id */
  async refetch(id) {
    const row = await this.readRow(id).catch(() => null);
    if (row) this.apply({ event: "row", data: row }, null);
    this.onRefetched?.();
  }

  /** Puts an older page before the rows. @param {RowPage} page */
  prepend(page) {
    const first = this.rows[0]?.id;
    const older = first ? page.rows.filter((row) => compareRows(row.id, first) < 0) : page.rows;
    this.rows = [...older, ...this.rows];
    this.before = page.before ?? null;
    this.turnHead = page.turnHead ?? null;
    this.#refetchUnseen(older);
    this.version += 1;
  }

  /** Puts a newer page after the rows, when the page was opened at an older row. @param {RowPage} page */
  appendPage(page) {
    const last = this.rows.at(-1)?.id;
    const newer = last ? page.rows.filter((row) => compareRows(row.id, last) > 0) : page.rows;
    this.rows = [...this.rows, ...newer];
    this.after = page.after ?? null;
    this.#refetchUnseen(newer);
    this.version += 1;
  }

  /**
   * Shows a page around an older row. Later rows of the stream are left out until the end is loaded.
   * @param {RowPage} page
   */
  showPage(page) {
    const state = this.state;
    this.#replaceAll(page);
    this.state = page.state ?? state;
    this.after = page.after ?? null;
    this.version += 1;
  }

  /** @param {Row[]} rows */
  #refetchUnseen(rows) {
    for (const row of rows) {
      const rev = this.unseenRevs.get(row.id);
      if (rev === undefined) continue;
      this.unseenRevs.delete(row.id);
      if (rev > row.rev) this.refetch(row.id);
    }
  }

  /** Drops the oldest rows if there are many. They can be loaded again. */
  trim() {
    if (this.rows.length <= MAX_ROWS || this.after !== null) return false;
    this.rows = this.rows.slice(this.rows.length - MAX_ROWS + DROPPED_ROWS);
    this.before = `f${this.fold}.${this.rows[0].id}`;
    this.turnHead = null;
    this.version += 1;
    return true;
  }

  /** @type {(() => void) | undefined} */
  onRefetched;
}
