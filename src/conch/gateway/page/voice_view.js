/** A voice that is fitted to recordings: how far it is, and what can be done with it. */

import { fetchJson } from "./api.js";
import { button, el, svg } from "./dom.js";
import { StatusLine } from "./status_line.js";
import { canSpeak, figuresOf, isRunning, pointsOf, statusOf } from "./voice_model.js";

const LOOK_MS = 1000;
const [WIDTH, HEIGHT] = [320, 96];

/**
 * @param {import("./voice_model.js").FittedVoice} voice
 * @param {import("./voice_panel.js").VoicePanel["hooks"]} hooks
 * @returns {HTMLElement}
 */
export function voiceView(voice, { list, listen, explain }) {
  const { name } = voice;
  const status = new StatusLine();
  const progress = el("div");
  const stop = button("Stop (good enough)", () => ask({ method: "POST" }, "/stop"));
  const before = button("Listen before", () => listen(voice.mix));
  const after = button("Listen after", () => listen(name));
  const remove = button("Delete", () => {
    if (confirm(`Delete the voice ${name}? It cannot be brought back.`)) ask({ method: "DELETE" });
  });
  const buttons = el("div", { class: "buttons" }, stop, before, after, remove);
  /** What is wrong with the last press: the status goes on. */
  const problem = new StatusLine();
  const parts = [el("h3", {}, name), status.element, progress, buttons, problem.element];
  const element = el("section", { class: "fitted", "aria-label": `Voice ${name}` }, ...parts);
  const fitted = el("option", { value: name }, `${name}: fitted to recordings`);
  const mix = el("option", {}, `${name} before fitting`);
  const unlist = () => [fitted, mix].forEach((option) => option.remove());

  const show = (now) => {
    voice = now;
    status.say(statusOf(voice), voice.status === "failed");
    progress.replaceChildren(
      voice.curve.length ? pictureOf(voice.curve) : "",
      el("p", { class: "figure" }, figuresOf(voice)),
      ...voice.warnings.map((text) => el("p", { class: "warning" }, text)),
    );
    // A button that goes away must not take the keyboard's place with it.
    if (!isRunning(voice) && document.activeElement === stop) remove.focus();
    stop.hidden = !isRunning(voice);
    before.hidden = after.hidden = !canSpeak(voice);
    mix.value = voice.mix;
    if (!canSpeak(voice)) unlist();
    // A list that changes closes under the hand that chooses.
    else if (!fitted.isConnected) list.append(fitted, mix);
  };

  /** Ask for the voice, or press a button; return whether to ask again. */
  const ask = async (press, path = "") => {
    try {
      const answer = await fetchJson(`/v1/audio/voices/${encodeURIComponent(name)}${path}`, press);
      // An answer may come after the voice is deleted.
      if (!element.isConnected) return false;
      if (press) problem.say("");
      if (!answer.deleted) show(answer);
      else {
        element.closest("details").querySelector("summary").focus();
        element.remove();
        unlist();
      }
      return true;
    } catch (error) {
      (press ? problem : status).say(explain(error), true);
      return !error.status || error.status >= 500;
    }
  };

  const follow = async () => {
    while (isRunning(voice)) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      if (!document.hidden && !(await ask())) return;
    }
  };
  show(voice);
  follow();
  return element;
}

/**
 * @param {[number, number][]} curve
 * @returns {SVGElement}
 */
function pictureOf(curve) {
  const points = pointsOf(curve, WIDTH, HEIGHT);
  const [cx, cy] = points.at(-1);
  const [[, first], [steps, last]] = [curve[0], curve.at(-1)];
  const label = `Similarity ${first} at first, ${last} after ${steps} steps`;
  const viewBox = `-16 -8 ${WIDTH + 24} ${HEIGHT + 16}`;
  return svg(
    "svg",
    { class: "curve", viewBox, role: "img", "aria-label": label },
    svg("path", { d: `M0 0H${WIDTH}M0 ${HEIGHT}H${WIDTH}` }),
    svg("text", { x: -14, y: 4 }, "1"),
    svg("text", { x: -14, y: HEIGHT + 4 }, "0"),
    svg("path", { class: "curve-line", d: `M${points.join("L")}` }),
    svg("circle", { class: "curve-line", cx, cy, r: 2 }),
  );
}
