/** Forms with the options of a request. */

import { el, freshId } from "./dom.js";
import { fieldsOf, hasThreeStates, inWords, isFor, isFollowed, isNumber } from "./choice_model.js";

/**
 * @typedef {import("./choice_model.js").Option} Option
 */

/** Names of the gateway's models for users; others are shown by their own name. */
const MODELS = {
  conch: ["Conch's choice", "Moonshine, or Whisper for other languages; live text by CTC first"],
  "conch-moonshine": ["Moonshine", "English, with case and punctuation"],
  "conch-attention": ["Whisper", "attention decoder, with case and punctuation"],
  "conch-transducer": ["Transducer", "a model of your own"],
  "conch-paraformer": ["Paraformer", "a model of your own"],
  "conch-paraformer_online": ["Paraformer, online", "a model of your own"],
  "conch-sensevoice": ["SenseVoice", "a model of your own"],
  "conch-kaldi": ["Kaldi", "a model of your own"],
  "conch-wenet": ["WeNet", "a model of your own"],
  "conch-ctc": ["CTC", "beam search; takes a language model"],
  "conch-wfst": ["CTC in a graph", "known words and hotwords; the fastest"],
};
/** OpenAI's names, for clients that insist on them: each is another one, or speaks. */
const ALIAS = /^(whisper|gpt|tts)-/;

const ACCURACIES = {
  fast: "no rescoring",
  balanced: "rescores where it is close",
  best: "rescores more candidates",
};
/** Letters of a default that a field has room for. */
const SHORT = 12;
/** Most numbers that a list has beside its words. */
const MOST_NUMBERS = 64;
const RESCORING = ["rescore", "ctc_rescore", "attention_rescore"];
/** What most users ask for, with its name in the form. */
const COMMON = {
  language: "Language",
  speakers: "Speakers",
  channels: "Channels",
  names: "Names and terms",
  itn: "Numbers in digits",
};
/** Options that have a place of their own above the list, or that the page sets itself. */
const PLACED = new Set([
  ...["accuracy", "decoder", "word_timestamps"],
  ...Object.keys(COMMON),
  ...RESCORING,
]);

export class Choices {
  /**
   * @param {HTMLElement} host
   * @param {object} settings
   * @param {Option[]} settings.options
   * @param {string[]} settings.models
   * @param {() => void} settings.onChange
   */
  constructor(host, { options, models, onChange }) {
    this.options = options;
    /** @type {Map<string, any>} Inputs by option. */
    this.inputs = new Map();
    this.model = models[0] ?? "conch";
    this.onChange = onChange;
    const byName = new Map(options.map((option) => [option.name, option]));
    /** @type {[string, (option: Option) => boolean][]} */
    const groups = [
      ["For all audio", (option) => option.live && option.recordings],
      ["Recordings only", (option) => !option.live],
      ["Live only", (option) => !option.recordings],
    ];
    const lists = groups.map(([heading, belongs]) => {
      const own = options.filter((option) => !PLACED.has(option.name) && belongs(option));
      return (
        own.length > 0 &&
        el(
          "fieldset",
          { class: "option-group" },
          el("legend", {}, heading),
          ...own.map((one) => this.row(one)),
        )
      );
    });
    this.form = el(
      "form",
      {
        class: "choices",
        on: { submit: (event) => event.preventDefault(), input: () => this.changed() },
      },
      this.modelPicker(models.filter((name) => !ALIAS.test(name))),
      byName.has("accuracy") && this.accuracyPicker(byName.get("accuracy")),
      this.rescoringPicker(
        RESCORING.filter((name) => byName.has(name)).map((name) => byName.get(name)),
      ),
      this.common(byName),
      lists.some(Boolean) &&
        el("details", { class: "all-options" }, el("summary", {}, "All other options"), ...lists),
    );
    host.replaceChildren(this.form);
    this.mark();
  }

  /**
   * Return the fields to send: the model, and the options that the user chose.
   * @param {boolean} isLive
   * @returns {Record<string, any>}
   */
  fields(isLive) {
    return { model: this.model, ...fieldsOf(this.options, this.values(), this.decoder, isLive) };
  }

  /** The decoder that the model stands for; undefined where the options decide. */
  get decoder() {
    return this.model.startsWith("conch-") ? this.model.slice("conch-".length) : undefined;
  }

  /**
   * @param {boolean} isLive
   * @returns {string} In a few words.
   */
  summary(isLive) {
    return inWords(MODELS[this.model]?.[0] ?? this.model, this.fields(isLive));
  }

  /** @returns {HTMLInputElement | null} The first field whose value the server would refuse. */
  get wrong() {
    return this.form.querySelector("input:invalid");
  }

  /** Show the problem. */
  complain() {
    const { wrong } = this;
    const fold = wrong?.closest("details");
    if (fold) fold.open = true;
    wrong?.reportValidity();
  }

