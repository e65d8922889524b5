/**
 * The path of a request as the page draws it: the components of Conch in their order, which were
 * called, how often and how long, and the wires between them.
 */

/**
 * @typedef {{calls: number, ms: number}} Stage
 * @typedef {"vad" | "whisper" | "ctc" | "live" | "lm"} Lane
 * @typedef {{name: string, lane: Lane, step: number, title: string, role: string}} Component
 * @typedef {"called" | "planned" | "pale"} State
 * @typedef {Component & {state: State, calls: number, ms: number, share: number}} Box
 * @typedef {{from: string, to: string, isLit: boolean}} Wire
 * @typedef {{boxes: Box[], others: Box[], wires: Wire[], total: number, longest: number,
 *   isPlan: boolean}} PathModel `longest`: the time of a full bar, in milliseconds.
 */

/** @type {Component[]} */
export const COMPONENTS = [
  { name: "vad", lane: "vad", step: 0, title: "Speech", role: "where is speech?" },
  { name: "attention_encoder", lane: "whisper", step: 1, title: "Whisper", role: "encoder" },
  { name: "ctc_encoder", lane: "ctc", step: 1, title: "CTC", role: "encoder" },
  { name: "ctc_streaming_encoder", lane: "live", step: 1, title: "CTC, live", role: "encoder" },
  { name: "attention_decoder", lane: "whisper", step: 2, title: "Whisper", role: "decoder" },
  { name: "ctc_decoder", lane: "ctc", step: 2, title: "CTC", role: "search" },
  { name: "ctc_streaming_decoder", lane: "live", step: 2, title: "CTC, live", role: "search" },
  { name: "neural_rescorer", lane: "lm", step: 3, title: "Neural", role: "language model" },
  { name: "rescorer", lane: "lm", step: 3, title: "N-gram", role: "language model" },
];

export const STEPS = ["find speech", "encode", "decode", "rescore"];
/** Where every path begins and ends. */
export const SOURCE = "audio";
export const SINK = "text";

const LANES = /** @type {Lane[]} */ (["whisper", "ctc", "live"]);

/** Options that `accuracy` sets, by decoder: those of `conch.wire.presets` that call components. */
const PRESETS = {
  attention: { balanced: ["rescore", "ctc_rescore"], best: ["rescore", "ctc_rescore"] },
  wfst: { balanced: ["rescore"], best: ["rescore", "attention_rescore"] },
  ctc: { balanced: [], best: ["attention_rescore"] },
};

/**
 * Return the components that a request with these options calls if its audio has speech, by the
 * rules of `conch.wire.needs`. `rescorer` auto counts as neural.
 * @param {Record<string, any>} options Those that are sent; `decoder` is that of the model's name.
 * @param {boolean} [isLive]
 * @returns {Set<string>}
 */
export function planned(options, isLive = false) {
  const needs = new Set();
  const needsCtc = Boolean(options.lm_fusion);
  const mode = isLive ? liveMode(options, needsCtc) : "offline";
  const liveDecoder = needsCtc ? "ctc" : "wfst";
  const decoder = options.decoder ?? (mode === "streaming" ? liveDecoder : "attention");
  if (options.vad !== false) needs.add("vad");
  if (isLive) ["ctc_streaming_encoder", "ctc_streaming_decoder"].forEach((one) => needs.add(one));
  if (mode !== "streaming") {
    const kind = decoder === "attention" ? "attention" : "ctc";
    [`${kind}_encoder`, `${kind}_decoder`].forEach((one) => needs.add(one));
  }
  const set = new Set(PRESETS[decoder]?.[options.accuracy] ?? []);
  for (const name of ["rescore", "ctc_rescore", "attention_rescore"]) {
    if (options[name] !== undefined) options[name] ? set.add(name) : set.delete(name);
  }
  if (set.has("rescore")) needs.add(options.rescorer === "ngram" ? "rescorer" : "neural_rescorer");
  if (set.has("ctc_rescore")) {
    if (!isLive) needs.add("ctc_encoder");
    needs.add("ctc_decoder");
  }
  if (set.has("attention_rescore")) {
    ["attention_encoder", "attention_decoder"].forEach((one) => needs.add(one));
  }
  return needs;
}

/**
 * @param {Record<string, any>} options
 * @param {boolean} needsCtc
 * @returns {string}
 */
function liveMode(options, needsCtc) {
  if (options.mode && options.mode !== "auto") return options.mode;
  const decoder = options.decoder ?? (needsCtc ? "ctc" : "attention");
  return decoder === "attention" && options.endpointing !== false ? "two_pass" : "streaming";
}

/**
 * Return the picture of a path that was taken.
 * @param {Record<string, Stage>} stages Calls by component, and the time from request to answer
 *   as `total`; a live session has no total.
 * @param {Set<string>} [expected] Components that may still be called.
 * @returns {PathModel}
 */
