/** What the reference shows of an OpenAPI document. Pure: no element is made here. */

const METHODS = ["get", "post", "put", "patch", "delete"];

/**
 * Return what a JSON pointer of the document refers to.
 * @param {any} document
 * @param {any} item a part of the document, perhaps a reference
 * @returns {any}
 */
export function resolved(document, item) {
  if (!item.$ref) return item;
  const found = item.$ref.slice(2).split("/").reduce((part, name) => part[name], document);
  const { $ref, ...own } = item;
  return { ...found, ...own };
}

/**
 * Return the name of the schema that a reference refers to, empty for another schema.
 * @param {any} schema
 * @returns {string}
 */
export function nameOf(schema) {
  return schema.$ref ? schema.$ref.split("/").pop() : "";
}

/**
 * Return the type of a schema in pieces: text, or a link to a named schema.
 * @param {any} schema
 * @returns {{text: string, name?: string}[]}
 */
export function typeOf(schema) {
  if (schema.$ref) return [{ text: nameOf(schema), name: nameOf(schema) }];
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return joined(choices.map(typeOf), " or ");
  if (schema.const !== undefined) return [{ text: String(schema.const) }];
  if (schema.enum) return [{ text: schema.enum.join(" | ") }];
  const types = [schema.type ?? "any"].flat();
  const isOptional = types.length > 1 && types.includes("null");
  const kind = types.filter((type) => type !== "null").join(" or ");
  const end = isOptional ? [{ text: " or null" }] : [];
  if (kind === "array") return [{ text: "list of " }, ...typeOf(schema.items ?? {}), ...end];
  if (kind === "object" && schema.additionalProperties) {
    return [{ text: "object, each value " }, ...typeOf(schema.additionalProperties), ...end];
  }
  return [{ text: (schema.format === "binary" ? "file" : kind) + rangeOf(schema) }, ...end];
}

/**
 * @param {any[][]} lists
 * @param {string} between
 * @returns {any[]}
 */
function joined(lists, between) {
  return lists.flatMap((list, index) => (index ? [{ text: between }, ...list] : list));
}

/**
 * @param {any} schema
 * @returns {string}
 */
function rangeOf(schema) {
  if (schema.minimum === undefined) return "";
  return ` ${shown(schema.minimum)} to ${shown(schema.maximum)}`;
}

/**
 * @param {number} number
 * @returns {string}
 */
function shown(number) {
  return String(number).replace("-", "−");
}

/**
 * Return the default of a schema as text, empty if it has none.
 * @param {any} schema
 * @returns {string}
 */
export function defaultOf(schema) {
  if (schema.default === undefined || schema.default === "") return "";
  return Array.isArray(schema.default) ? schema.default.join(", ") : String(schema.default);
}

/**
 * @typedef {{name: string, where: string, schema: any, description: string, isRequired: boolean, isOption: boolean}} Field
 */

/**
 * Return the fields of an operation: those of its address, then those of its body.
 * @param {any} operation
 * @returns {Field[]}
 */
export function fieldsOf(operation) {
  const parameters = (operation.parameters ?? []).map((item) => ({
    name: item.name,
    where: item.in,
    schema: item.schema,
    description: item.description ?? "",
    isRequired: item.required ?? false,
    isOption: item["x-conch-option"] ?? false,
  }));
  const contents = Object.values(operation.requestBody?.content ?? {});
  return [...parameters, ...contents.flatMap(({ schema }) => propertiesOf(schema, "body"))];
}

/**
 * Return the properties of an object.
 * @param {any} schema
 * @param {string} [where]
 * @returns {Field[]}
 */
export function propertiesOf(schema, where = "") {
  return Object.entries(schema.properties ?? {}).map(([name, item]) => ({
    name,
    where,
    schema: item,
    description: item.description ?? "",
    isRequired: (schema.required ?? []).includes(name),
    isOption: item["x-conch-option"] ?? false,
  }));
}

/**
 * Return the operations by the groups of the document.
 * @param {any} document
 * @returns {{name: string, description: string, operations: {method: string, path: string, operation: any}[]}[]}
 */
export function groupsOf(document) {
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => ({
      method,
      path,
      operation: methods[method],
    })),
  );
  return document.tags.map(({ name, description }) => ({
    name,
    description,
    operations: all.filter(({ operation }) => operation.tags.includes(name)),
  }));
}

/**
 * Return the answers of an operation: those that went well, and errors.
 * @param {any} document
 * @param {any} operation
 * @returns {{good: [string, any][], errors: [string, any][]}}
 */
export function answersOf(document, operation) {
  const all = Object.entries(operation.responses).map(([status, answer]) => [
    status,
    resolved(document, answer),
  ]);
  return {
    good: all.filter(([status]) => status < "400"),
    errors: all.filter(([status]) => status >= "400"),
  };
}

/**
 * Return lines to copy, with the address of this gateway.
 * @param {string} origin scheme, host and port
 * @param {string} path
 * @param {any} operation
 * @returns {string[]}
 */
export function samplesOf(origin, path, operation) {
  if (operation.responses["101"]) return [origin.replace(/^http/, "ws") + path];
  return (operation["x-codeSamples"] ?? []).map(({ source }) =>
    source.replace(/\w+:\/\/127\.0\.0\.1:9000/, origin),
  );
}

/**
 * Return paragraphs of text, each in pieces of which every second one is code.
 * @param {string} text
 * @returns {string[][]}
 */
export function paragraphsOf(text) {
  return text
    .trim()
    .split(/\n\s*\n/)
    .map((paragraph) => paragraph.replaceAll("\n", " ").split("`"));
}