  /** @returns {Record<string, any>} Inputs by option, as they stand. */
  values() {
    const entries = [...this.inputs].map(([name, input]) => {
      if (input instanceof HTMLInputElement && input.type === "checkbox")
        return [name, input.checked];
      return [name, input.value];
    });
    const accuracy = this.form.elements.namedItem("accuracy")?.value;
    return { ...Object.fromEntries(entries), ...(accuracy && { accuracy }) };
  }

  changed() {
    this.model = this.form.elements.namedItem("model")?.value || this.model;
    this.mark();
    this.onChange();
  }

  /** Switch off what the chosen decoder does not take, as the server would refuse it. */
  mark() {
    for (const option of this.options) {
      const input = this.inputs.get(option.name);
      if (!input) continue;
      const takers = [isFor(option, false), isFor(option, true)];
      const isTaken = takers.some(
        (fits, live) => fits && isFollowed(option, this.decoder, live === 1),
      );
      input.disabled = !isTaken;
      input.closest(".option")?.classList.toggle("is-off", !isTaken);
    }
  }

  /**
   * @param {string[]} models
   * @returns {HTMLElement}
   */
  modelPicker(models) {
    const cards = models.map((name, at) => {
      const [title, help] = MODELS[name] ?? [name, ""];
      return card("model", name, title, help, at === 0);
    });
    return el("fieldset", { class: "picker" }, el("legend", {}, "Decoder"), ...cards);
  }

  /**
   * @param {Option} option
   * @returns {HTMLElement}
   */
  accuracyPicker(option) {
    const cards = (option.choices ?? []).map((name) =>
      card("accuracy", name, name, ACCURACIES[name] ?? "", name === option.default),
    );
    return el("fieldset", { class: "picker" }, el("legend", {}, "Accuracy"), ...cards);
  }

  /**
   * @param {Option[]} options
   * @returns {HTMLElement | false}
   */
  rescoringPicker(options) {
    const rows = options.map((option) => this.row(option));
    return (
      rows.length > 0 && el("fieldset", { class: "checks" }, el("legend", {}, "Rescoring"), ...rows)
    );
  }

  /**
   * @param {Map<string, Option>} byName
   * @returns {HTMLElement}
   */
  common(byName) {
    const rows = Object.entries(COMMON)
      .filter(([name]) => byName.has(name))
      .map(([name, title]) => this.row(byName.get(name), title));
    return el(
      "fieldset",
      { class: "option-group common" },
      el("legend", {}, "Who and what is heard"),
      ...rows,
    );
  }

  /**
   * @param {Option} option
   * @param {string} [title] In place of its name.
   * @returns {HTMLElement}
   */
  row(option, title) {
    const help = freshId("help");
    const input = inputOf(option, help);
    this.inputs.set(option.name, input);
    const name = title
      ? el("span", { class: "option-name" }, title)
      : el("code", { class: "option-name" }, option.name);
    const only = option.decoders?.length ? ` Decoder ${option.decoders.join(" or ")}.` : "";
    const words = isNumber(option) ? option.default_in_words : "";
    const otherwise = words.length > SHORT ? ` Default: ${words}.` : "";
    return el(
      "div",
      { class: "option" },
      el("label", {}, name, input),
      el("small", { id: help }, `${option.help}.${only}${otherwise}`),
    );
  }
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} title
 * @param {string} help
 * @param {boolean} isChosen
 * @returns {HTMLElement}
 */
function card(name, value, title, help, isChosen) {
  const id = freshId("help");
  return el(
    "label",
    { class: "card" },
    el("input", { type: "radio", name, value, checked: isChosen, "aria-describedby": id }),
    el("span", { class: "card-title" }, title),
    el("small", { id }, help),
  );
}

/**
 * @param {Option} option
 * @param {string} help Id of its description.
 * @returns {any}
 */
function inputOf(option, help) {
  const shared = { "aria-describedby": help };
  const { kind, low, high } = option;
  if (hasThreeStates(option)) {
    const states = { "": "by accuracy", true: "on", false: "off" };
    const items = Object.entries(states).map(([value, text]) => el("option", { value }, text));
    return el("select", shared, ...items);
  }
  if (kind === "bool")
    return el("input", { type: "checkbox", checked: option.default === true, ...shared });
  const numbers = low === null ? 0 : high - low + 1;
  if (option.choices?.length && numbers <= MOST_NUMBERS) {
    const values = [...option.choices, ...Array.from({ length: numbers }, (_, at) => low + at)];
    const items = values.map((value) =>
      el("option", { selected: value === option.default }, String(value)),
    );
    return el("select", shared, ...items);
  }
  if (isNumber(option)) {
    const step = kind === "int" ? 1 : "any";
    const placeholder = option.default_in_words;
    return el("input", { type: "number", min: low, max: high, step, placeholder, ...shared });
  }
  const value = option.default ?? "";
  return el("input", { type: "text", value, autocomplete: "off", spellcheck: "false", ...shared });
}