export function taken(stages, expected = new Set()) {
  const { total, ...called } = stages;
  const times = Object.values(called).map((stage) => stage.ms);
  // Calls at the same time add up, so that one bar may be longer than the whole request.
  const longest = Math.max(total?.ms ?? 0, ...times, 1e-9);
  const boxOf = (component) => {
    const stage = called[component.name] ?? { calls: 0, ms: 0 };
    const uncalled = expected.has(component.name) ? "planned" : "pale";
    const state = /** @type {State} */ (stage.calls > 0 ? "called" : uncalled);
    return { ...component, state, calls: stage.calls, ms: stage.ms, share: stage.ms / longest };
  };
  const known = new Set(COMPONENTS.map((component) => component.name));
  const others = Object.keys(called).filter((name) => !known.has(name));
  const boxes = COMPONENTS.map(boxOf);
  const lit = new Set(boxes.filter((box) => box.state === "called").map((box) => box.name));
  return {
    boxes,
    others: others.map((name) => boxOf({ name, lane: "lm", step: 3, title: name, role: "" })),
    wires: wiresOf(lit),
    total: total?.ms ?? 0,
    longest,
    isPlan: false,
  };
}

/**
 * Return pictures whose bars have one scale, so that they can be compared.
 * @param {PathModel[]} models
 * @returns {PathModel[]}
 */
export function onOneScale(models) {
  const longest = Math.max(...models.map((model) => model.longest));
  const scaled = (box) => ({ ...box, share: box.ms / longest });
  return models.map((model) => ({
    ...model,
    ...{ boxes: model.boxes.map(scaled), others: model.others.map(scaled), longest },
  }));
}

/**
 * Return the picture of a path before it is taken.
 * @param {Set<string>} names Components that will be called.
 * @returns {PathModel}
 */
export function plan(names) {
  const boxes = COMPONENTS.map((component) => {
    const state = /** @type {State} */ (names.has(component.name) ? "planned" : "pale");
    return { ...component, state, calls: 0, ms: 0, share: 0 };
  });
  return { boxes, others: [], wires: wiresOf(names), total: 0, longest: 0, isPlan: true };
}

/**
 * Return all wires, those between lit components lit: in each lane from left to right, past what
 * is not called.
 * @param {Set<string>} lit
 * @returns {Wire[]}
 */
export function wiresOf(lit) {
  /** @type {Map<string, Wire>} */
  const wires = new Map();
  const draw = (from, to, isLit) => {
    const known = wires.get(`${from} ${to}`);
    wires.set(`${from} ${to}`, { from, to, isLit: isLit || (known?.isLit ?? false) });
  };
  const rescorers = COMPONENTS.filter((one) => one.lane === "lm").map((one) => one.name);
  const litRescorers = rescorers.filter((name) => lit.has(name));
  draw(SOURCE, "vad", lit.has("vad"));
  for (const lane of LANES) {
    const chain = COMPONENTS.filter((one) => one.lane === lane).map((one) => one.name);
    ["vad", ...chain].slice(1).forEach((name, at) => draw(["vad", ...chain][at], name, false));
    rescorers.forEach((name) => draw(chain[chain.length - 1], name, false));
    const called = chain.filter((name) => lit.has(name));
    if (!called.length) continue;
    const way = [lit.has("vad") ? "vad" : SOURCE, ...called];
    way.slice(1).forEach((name, at) => draw(way[at], name, true));
    const ends = litRescorers.length ? litRescorers : [SINK];
    ends.forEach((name) => draw(called[called.length - 1], name, true));
  }
  rescorers.forEach((name) => draw(name, SINK, lit.has(name)));
  // The lit ones are drawn last, above the others.
  return [...wires.values()].sort((one, other) => Number(one.isLit) - Number(other.isLit));
}

/**
 * Return the picture in words, for those who do not see it.
 * @param {PathModel} model
 * @returns {string}
 */
export function inWords(model) {
  const told = model.isPlan ? "planned" : "called";
  const boxes = [...model.boxes, ...model.others].filter((box) => box.state === told);
  if (!boxes.length) return "No component is called.";
  if (model.isPlan) return `Will call ${boxes.map((box) => box.name).join(", ")}.`;
  const calls = boxes.map((box) => `${box.name} ${timesOf(box.calls)}, ${duration(box.ms)}`);
  return `Called ${calls.join("; ")}.${model.total ? ` In all ${duration(model.total)}.` : ""}`;
}

/**
 * @param {number} calls
 * @returns {string}
 */
function timesOf(calls) {
  return calls === 1 ? "once" : `${calls} times`;
}

/**
 * Return milliseconds with a unit, in two or three digits.
 * @param {number} ms
 * @returns {string}
 */
export function duration(ms) {
  if (ms >= 9950) return `${(ms / 1000).toFixed(0)} s`;
  if (ms >= 995) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 9.95 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(0)} ms`;
}
