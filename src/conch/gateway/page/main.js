/** Puts the page together: the two inputs, the choices, and the answers. */

import { ApiError, componentsFor, fetchJson, keepKey, key } from "./api.js";
import { Choices } from "./choices.js";
import { byId, el } from "./dom.js";
import { FilePanel } from "./file_panel.js";
import { LivePanel } from "./live_panel.js";
import { microphones } from "./microphone.js";
import { plan } from "./path_model.js";
import { PathView } from "./path_view.js";
import { SayPanel } from "./say_panel.js";

const FULL = "The server takes no more sessions now; try again in a minute.";
const SWITCHES = ["echoCancellation", "noiseSuppression", "autoGainControl"];

/** @type {Record<"a" | "b", Choices | null>} */
const forms = { a: null, b: null };
/** @type {Record<"a" | "b", PathView>} */
const plans = {
  a: new PathView(byId("plan-a"), { withTable: false }),
  b: new PathView(byId("plan-b"), { withTable: false }),
};

/**
 * @param {Error} error
 * @returns {string} What to tell; a missing key is asked for.
 */
function explain(error) {
  if (error instanceof ApiError && error.status === 401) {
    askKey();
    return "This server wants a key.";
  }
  return error.message;
}

function askKey() {
  byId("key-form").hidden = false;
  byId("key-note").textContent = key() ? "The server does not take this key." : "";
  byId("key").focus();
}

/** Load what the server offers. Without it the page still works, with the server's defaults. */
async function load() {
  const notice = byId("notice");
  const isAsked = byId("key-form").contains(document.activeElement);
  try {
    const [{ options, version }, models] = await Promise.all([
      fetchJson("/v1/options"),
      fetchJson("/v1/models"),
    ]);
    const names = models.data.map((model) => model.id);
    const settings = { options, models: names, onChange: chosen };
    forms.a = new Choices(byId("form-a"), settings);
    forms.b = new Choices(byId("form-b"), settings);
    await say.load();
    byId("version").textContent = `Conch ${version}`;
    byId("key-form").hidden = true;
    if (isAsked) byId("speak").focus();
    notice.textContent = "";
    chosen();
  } catch (error) {
    notice.textContent = explain(error);
  }
}

/** A choice has changed: plan its path. */
function chosen() {
  const isLive = byId("plan-live").checked;
  byId("choices-now").textContent = isComparing()
    ? `${forms.a?.summary(isLive)}  |  ${forms.b?.summary(isLive)}`
    : (forms.a?.summary(isLive) ?? "");
  draw("a", isLive);
  if (isComparing()) draw("b", isLive);
}

/** The latest question for the path of each form: an answer to an older one comes too late. */
const asked = { a: {}, b: {} };

/**
 * Draw the path that a form plans.
 * @param {"a" | "b"} name
 * @param {boolean} isLive
 */
async function draw(name, isLive) {
  const mine = (asked[name] = {});
  try {
    const components = await componentsFor(forms[name]?.fields(isLive) ?? {}, isLive);
    if (asked[name] === mine) plans[name].show(plan(components));
  } catch (error) {
    if (asked[name] === mine) plans[name].say(explain(error));
  }
}

/** @returns {boolean} */
function isComparing() {
  return byId("compare").checked;
}

function compareChanged() {
  const on = isComparing();
  byId("slot-b").hidden = !on;
  byId("slot-a-title").hidden = !on;
  byId("slots").classList.toggle("is-comparison", on);
  chosen();
}

/**
 * @param {"a" | "b"} name
 * @param {boolean} isLive
 */
function wayOf(name, isLive) {
  const form = forms[name];
  const prefix = isComparing() ? `${name.toUpperCase()} · ` : "";
  return {
    title: `${prefix}${form?.summary(isLive) ?? "Conch's choice"}`,
    fields: form?.fields(isLive) ?? {},
  };
}

