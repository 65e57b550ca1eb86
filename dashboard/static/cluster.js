// The cluster: every node, who leads since when, its elections, and its last hour.

import { h } from "./dom.js";

export class ClusterView {
  constructor() {
    this.element = h("section", {}, h("h1", {}, "Cluster"));
  }

  get title() {
    return "Cluster";
  }

  async update() {}
}
