// A language model on loopback: it speaks OpenAI's chat completions, and answers each prompt by a script.
import { once } from "node:events";
import http from "node:http";

/**
 * One answer: pieces of text, each a string or a function that returns one (or a promise of one, which holds the answer
 * up), and after them a tool call.
 * @typedef {{ say?: (string | (() => string | Promise<string>))[], call?: { name: string, input: object } }} Answer
 */

export class Model {
  /** The bodies of the requests so far. */
  requests = [];
  #script;
  #server;

  /**
   * Starts the model. A prompt that contains a key of the script gets its answers, one after the other: each tool call
   * is followed by a request with the tool's output.
   * @param {Record<string, Answer[]>} script
   */
  static async start(script) {
    const model = new Model();
    model.#script = script;
    model.#server = http.createServer((request, response) => {
      // An agent that cancels its request, or is ended, leaves in mid-answer.
      response.on("error", () => {});
      model.#serve(request, response).catch((error) => response.destroy(error));
    });
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    model.url = `http://127.0.0.1:${model.#server.address().port}`;
    return model;
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    if (request.method === "GET") {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data: [{ id: "scripted", object: "model" }] }));
      return;
    }
    const body = JSON.parse(Buffer.concat(pieces));
    this.requests.push(body);
    await write(response, body, this.#choose(body));
  }

  /** Returns the answer to this conversation: which one, is told by the number of answers since the newest prompt. */
  #choose({ messages, tools }) {
    // Agents ask for a title of the conversation without tools.
    if (!tools?.length) return { say: ["A scripted story"] };
    const asked = messages.findLastIndex(({ role }) => role === "user");
    const prompt = JSON.stringify(messages[asked].content);
    const key = Object.keys(this.#script).find((key) => prompt.includes(key));
    const answered = messages.slice(asked).filter(({ role }) => role === "assistant").length;
    const answer = this.#script[key]?.[answered];
    return answer ?? { say: [`The script has no answer ${answered} to ${prompt}`] };
  }
}

/** Writes an answer, as an event stream if the request asks for one. */
async function write(response, { model, stream }, { say = [], call }) {
  const head = { id: "chatcmpl-scripted", created: 1, model };
  const usage = { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 };
  const finish = call ? "tool_calls" : "stop";
  const fn = call && { name: call.name, arguments: JSON.stringify(call.input) };
  const calls = call && [{ index: 0, id: `call_${crypto.randomUUID()}`, type: "function", function: fn }];
  if (!stream) {
    let content = "";
    for (const piece of say) content += typeof piece === "string" ? piece : await piece();
    const message = { role: "assistant", content, ...(calls && { tool_calls: calls }) };
    const choices = [{ index: 0, message, finish_reason: finish }];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  const send = (choices, more) => {
    response.write(`data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", choices, ...more })}\n\n`);
  };
  const add = (delta, finish_reason = null) => send([{ index: 0, delta, finish_reason }]);
  add({ role: "assistant", content: "" });
  for (const piece of say) add({ content: typeof piece === "string" ? piece : await piece() });
  if (calls) add({ tool_calls: calls });
  add({}, finish);
  send([], { usage });
  response.end("data: [DONE]\n\n");
}
