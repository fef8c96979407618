import { type Conformance, conformance } from './conformance.js';
import { type Memory, memoryRows } from './memory.js';

// The entry point for a worker in workerd. The body of a POST request is a `Conformance` as JSON, and the response
// contains the results of the checks. At the path /memory, the body is a `MeasuredMemory`, and the response shows the
// memory of the process.

/** `report` is a URL that tells the worker the memory of its process. */
export interface MeasuredMemory {
  readonly endpoint: string;
  readonly report: string;
}

// biome-ignore lint/style/noDefaultExport: workerd requires a default export
export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method !== 'POST') return new Response('ready');
    const settings: unknown = await request.json();
    if (new URL(request.url).pathname !== '/memory') return Response.json(await conformance(settings as Conformance));
    const { endpoint, report } = settings as MeasuredMemory;
    return Response.json(await memoryRows(endpoint, async () => (await fetch(report)).json() as Promise<Memory>));
  },
};
