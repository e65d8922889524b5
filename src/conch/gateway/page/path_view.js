/** Draw a path: components as boxes, wires between them, and a table of their times. */

import { el, freshId, svg } from "./dom.js";
import { SINK, SOURCE, duration, inWords, stepsOf } from "./path_model.js";

/**
 * @typedef {import("./path_model.js").PathModel} PathModel
 * @typedef {import("./path_model.js").Box} Box
 * @typedef {import("./path_model.js").Component} Component
 * @typedef {{x: number, y: number, width: number, height: number}} Place
 * @typedef {{width: number, height: number, isTall: boolean, headings: [number, number, string][],
 *   places: Record<string, Place>}} Layout
 */

/** Narrower than this the picture stands upright. */
const WIDE_PX = 950;

/** Between two columns of a wide picture, and between two rows of either. */
const GAP = 40;
const BOX_HEIGHT = 74;
/** Most boxes in a row of a tall picture. */
const IN_ROW = 3;
/** Where the first row of a tall picture is. */
const FIRST_Y = 76;

/**
 * Return the picture from left to right, a column for each step.
 * @param {Component[]} components
 * @returns {Layout}
 */
function wide(components) {
  const steps = stepsOf(components);
  const pitch = BOX_HEIGHT + 23;
  const height = 27 + pitch * Math.max(1, ...steps.map((step) => step.length));
  const middle = (height + 30) / 2;
  /** @type {Record<string, Place>} */
  const places = {};
  /** @type {[number, number, string][]} */
  const headings = [];
  const end = { y: middle - 27, width: 62, height: 54 };
  let x = 8;
  places[SOURCE] = { x, ...end };
  x += end.width + GAP;
  for (const step of steps) {
    const widths = step.map(({ name, title }) => 28 + Math.max(7 * name.length, 9 * title.length));
    const width = Math.max(130, ...widths);
    headings.push([x + width / 2, 18, step[0].step]);
    step.forEach(({ name }, row) => {
      const y = middle + (row - step.length / 2) * pitch + 11;
      places[name] = { x, y, width, height: BOX_HEIGHT };
    });
    x += width + GAP;
  }
  places[SINK] = { x, ...end };
  return { width: x + end.width + 8, height, isTall: false, headings, places };
}

/**
 * Return the picture from top to bottom, a row for each step.
 * @param {Component[]} components
 * @returns {Layout}
 */
function tall(components) {
  const steps = stepsOf(components);
  const [width, boxWidth, pitch] = [344, 106, 115];
  const end = { x: width / 2 - 36, width: 72, height: 36 };
  /** @type {Record<string, Place>} */
  const places = { [SOURCE]: { y: 4, ...end } };
  let y = FIRST_Y;
  for (const step of steps) {
    step.forEach(({ name }, at) => {
      const [column, row] = [at % IN_ROW, Math.floor(at / IN_ROW)];
      const length = Math.min(IN_ROW, step.length - row * IN_ROW);
      const x = width / 2 - boxWidth / 2 + (column - (length - 1) / 2) * pitch;
      places[name] = { x, y: y + row * (BOX_HEIGHT + 9), width: boxWidth, height: BOX_HEIGHT };
    });
    y += Math.ceil(step.length / IN_ROW) * (BOX_HEIGHT + 9) + GAP - 5;
  }
  places[SINK] = { y, ...end };
  return { width, height: y + end.height + 4, isTall: true, headings: [], places };
}

export class PathView {
  /**
   * @param {HTMLElement} host
   * @param {{withTable?: boolean, ends?: [string, string]}} [settings]
   */
  constructor(host, { withTable = true, ends = [SOURCE, SINK] } = {}) {
    this.host = host;
    /** What the picture begins and ends with. */
    this.ends = { [SOURCE]: ends[0], [SINK]: ends[1] };
    this.picture = el("div", { class: "path-picture" });
    this.table = withTable ? el("div", { class: "path-times" }) : null;
    host.classList.add("path");
    host.append(this.picture, ...(this.table ? [this.table] : []));
    /** @type {PathModel | null} */
    this.model = null;
    /** @type {Layout | null} */
    this.layout = null;
    /** @type {Record<string, any>} */
    this.parts = {};
    this.title = svg("title", { id: freshId("path") });
    new ResizeObserver(() => this.model && this.show(this.model)).observe(host);
  }

