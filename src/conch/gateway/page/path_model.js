/**
 * The path of a request as the page draws it: the components of Conch in their order, which were
 * called, how often and how long, and the wires between them.
 */

/**
 * @typedef {{calls: number, ms: number}} Stage
 * @typedef {{name: string, title: string, family: string, step: string, needed: string | null}}
 *   Component An item of `/v1/components`, in the order of a path.
 * @typedef {"called" | "planned" | "pale"} State
 * @typedef {Component & {state: State, calls: number, ms: number, share: number}} Box
 * @typedef {{from: string, to: string, isLit: boolean}} Wire
 * @typedef {{boxes: Box[], others: Box[], wires: Wire[], total: number, longest: number,
 *   isPlan: boolean}} PathModel `longest`: the time of a full bar, in milliseconds.
 */

/** Where every path begins and ends. */
export const SOURCE = "audio";
export const SINK = "text";

/**
 * Return the picture of a path that was taken.
 * @param {Component[]} components
 * @param {Record<string, Stage>} stages Calls by component, and the time from request to answer
 *   as `total`; a live session has no total.
 * @param {boolean} [isRunning] Whether those that are needed may still be called.
 * @returns {PathModel}
 */
export function taken(components, stages, isRunning = false) {
  const { total, ...called } = stages;
  const times = Object.values(called).map((stage) => stage.ms);
  // Calls at the same time add up, so that one bar may be longer than the whole request.
  const longest = Math.max(total?.ms ?? 0, ...times, 1e-9);
  const boxOf = (component) => {
    const stage = called[component.name] ?? { calls: 0, ms: 0 };
    const uncalled = isRunning && component.needed ? "planned" : "pale";
    const state = /** @type {State} */ (stage.calls > 0 ? "called" : uncalled);
    return { ...component, state, calls: stage.calls, ms: stage.ms, share: stage.ms / longest };
  };
  const known = new Set(components.map((component) => component.name));
  const others = Object.keys(called).filter((name) => !known.has(name));
  const boxes = components.map(boxOf);
  const lit = components.filter((component) => called[component.name]?.calls > 0);
  return {
    boxes,
    others: others.map((name) =>
      boxOf({ name, title: name, family: name, step: "", needed: null }),
    ),
    wires: wiresOf(components, lit),
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
 * @param {Component[]} components
 * @returns {PathModel}
 */
export function plan(components) {
  const boxes = components.map((component) => {
    const state = /** @type {State} */ (component.needed ? "planned" : "pale");
    return { ...component, state, calls: 0, ms: 0, share: 0 };
  });
  const lit = components.filter((component) => component.needed);
  return { boxes, others: [], wires: wiresOf(components, lit), total: 0, longest: 0, isPlan: true };
}

/**
 * Return the steps of a path, each with its components.
 * @template {Component} T
 * @param {T[]} components
 * @returns {T[][]}
 */
export function stepsOf(components) {
  const names = [...new Set(components.map((component) => component.step))];
  return names.map((name) => components.filter((component) => component.step === name));
}

/**
 * Return all wires, those between lit components lit. The lit ones are drawn last, above the others.
 * @param {Component[]} components
 * @param {Component[]} lit
 * @returns {Wire[]}
 */
function wiresOf(components, lit) {
  const pairs = linksOf(components, lit);
  const isDrawn = new Set(pairs.map(String));
  const pale = linksOf(components, components).filter((pair) => !isDrawn.has(String(pair)));
  const wire = (isLit) => ([from, to]) => ({ from, to, isLit });
  return [...pale.map(wire(false)), ...pairs.map(wire(true))];
}

/**
 * Return the pairs of a path that are wired: a component follows those of its
 * family in the nearest step before it, or all of a step that has none of its family.
 * @param {Component[]} components
 * @param {Component[]} path
 * @returns {[string, string][]}
 */
function linksOf(components, path) {
  const steps = stepsOf(components);
  /** @type {[string, string][]} */
  const links = [];
  for (const component of path) {
    const place = steps.findIndex((step) => step[0].step === component.step);
    const before = steps
      .slice(0, place)
      .reverse()
      .map((step) => {
        const family = step.filter((one) => one.family === component.family);
        return (family.length ? family : step).filter((one) => path.includes(one));
      })
      .find((step) => step.length);
    const from = before ?? [{ name: SOURCE }];
    links.push(...from.map(({ name }) => /** @type {[string, string]} */ ([name, component.name])));
  }
  const hasNext = new Set(links.map(([from]) => from));
  for (const { name } of path) if (!hasNext.has(name)) links.push([name, SINK]);
  return links;
}

/**
 * Return the picture in words, for those who do not see it.
 * @param {PathModel} model
 * @returns {string}
 */
export function inWords(model) {
  const drawn = model.isPlan ? "planned" : "called";
  const boxes = [...model.boxes, ...model.others].filter((box) => box.state === drawn);
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
