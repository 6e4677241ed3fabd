// Reads a trace with an engine that is not ours, the one of Chrome's developer tools, and counts
// what arrives: every slice of the file, and their summed duration.
//   npm install @paulirish/trace_engine && node read_trace.mjs step.json
// Exit code 1: a slice is missing, or a duration changed. A trace that the engine refuses throws.
import fs from 'node:fs';
import * as engine from '@paulirish/trace_engine';

const trace = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const model = engine.TraceModel.Model.createWithAllHandlers();
await model.parse(trace.traceEvents, {metadata: {}});
const {data} = model.parsedTrace(0);
let slices = 0;
let microseconds = 0;
let tracks = 0;
for (const process of data.Renderer.processes.values()) {
  for (const thread of process.threads.values()) {
    ++tracks;
    slices += thread.entries.length;
    microseconds += thread.entries.reduce((sum, entry) => sum + (entry.dur ?? 0), 0);
  }
}
const written = trace.traceEvents.filter((event) => event.ph === 'X');
const written_microseconds = written.reduce((sum, event) => sum + event.dur, 0);
console.log(
    `${data.Renderer.processes.size} processes, ${tracks} tracks, ${slices} of ` +
    `${written.length} slices, ${microseconds.toFixed(1)} of ` +
    `${written_microseconds.toFixed(1)} us`);
const whole = slices === written.length &&
    Math.abs(microseconds - written_microseconds) <= 1e-6 * written_microseconds;
process.exitCode = whole ? 0 : 1;
