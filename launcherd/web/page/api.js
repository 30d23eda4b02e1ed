// Asks launcherd. Every path is below /api/.

export async function ask(path) {
  const response = await fetch(`/api/${path}`);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

// Reads a stream of events. `take` gets each message, `ended` the end: {} or {code, message}. The browser reconnects by
// itself. Returns the function that closes the stream.
export function follow(path, name, take, ended) {
  const source = new EventSource(`/api/${path}`);
  source.addEventListener(name, (event) => take(JSON.parse(event.data)));
  source.addEventListener("end", (event) => {
    source.close();
    ended(JSON.parse(event.data));
  });
  return () => source.close();
}
