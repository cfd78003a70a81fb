// @ts-check
/** A form that an agent asks a person to fill in: the flat JSON schemas of ACP's elicitation. */
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { safeLink } from "../markdown.js";
import { plainText } from "../text.js";

/** @param {{ form: any, busy: boolean, onAnswer: (body: any) => void }} props */
export function AskForm({ form, busy, onAnswer }) {
  const properties = Object.entries(form.schema?.properties ?? {});
  const [values, setValues] = useState(() =>
    Object.fromEntries(properties.map(([name, field]) => [name, /** @type {any} */ (field).default])),
  );
  const required = new Set(form.schema?.required ?? []);
  const link = form.url ? safeLink(form.url) : null;
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const content = Object.fromEntries(
      Object.entries(values).filter(([, value]) => value !== undefined && value !== ""),
    );
    onAnswer({ action: "accept", content });
  };
  return html`<form class="ask-form" onSubmit=${submit}>
    ${link ? html`<p><a href=${link} target="_blank" rel="noopener noreferrer">${link}</a></p>` : ""}
    ${properties.map(
      ([
        name,
        field,
      ]) => html`<${Field} key=${name} name=${name} field=${field} required=${required.has(name)} value=${values[name]}
      onChange=${(/** @type {any} */ value) => setValues({ ...values, [name]: value })} />`,
    )}
    <div class="ask-options"><button class="allow allow-once" type="submit" disabled=${busy}>Send</button>
      <button class="reject" type="button" disabled=${busy} onClick=${() => onAnswer({ action: "decline" })}>Decline</button></div>
  </form>`;
}

/** @param {{ name: string, field: any, required: boolean, value: any, onChange: (value: any) => void }} props */
function Field({ name, field, required, value, onChange }) {
  const label = plainText(field.title ?? name);
  const choices =
    field.enum?.map((/** @type {string} */ word, /** @type {number} */ index) => ({
      value: word,
      name: field.enumNames?.[index] ?? word,
    })) ?? field.oneOf?.map((/** @type {any} */ one) => ({ value: one.const, name: one.title ?? one.const }));
  const hint = field.description ? html`<span class="faint">${plainText(field.description)}</span>` : "";
  if (field.type === "boolean") {
    return html`<label class="check"><input type="checkbox" checked=${Boolean(value)} onChange=${(/** @type {any} */ event) => onChange(event.target.checked)} /> ${label} ${hint}</label>`;
  }
  if (choices) {
    return html`<label>${label} ${hint}<select required=${required} value=${value ?? ""} onChange=${(/** @type {any} */ event) => onChange(event.target.value)}>
      <option value="">Choose</option>${choices.map((/** @type {any} */ choice) => html`<option value=${choice.value}>${plainText(choice.name)}</option>`)}</select></label>`;
  }
  const isNumber = ["number", "integer"].includes(field.type);
  return html`<label>${label} ${hint}<input type=${isNumber ? "number" : "text"} required=${required} value=${value ?? ""} step=${field.type === "integer" ? 1 : "any"}
    onInput=${(/** @type {any} */ event) => onChange(isNumber && event.target.value !== "" ? Number(event.target.value) : event.target.value)} /></label>`;
}
