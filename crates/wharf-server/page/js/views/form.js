// @ts-check
/** A form that an agent asks a person to fill in: the flat JSON schemas of ACP's elicitation. */
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { safeLink } from "../markdown.js";
import { plainText } from "../text.js";

/** @import { AnswerArgs, AskForm as Form } from "contract" */
/** @import { EventOf } from "../html.js" */

/**
 * A field as the agent describes it.
 * @typedef {{ type?: string, title?: string, description?: string, default?: unknown,
 *   enum?: string[], enumNames?: string[], oneOf?: { const: string, title?: string }[] }} FormField
 */

/** @param {{ form: Form, busy: boolean, onAnswer: (body: AnswerArgs) => void }} props */
export function AskForm({ form, busy, onAnswer }) {
  const schema = /** @type {{ properties?: Record<string, FormField>, required?: string[] } | null | undefined} */ (
    form.schema
  );
  const properties = Object.entries(schema?.properties ?? {});
  const [values, setValues] = useState(() =>
    Object.fromEntries(properties.map(([name, field]) => [name, field.default])),
  );
  const required = new Set(schema?.required ?? []);
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
      onChange=${(/** @type {unknown} */ value) => setValues({ ...values, [name]: value })} />`,
    )}
    <div class="ask-options"><button class="allow allow-once" type="submit" disabled=${busy}>Send</button>
      <button class="reject" type="button" disabled=${busy} onClick=${() => onAnswer({ action: "decline" })}>Decline</button></div>
  </form>`;
}

/**
 * @param {{ name: string, field: FormField, required: boolean, value: unknown,
 *   onChange: (value: unknown) => void }} props
 */
function Field({ name, field, required, value, onChange }) {
  const label = plainText(field.title ?? name);
  const choices =
    field.enum?.map((word, index) => ({
      value: word,
      name: field.enumNames?.[index] ?? word,
    })) ?? field.oneOf?.map((one) => ({ value: one.const, name: one.title ?? one.const }));
  const hint = field.description ? html`<span class="faint">${plainText(field.description)}</span>` : "";
  if (field.type === "boolean") {
    return html`<label class="check"><input type="checkbox" checked=${Boolean(value)} onChange=${(/** @type {EventOf<HTMLInputElement>} */ event) => onChange(event.target.checked)} /> ${label} ${hint}</label>`;
  }
  if (choices) {
    return html`<label>${label} ${hint}<select required=${required} value=${value ?? ""} onChange=${(/** @type {EventOf<HTMLSelectElement>} */ event) => onChange(event.target.value)}>
      <option value="">Choose</option>${choices.map((choice) => html`<option value=${choice.value}>${plainText(choice.name)}</option>`)}</select></label>`;
  }
  const isNumber = ["number", "integer"].includes(field.type ?? "");
  return html`<label>${label} ${hint}<input type=${isNumber ? "number" : "text"} required=${required} value=${value ?? ""} step=${field.type === "integer" ? 1 : "any"}
    onInput=${(/** @type {EventOf<HTMLInputElement>} */ event) => onChange(isNumber && event.target.value !== "" ? Number(event.target.value) : event.target.value)} /></label>`;
}
