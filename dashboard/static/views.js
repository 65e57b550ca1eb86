// The views of the page, by the name in their address.
//
// A view is a class:
//   constructor(shell, route)  the shell is described in app.js, the route in routes.js
//   element                    what is shown
//   title                      of the document and of what is announced
//   update()                   asks for what is shown; a problem it throws stands in the banner
// and, where it needs them:
//   static every               milliseconds between updates (a second when left out)
//   navigate(route)            the same view with another address: it is kept, and its focus
//   showCluster(cluster)       whenever the document of /api/cluster came
//   close()                    another view takes its place

import { AuditView } from "./audit.js";
import { ClusterView } from "./cluster.js";
import { NamespacesView } from "./namespaces.js";
import { QueuesView } from "./queues.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { TokensView } from "./tokens.js";

// `call` is what the view asks for: it is offered to those who may. `key` follows a g.
export const VIEWS = {
  cluster: { View: ClusterView, label: "Cluster", call: "DescribeCluster", key: "c" },
  runs: { View: RunsView, label: "Runs", call: "ListWorkflows", key: "r" },
  run: { View: RunView, within: "runs" },
  queues: { View: QueuesView, label: "Queues", call: "ListQueues", key: "q" },
  namespaces: { View: NamespacesView, label: "Namespaces", call: "ListNamespaces", key: "n" },
  tokens: { View: TokensView, label: "Tokens", call: "ListTokens", key: "t" },
  audit: { View: AuditView, label: "Audit", call: "ListAudit", key: "a" },
};