/**
 * Return the choices as they stand, or null if one has a value that the server refuses: it is shown.
 * @param {("a" | "b")[]} names
 * @param {boolean} isLive
 */
function waysOf(names, isLive) {
  for (const name of names) {
    if (!forms[name]?.wrong) continue;
    byId("choices").open = true;
    forms[name].complain();
    return null;
  }
  return names.map((name) => wayOf(name, isLive));
}

const file = new FilePanel(byId("file-panel"), {
  ways: () => waysOf(isComparing() ? ["a", "b"] : ["a"], false),
  onCompare: () => {
    byId("compare").checked = true;
    byId("choices").open = true;
    compareChanged();
    byId("choices").scrollIntoView({ block: "start" });
    byId("form-b").querySelector("input")?.focus();
  },
  explain,
});

const microphone = () => ({
  deviceId: byId("device").value,
  ...Object.fromEntries(SWITCHES.map((name) => [name, byId(name).checked])),
});

const live = new LivePanel(byId("live-panel"), {
  explain,
  way: () => waysOf(["a"], true)?.[0] ?? null,
  microphone,
  // Browsers give the names of devices once the microphone was allowed.
  onMicrophone: listDevices,
  onState: (state) => {
    byId("speak").setAttribute("data-state", state);
    // A disabled button would lose the keyboard's place.
    byId("speak").setAttribute("aria-disabled", String(state === "ending"));
    byId("speak-title").textContent = { off: "Speak", on: "Stop", ending: "Ending…" }[state];
    byId("speak-note").textContent =
      state === "off" ? "Text while you talk" : "Then the last words come";
  },
  explainRefusal,
});

const say = new SayPanel(byId("say-panel"), { explain, explainRefusal, microphone });

/**
 * A browser does not say why a WebSocket is refused; plain HTTP does.
 * @param {string} path
 * @returns {Promise<string>}
 */
async function explainRefusal(path) {
  try {
    await fetchJson(path);
    return "";
  } catch (error) {
    // The request has no problem.
    return error.status === 426 ? FULL : explain(error);
  }
}

async function listDevices() {
  const select = byId("device");
  const was = select.value;
  const found = (await microphones()).map((device, at) =>
    el(
      "option",
      { value: device.deviceId, selected: device.deviceId === was },
      device.label || `Microphone ${at + 1}`,
    ),
  );
  select.replaceChildren(el("option", { value: "" }, "The browser's choice"), ...found);
}

/** @param {File | undefined} chosenFile */
function take(chosenFile) {
  if (!chosenFile) return;
  byId("example").hidden = true;
  file.open(chosenFile);
}

byId("speak").addEventListener("click", () => live.toggle());
byId("file").addEventListener("change", (event) => {
  take(event.target.files[0]);
  // The same file can be chosen again.
  event.target.value = "";
});

// A file may be dropped anywhere: one that misses would replace the page.
let inside = 0;
const isFile = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragenter", (event) => {
  if (isFile(event)) document.body.classList.toggle("is-dragging", ++inside > 0);
});
document.addEventListener("dragleave", (event) => {
  if (isFile(event)) document.body.classList.toggle("is-dragging", --inside > 0);
});
document.addEventListener("dragover", (event) => isFile(event) && event.preventDefault());
document.addEventListener("drop", (event) => {
  inside = 0;
  document.body.classList.remove("is-dragging");
  // Recordings of a voice have a place of their own.
  if (!isFile(event) || event.defaultPrevented) return;
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey(byId("key").value.trim());
  load();
});
byId("compare").addEventListener("change", compareChanged);
byId("plan-kind").addEventListener("change", chosen);
byId("run-choices").addEventListener("click", () => {
  if (file.file) {
    file.run();
    byId("file-panel").scrollIntoView({ block: "start" });
  } else byId("file").click();
});
navigator.mediaDevices?.addEventListener?.("devicechange", listDevices);
listDevices();
load();
file.restore();
