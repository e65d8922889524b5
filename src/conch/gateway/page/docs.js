/** The reference: shows /openapi.json. Everything of the document goes in as text. */

import {
  answersOf,
  defaultOf,
  fieldsOf,
  groupsOf,
  paragraphsOf,
  propertiesOf,
  samplesOf,
  typeOf,
} from "./docs_model.js";
import { el } from "./dom.js";

const COPIED_MS = 1500;

function prose(text) {
  return paragraphsOf(text).map((pieces) => el("p", {}, ...inline(pieces)));
}

function inline(pieces) {
  return pieces.map((piece, index) => (index % 2 ? el("code", {}, piece) : piece));
}

function typeElement(schema) {
  const pieces = typeOf(schema).map(({ text, name }) =>
    name ? el("a", { href: `#schema-${name}` }, text) : text,
  );
  return el("span", { class: "type" }, ...pieces);
}

function fieldRow(field) {
  const about = [el("code", { class: "name" }, field.name), " ", typeElement(field.schema)];
  if (field.isRequired && field.where) about.push(" ", el("strong", { class: "required" }, "required"));
  const usual = defaultOf(field.schema);
  if (usual) about.push(" ", el("span", { class: "default" }, "default ", el("code", {}, usual)));
  return el(
    "div",
    { class: "field" },
    el("dt", {}, ...about),
    el("dd", {}, field.description),
  );
}

function fieldList(fields) {
  return el("dl", { class: "fields" }, ...fields.map(fieldRow));
}

function fieldsSection(fields) {
  const own = fields.filter((field) => !field.isOption);
  const options = fields.filter((field) => field.isOption);
  const kinds = { query: "Query", path: "Address", body: "Fields" };
  const parts = Object.entries(kinds).flatMap(([where, title]) => {
    const found = own.filter((field) => field.where === where);
    return found.length ? [el("h4", {}, title), fieldList(found)] : [];
  });
  if (options.length) {
    const title = `Conch's own options: ${options.length} more`;
    parts.push(el("details", {}, el("summary", {}, title), fieldList(options)));
  }
  return parts;
}

function sample(line) {
  const button = el("button", { type: "button", "aria-label": `Copy: ${line}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = "Copied";
    } catch {
      // Browsers give the clipboard to https and localhost alone.
      getSelection()?.selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
  });
  const code = el("code", {}, line);
  return el("div", { class: "sample" }, el("pre", {}, code), button);
}

function answerRow([status, answer]) {
  const content = Object.entries(answer.content ?? {}).map(([kind, { schema }]) =>
    el("li", {}, el("code", {}, kind), " ", ...contentOf(schema)),
  );
  const headers = Object.keys(answer.headers ?? {});
  const more = headers.length
    ? [el("p", { class: "dim" }, "Headers: ", ...headers.flatMap((name, index) => [index ? ", " : "", el("code", {}, name)]))]
    : [];
  return el(
    "div",
    { class: "field" },
    el("dt", {}, el("code", { class: "status" }, status), " ", answer.description),
    el("dd", {}, ...(content.length ? [el("ul", {}, ...content)] : []), ...more),
  );
}

/** Text alone says more by its meaning than by its type. */
function contentOf(schema) {
  if (schema.contentSchema) return [schema.description, " ", typeElement(schema.contentSchema)];
  const isText = (item) => item.type === "string" && item.description;
  const choices = schema.anyOf ?? [schema];
  if (choices.every(isText)) return [choices.map((item) => item.description).join(" ")];
  return [typeElement(schema)];
}

function errorRow([status, error]) {
  const headers = Object.keys(error.headers ?? {}).filter((name) => name !== "x-request-id");
  const notes = headers.flatMap((name) => [" ", el("code", {}, name)]);
  if (notes.length) notes.unshift(" Header");
  return el(
    "div",
    { class: "error" },
    el("dt", {}, el("code", { class: "status" }, status)),
    el("dd", {}, ...inline(paragraphsOf(error.description)[0]), ...notes),
  );
}

function idOf({ method, path }) {
  return `${method}-${path}`.replaceAll(/[^\w]+/g, "-").replace(/-$/, "");
}

function operationArticle(document_, item) {
  const { method, path, operation } = item;
  const id = idOf(item);
  const { good, errors } = answersOf(document_, operation);
  const isSocket = good.some(([status]) => status === "101");
  const isFree = operation.security?.length === 0;
  const parts = [
    el(
      "h3",
      {},
      el("span", { class: `method ${isSocket ? "ws" : method}` }, isSocket ? "WS" : method.toUpperCase()),
      " ",
      el("a", { class: "path", href: `#${id}` }, path),
    ),
    el("p", { class: "summary" }, operation.summary, isFree ? el("span", { class: "dim" }, " · needs no key") : ""),
    ...prose(operation.description),
    ...samplesOf(location.origin, path, operation).map(sample),
    ...fieldsSection(fieldsOf(operation)),
  ];
  if (good.length) parts.push(el("h4", {}, "Answer"), el("dl", { class: "fields" }, ...good.map(answerRow)));
  if (errors.length) {
    const title = `Errors: ${errors.map(([status]) => status).join(", ")}`;
    parts.push(
      el("details", {}, el("summary", {}, title), el("dl", { class: "errors" }, ...errors.map(errorRow))),
    );
  }
  return el("article", { id, class: "operation" }, ...parts);
}

function schemaArticle([name, schema]) {
  return el(
    "article",
    { id: `schema-${name}`, class: "schema" },
    el("h3", {}, name),
    ...prose(schema.description ?? ""),
    fieldList(propertiesOf(schema)),
  );
}

function contents(groups, schemas) {
  const links = (items) => el("ul", {}, ...items.map((item) => el("li", {}, item)));
  const parts = groups.flatMap(({ name, operations }) => [
    el("h2", {}, name),
    links(operations.map((item) => el("a", { href: `#${idOf(item)}` }, item.path))),
  ]);
  const names = schemas.map(([name]) => el("a", { href: `#schema-${name}` }, name));
  return el(
    "details",
    { open: "" },
    el("summary", {}, "Contents"),
    ...parts,
    el("h2", {}, "Objects"),
    links(names),
  );
}

/** Open what hides the target of the address, and go there. */
function showTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let at = target.parentElement; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  target.scrollIntoView();
}

async function show() {
  const state = document.getElementById("state");
  const reference = document.getElementById("reference");
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`/openapi.json answered ${answer.status}`);
    const found = await answer.json();
    const groups = groupsOf(found);
    const schemas = Object.entries(found.components.schemas);
    document.getElementById("version").textContent = `Version ${found.info.version}, OpenAPI ${found.openapi}`;
    const menu = contents(groups, schemas);
    // A phone shows the reference first; beside it, the contents have no button that opens them.
    const wide = matchMedia("(min-width: 60rem)");
    const fit = () => (menu.open = wide.matches);
    wide.addEventListener("change", fit);
    fit();
    document.getElementById("contents").append(menu);
    reference.append(
      ...prose(found.info.description),
      ...groups.map(({ name, description, operations }) =>
        el(
          "section",
          { "aria-label": name },
          el("h2", {}, name),
          el("p", { class: "dim" }, description),
          ...operations.map((item) => operationArticle(found, item)),
        ),
      ),
      el("section", { "aria-label": "Objects" }, el("h2", {}, "Objects"), ...schemas.map(schemaArticle)),
    );
    state.remove();
    showTarget();
  } catch (error) {
    state.textContent = `The document cannot be shown: ${error.message}. Load the page again to try once more.`;
    state.className = "problem";
  }
}

addEventListener("hashchange", showTarget);
await show();
