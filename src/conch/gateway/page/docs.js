/** Shows the OpenAPI document with Swagger UI. */

/** Where the examples of the document send their requests. */
const EXAMPLE_URL = /\w+:\/\/127\.0\.0\.1:9000/g;

const nothing = () => () => null;
const justText = (_, { React }) => ({ text }) => React.createElement("span", {}, text);
/** Leaves out a choice of one server, and buttons and links inside of other buttons. */
const SIMPLER = {
  wrapComponents: {
    ...{ ServersContainer: nothing, CopyToClipboardBtn: nothing },
    DeepLink: justText,
  },
};

/**
 * Return a document with its examples in the descriptions, where Swagger UI shows them.
 * @param {string} text
 * @returns {any}
 */
function withExamples(text) {
  const spec = JSON.parse(text.replaceAll(EXAMPLE_URL, location.origin));
  for (const operation of Object.values(spec.paths).flatMap(Object.values)) {
    const lines = (operation["x-codeSamples"] ?? []).map(({ source }) => `${source}\n`);
    if (lines.length) operation.description += `\n\n\`\`\`\n${lines.join("")}\`\`\``;
  }
  return spec;
}

async function show() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const color = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", color);
  color();
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`/openapi.json answered ${answer.status}`);
    const spec = withExamples(await answer.text());
    const settings = { dom_id: "#reference", deepLinking: true, plugins: [() => SIMPLER] };
    globalThis.SwaggerUIBundle({ spec, ...settings });
  } catch (error) {
    const again = "Load the page again to try once more.";
    document.querySelector("[role=status]").textContent =
      `The document cannot be shown: ${error.message}. ${again}`;
  }
}

await show();
