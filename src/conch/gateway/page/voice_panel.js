/** Fit voices to recordings: files, or takes of a few sentences. */

import { fetchJson } from "./api.js";
import { button, el } from "./dom.js";
import { StatusLine } from "./status_line.js";
import { takeButton } from "./take_button.js";
import { voiceView } from "./voice_view.js";

const SENTENCES = [
  "The kettle sings before the water boils.",
  "She keeps seven blue marbles in a jar.",
  "Our train leaves at a quarter past nine.",
  "Would you like some honey in your tea?",
  "The old bridge creaks when the wind is strong.",
  "He fixed the garden gate with a short rope.",
  "Bring a warm coat, for the nights are cold.",
  "Did the children find their way home?",
  "A grey cat sleeps on the kitchen chair.",
  "What a bright moon we have this evening!",
];
const TERMS =
  "The person who is heard must agree. The recordings leave the browser when you press Fit, and " +
  "the server does not keep them. It keeps a voice print while it works, and the voice until you " +
  "press Delete.";

export class VoicePanel {
  /**
   * @param {object} hooks
   * @param {HTMLSelectElement} hooks.list Gets the voices that can speak.
   * @param {(voice: string) => void} hooks.listen Read a text by a voice.
   * @param {() => any} hooks.microphone The chosen device and switches.
   * @param {(error: Error) => string} hooks.explain
   */
  constructor(hooks) {
    this.hooks = hooks;
    /** @type {Map<File, () => void>} Each with what removes it. */
    this.recordings = new Map();
    this.status = new StatusLine();
    const { microphone } = hooks;
    const onError = (error) => this.complain(error);
    const record = (label, onTake) => takeButton(label, { microphone, onTake, onError });
    // The names of inputs are those of the request.
    const sound = { type: "file", accept: "audio/*,video/*" };
    this.files = el("input", {
      ...{ ...sound, name: "audio_sample", multiple: true, class: "unseen" },
      on: { change: () => this.add(this.files.files) },
    });
    const sentence = el("q", {}, SENTENCES[0]);
    const recordSentence = record("Record the sentence", (take) => {
      const next = SENTENCES.indexOf(sentence.textContent) + 1;
      sentence.textContent = SENTENCES[next % SENTENCES.length];
      this.add([take]);
    });
    const list = { class: "answer-tools", role: "list", "aria-label": "Recordings" };
    this.list = el("div", list);
    const consent = el("input", { ...sound, name: "consent", required: true });
    const recordConsent = record("Record the consent", (take) => {
      const transfer = new DataTransfer();
      transfer.items.add(take);
      consent.files = transfer.files;
      consent.setCustomValidity("");
    });
    /** The server says whether it wants one. */
    this.consent = el(
      "fieldset",
      { class: "buttons", disabled: true, hidden: true },
      el("label", {}, "Consent, as a recording ", consent),
      recordConsent,
    );
    const minutes = { name: "minutes", type: "number", min: 1, max: 120, value: 10 };
    const submit = (event) => this.fit(event);
    const input = ({ target }) => target.setCustomValidity("");
    this.form = el(
      "form",
      { on: { submit, input } },
      el("p", { class: "hint" }, TERMS),
      el("label", {}, "Name ", el("input", { name: "name", required: true, autocomplete: "off" })),
      el("label", { class: "way" }, "Drop 3 to 50 recordings here, or choose them", this.files),
      el("p", {}, "Or read this aloud: ", sentence),
      recordSentence,
      this.list,
      el("label", {}, "Minutes of fitting ", el("input", minutes)),
      this.consent,
      el("button", {}, "Fit"),
      this.status.element,
    );
    this.views = el("div");
    const drop = (event) => {
      event.preventDefault();
      this.element.open = true;
      this.add(event.dataTransfer.files);
    };
    const summary = el("summary", {}, "A voice from recordings");
    const properties = { class: "fold voices", hidden: true, on: { drop } };
    this.element = el("details", properties, summary, this.form, this.views);
  }

  /**
   * Show the fitted voices.
   * @param {import("./voice_model.js").FittedVoice[]} [fitted] None: the server fits no voices.
   */
  load(fitted) {
    this.element.hidden = !fitted;
    this.views.replaceChildren(...(fitted ?? []).map((voice) => voiceView(voice, this.hooks)));
  }

  /** @param {Error} error */
  complain(error) {
    this.status.say(this.hooks.explain(error), true);
    this.status.element.scrollIntoView({ block: "nearest" });
  }

  /** @param {Iterable<File>} files */
  add(files) {
    for (const file of files) {
      const heard = { src: URL.createObjectURL(file), controls: true, "aria-label": file.name };
      const remove = () => {
        URL.revokeObjectURL(heard.src);
        this.recordings.delete(file);
        item.remove();
      };
      const press = () => {
        remove();
        this.files.focus();
      };
      const removeButton = button("Remove", press, { "aria-label": `Remove ${file.name}` });
      const listed = { class: "buttons", role: "listitem" };
      const item = el("div", listed, file.name, el("audio", heard), removeButton);
      this.recordings.set(file, remove);
      this.list.append(item);
    }
    // The same file can be chosen again.
    this.files.value = "";
    this.files.setCustomValidity("");
  }

  /** @param {SubmitEvent} event */
  async fit(event) {
    event.preventDefault();
    if (this.isSending) return;
    this.isSending = true;
    this.status.say("Uploading…");
    try {
      const body = new FormData(this.form);
      body.delete("audio_sample");
      for (const file of this.recordings.keys()) {
        // A folder, or a file that was moved, fails here; `fetch` does not say why.
        await file.slice(0, 1).arrayBuffer();
        body.append("audio_sample", file);
      }
      const voice = await fetchJson("/v1/audio/voices", { method: "POST", body });
      this.views.prepend(voiceView(voice, this.hooks));
      this.form.reset();
      this.recordings.forEach((remove) => remove());
      this.status.say("The recordings are sent.");
    } catch (error) {
      this.complain(error);
      if (error.param === "consent") this.consent.hidden = this.consent.disabled = false;
      const field = this.form.elements.namedItem(error.param);
      field?.setCustomValidity(error.message);
      field?.reportValidity();
    } finally {
      this.isSending = false;
    }
  }
}
