// Asks launcherd. Every path is below /api/.

const RECONNECT_MS = 2000;
const READ_MS = 8;  // of one task

export async function ask(path) {
  const response = await fetch(`/api/${path}`);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

const turns = { channel: null, waiting: [] };

// Resolves in the next task. A timer would be slow in a hidden tab.
function nextTask() {
  if (!turns.channel) {
    turns.channel = new MessageChannel();
    turns.channel.port1.onmessage = () => turns.waiting.shift()();
  }
  return new Promise((resolve) => {
    turns.waiting.push(resolve);
    turns.channel.port2.postMessage(0);
  });
}

// Splits the text of a stream into server-sent events {id, event, data}. Returns what is left: the beginning of the next.
export function takeEvents(text, take) {
  let from = 0;
  for (let to = text.indexOf("\n\n"); to >= 0; to = text.indexOf("\n\n", from)) {
    const fields = {};
    for (const line of text.slice(from, to).split("\n")) {
      const at = line.indexOf(": ");
      if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
    }
    take(fields);
    from = to + 2;
  }
  return text.slice(from);
}

// Reads one reply to its end. It leaves the browser time between its parts, which EventSource does not.
async function readStream(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let until = performance.now() + READ_MS;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    rest = takeEvents(rest + part.value, take);
    if (performance.now() < until) continue;
    await nextTask();
    until = performance.now() + READ_MS;
  }
}

// Reads a stream of events. `take` gets the text of each message, which is JSON, and `ended` the end: {} or
// {code, message}. If the connection is lost, it is made again, and goes on after the last message. Returns the function
// that closes the stream.
export function follow(path, name, take, ended) {
  const abort = new AbortController();
  let id = "";
  let isOver = false;
  const takeFields = (fields) => {
    if (isOver) return;
    if (fields.id) id = fields.id;
    if (fields.event === name) take(fields.data);
    if (fields.event !== "end") return;
    isOver = true;
    ended(JSON.parse(fields.data));
  };
  const connect = async () => {
    try {
      const response = await fetch(`/api/${path}`, { headers: id ? { "Last-Event-ID": id } : {}, signal: abort.signal, cache: "no-store" });
      if (response.ok) {
        await readStream(response, takeFields);
      } else {
        isOver = true;
        ended(await response.json());
      }
    } catch (problem) {
      if (!abort.signal.aborted && !(problem instanceof TypeError)) throw problem;
    }
    if (!isOver && !abort.signal.aborted) setTimeout(connect, RECONNECT_MS);
  };
  connect();
  return () => {
    isOver = true;
    abort.abort();
  };
}