  /** @param {boolean} isRunning */
  set running(isRunning) {
    this.host.classList.toggle("is-running", isRunning);
  }

  /** @param {PathModel} model */
  show(model) {
    this.model = model;
    // A folded picture has no width yet.
    if (!this.host.clientWidth) return;
    const isTall = this.host.clientWidth < WIDE_PX;
    const isLaid = this.layout?.isTall === isTall && model.boxes.every((box) => this.parts[box.name]);
    if (!isLaid) this.lay(isTall ? tall(model.boxes) : wide(model.boxes), model);
    this.title.textContent = inWords(model);
    for (const box of model.boxes) this.fill(this.parts[box.name], box);
    this.wire(model);
    if (this.table) this.table.replaceChildren(...(model.isPlan ? [] : [timesOf(model)]));
  }

  /**
   * Say why there is no picture.
   * @param {string} text
   */
  say(text) {
    this.model = this.layout = null;
    this.picture.replaceChildren(el("p", { class: "hint" }, text));
  }

  /**
   * Draw the picture again, all pale. Otherwise its parts stay, so that they change softly.
   * @param {Layout} layout
   * @param {PathModel} model
   */
  lay(layout, model) {
    this.layout = layout;
    this.parts = {};
    this.strands = new Map();
    this.wires = { pale: svg("g"), lit: svg("g") };
    const { width, height } = layout;
    const drawing = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": this.title.id },
      this.title,
      ...layout.headings.map(([x, y, text]) =>
        svg("text", { x, y, class: "path-heading", "text-anchor": "middle" }, text),
      ),
      this.wires.pale,
      this.wires.lit,
      ...[SOURCE, SINK].map((name) => this.end(name)),
      ...model.boxes.map((box) => this.box(box)),
    );
    drawing.classList.toggle("is-tall", layout.isTall);
    this.picture.replaceChildren(drawing);
  }

  /**
   * @param {string} name
   * @returns {SVGElement}
   */
  end(name) {
    const { x, y, width, height } = this.layout.places[name];
    return svg(
      "g",
      { class: "path-end" },
      svg("rect", { x, y, width, height, rx: height / 2 }),
      svg("text", { x: x + width / 2, y: y + height / 2 + 5, "text-anchor": "middle" }, this.ends[name]),
    );
  }

  /**
   * @param {Box} box
   * @returns {SVGElement}
   */
  box(box) {
    const { x, y, width, height } = this.layout.places[box.name];
    const padding = this.layout.isTall ? 9 : 12;
    const left = x + padding;
    const bar = { x: left, y: y + height - 11, width: width - 2 * padding, height: 4, rx: 2 };
    const parts = {
      calls: svg("text", { x: left, y: y + 52, class: "path-figure" }),
      ms: svg("text", {
        x: x + width - padding,
        y: y + 52,
        class: "path-figure",
        "text-anchor": "end",
      }),
      bar: svg("rect", { ...bar, class: "path-bar" }),
      group: null,
    };
    const detail = this.layout.isTall ? box.step : box.name;
    parts.group = svg(
      "g",
      { class: "path-box" },
      svg("rect", { x, y, width, height, rx: 10, class: "path-frame" }),
      svg("text", { x: left, y: y + 20, class: "path-title" }, box.title),
      svg(
        "text",
        { x: left, y: y + 35, class: this.layout.isTall ? "path-role" : "path-name" },
        detail,
      ),
      parts.calls,
      parts.ms,
      svg("rect", { ...bar, class: "path-track" }),
      parts.bar,
    );
    this.parts[box.name] = parts;
    return parts.group;
  }

  /**
   * Draw the wires. An unchanged one is not touched: moving it restarts its animation.
   * @param {PathModel} model
   */
  wire(model) {
    const known = this.strands;
    this.strands = new Map();
    for (const { from, to, isLit } of model.wires) {
      const name = `${from} ${to}`;
      const strand =
        known.get(name) ?? svg("path", { class: "path-wire", d: way(this.layout, from, to) });
      const group = isLit ? this.wires.lit : this.wires.pale;
      if (strand.parentNode !== group) group.append(strand);
      strand.classList.toggle("is-lit", isLit);
      strand.classList.toggle("is-planned", isLit && model.isPlan);
      this.strands.set(name, strand);
      known.delete(name);
    }
    known.forEach((strand) => strand.remove());
  }

  /**
   * @param {any} parts
   * @param {Box} box
   */
  fill(parts, box) {
    const isCalled = box.state === "called";
    parts.group.classList.toggle("is-called", isCalled);
    parts.group.classList.toggle("is-planned", box.state === "planned");
    parts.calls.textContent = isCalled ? `× ${box.calls}` : "";
    parts.ms.textContent = isCalled ? duration(box.ms) : "";
    parts.bar.style.transform = `scaleX(${isCalled ? Math.max(0.02, box.share) : 0})`;
  }
}

