// Draws a board as Grafana would: `node draw.mjs BOARD.json PROMETHEUS FROM TO PICTURE.png`, times in Unix seconds.
// The board's queries are asked of that Prometheus; Grafana's own components draw the answers in a headless Chromium.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const [file, prometheus, from, to, picture] = process.argv.slice(2);
const HERE = dirname(fileURLToPath(import.meta.url));
const WIDTH = 1600, CELL = 38, POINTS = 240, WINDOW = process.env.WINDOW ?? "15s";
const CHROMIUM = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars " +
  "--disable-background-networking --disable-component-update --disable-sync --virtual-time-budget=8000";

const board = JSON.parse(readFileSync(file, "utf8"));
const step = Math.max(1, Math.round((to - from) / POINTS));
const answers = {};
for (const panel of board.panels) {
  answers[panel.id] = await Promise.all((panel.targets ?? []).map((target) => ask(target)));
}
const height = Math.max(...board.panels.map(({ gridPos: at }) => (at.y + at.h) * CELL)) + 60;
const folder = mkdtempSync(join(tmpdir(), "board-"));
const script = join(folder, "board.js");
await build({
  entryPoints: [join(HERE, "board.tsx")], bundle: true, minify: true, outfile: script, jsx: "automatic",
  logLevel: "error",
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
  loader: { ".svg": "dataurl", ".woff2": "dataurl", ".woff": "dataurl", ".ttf": "dataurl", ".png": "dataurl" },
});
const told = JSON.stringify({ board, answers, from: from * 1000, to: to * 1000, width: WIDTH, cell: CELL });
writeFileSync(join(folder, "told.js"), `window.told = ${told};`);
writeFileSync(join(folder, "index.html"), `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="board.css">
<body style="margin:0"><div id="board"></div><script src="told.js"></script><script src="board.js"></script>`);
execFileSync("chromium", [...CHROMIUM.split(" "), `--window-size=${WIDTH},${height}`, `--user-data-dir=${folder}/profile`,
  `--screenshot=${resolve(picture)}`, pathToFileURL(join(folder, "index.html")).href], { stdio: "inherit" });
console.log(picture);

async function ask({ expr, legendFormat, refId }) {
  const query = expr.replaceAll("$__rate_interval", WINDOW).replaceAll("$__range_s", `${Math.round(to - from)}`).replaceAll("$__range", `${Math.round(to - from)}s`)
    .replace(/\$\w+/g, ".*");
  const url = `${prometheus}/api/v1/query_range?${new URLSearchParams({ query, start: from, end: to, step })}`;
  const answer = await (await fetch(url)).json();
  if (answer.status !== "success") throw new Error(`${query}: ${answer.error}`);
  return answer.data.result.map(({ metric, values }) => ({ refId, values: whole(values), name: named(legendFormat, metric) }));
}

// What is missing is a gap, as Grafana's data source has it, and no line to the next value.
function whole(values) {
  const known = new Map(values);
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => Number(from) + i * step)
    .map((at) => [at, known.get(at) ?? "NaN"]);
}

function named(legend, labels) {
  return legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? "");
}
