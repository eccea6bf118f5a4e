// The compiled functions: unpacked once, on this page and in its worker.

import init, * as lab from "wasm";

const packed = () => document.getElementById("wasm").textContent;

async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

let module;

export async function load() {
  module = await unpack(packed());
  await init({ module_or_path: module });
  lab.start();
  return lab;
}

// A worker that runs one job at a time and is ended when another begins: a sum cannot be interrupted otherwise.
export class Jobs {
  #worker = null;
  #current = null;

  run(job, onPoint) {
    this.cancel();
    this.#worker ??= this.#start();
    return new Promise((resolve, reject) => {
      this.#current = { onPoint, resolve, reject };
      this.#worker.postMessage(job);
    });
  }

  cancel() {
    if (!this.#current) return;
    this.#worker.terminate();
    this.#worker = null;
    const { resolve } = this.#current;
    this.#current = null;
    resolve(false);
  }

  #start() {
    const url = URL.createObjectURL(new Blob([WORKER_SOURCE], { type: "text/javascript" }));
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.postMessage({ module });
    worker.onmessage = ({ data }) => this.#heard(data);
    worker.onerror = (event) => this.#heard({ error: event.message || "the worker stopped" });
    return worker;
  }

  #heard({ point, error, done }) {
    const current = this.#current;
    if (!current) return;
    if (point !== undefined) return current.onPoint(point);
    this.#current = null;
    if (error !== undefined) current.reject(new Error(error));
    else if (done) current.resolve(true);
  }
}

export { lab };
