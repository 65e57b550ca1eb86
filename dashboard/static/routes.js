// Addresses within the page: #/runs?status=FAILED, #/run/<id>/<run id>?ns=shop. Pure.

// {name, path: [decoded segments], query: {…}}. What the first releases linked to goes on to work:
// they had the list of runs, filtered by the query, at #/.
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  const query = Object.fromEntries(new URLSearchParams(search));
  const [name, ...rest] = path.split("/").slice(1).map(decoded);
  if (name) return { name, path: rest, query };
  return { name: Object.keys(query).length ? "runs" : "cluster", path: [], query };
}

export function link(name, path = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  return `#/${[name, ...path].map(encodeURIComponent).join("/")}${search}`;
}

// An address that was typed may be no encoding of anything.
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
