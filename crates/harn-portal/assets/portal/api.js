// API

export async function api(path, { params, body, signal } = {}) {
  const query = new URLSearchParams(params ?? {}).toString();
  const options = { signal, headers: { accept: 'application/json' } };
  if (body) Object.assign(options, { method: 'POST', body: JSON.stringify(body) });
  if (body) options.headers['content-type'] = 'application/json';
  let reply;
  try {
    reply = await fetch(query ? `${path}?${query}` : path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The portal server cannot be reached. Is `harn portal` still running?');
  }
  const data = await reply.json().catch(() => null);
  if (!reply.ok) throw new Error(data?.error || `The server answered with status ${reply.status}.`);
  if (data == null || typeof data !== 'object') throw new Error('The server sent a reply that is not JSON.');
  return data;
}

let metaRequest = null;

// The metadata of the server does not change while it runs, so it is fetched once.
export function getMeta() {
  metaRequest ??= api('/api/meta').catch((error) => {
    metaRequest = null;
    throw error;
  });
  return metaRequest;
}