/**
 * Return the line of a wire: around the boxes that it passes, not behind them.
 * @param {Layout} layout
 * @param {string} from
 * @param {string} to
 * @returns {string}
 */
function way(layout, from, to) {
  const [a, b] = [layout.places[from], layout.places[to]];
  const across = ({ x, width }) => x + width / 2;
  const down = ({ y, height }) => y + height / 2;
  const isNext = layout.isTall ? b.y === FIRST_Y : b.x === a.x + a.width + GAP;
  const isPast = from === SOURCE && !isNext;
  // In the middle lane the first box stands in the way.
  const isBlocked = isPast && (layout.isTall ? across(a) === across(b) : down(a) === down(b));
  if (layout.isTall) {
    const [x1, y1, x2, y2] = [across(a), a.y + a.height, across(b), b.y];
    const turn = `C${x1} ${y1 + 28} ${x2} ${y1 + 8} ${x2} ${y1 + 44}`;
    if (isBlocked) return `M${x1} ${y1}c0 26 -76 8 -76 40V${y2 - 50}c0 30 76 22 76 50`;
    if (isPast) return `M${x1} ${y1}${turn}V${y2}`;
    if (to === SINK) return `M${x1} ${y1}V${y2 - 38}C${x1} ${y2 - 6} ${x2} ${y2 - 34} ${x2} ${y2}`;
    const middle = (y1 + y2) / 2;
    return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
  }
  const [x1, y1, x2, y2] = [a.x + a.width, down(a), b.x, down(b)];
  if (isBlocked) return `M${x1} ${y1}c26 0 8 -50 40 -50H${x2 - 44}c26 0 18 50 44 50`;
  if (isPast) return `M${x1} ${y1}C${x1 + 34} ${y1} ${x1} ${y2} ${x1 + 56} ${y2}H${x2}`;
  if (to === SINK) return `M${x1} ${y1}H${x2 - 40}C${x2 - 8} ${y1} ${x2 - 34} ${y2} ${x2} ${y2}`;
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

/**
 * Return the table of times, in the order of the picture.
 * @param {PathModel} model
 * @returns {HTMLElement}
 */
function timesOf(model) {
  const called = [...model.boxes, ...model.others].filter((box) => box.state === "called");
  const row = (name, calls, ms, share) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${Math.max(0.5, share * 100)}%`;
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", { class: "number" }, calls),
      el("td", { class: "number" }, duration(ms)),
      el("td", { class: "bar-cell", "aria-hidden": "true" }, bar),
    );
  };
  const rows = called.map((box) => row(box.name, `× ${box.calls}`, box.ms, box.share));
  const total =
    model.total && row("from request to answer", "", model.total, model.total / model.longest);
  return el(
    "table",
    {},
    el("caption", {}, "Calls and their time. Calls at the same time add up."),
    el(
      "thead",
      { class: "unseen" },
      el(
        "tr",
        {},
        ...["component", "calls", "time", ""].map((text) =>
          text ? el("th", { scope: "col" }, text) : el("td", { "aria-hidden": "true" }),
        ),
      ),
    ),
    el("tbody", {}, ...rows),
    total && el("tfoot", {}, total),
  );
}
