// Holds every board to Grafana's own types: `node check.mjs FOLDER_OF_BOARDS`, where these packages are installed.
// A board is written as a literal, so that a key that Grafana does not know is an error as well as a wrong value.
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import ts from "typescript";

const HEAD = `
import type * as grafana from "@grafana/schema";
// JSON has the values of enums, not their names.
type Plain<T> = T extends string ? \`\${T}\` : T extends number | boolean | null | undefined ? T
  : T extends (infer One)[] ? Plain<One>[] : T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;
// What the plugin of Prometheus adds to an annotation.
type Note = Plain<Omit<grafana.AnnotationQuery, "target">> & {
  target: { refId: string; expr: string; interval: string }; titleFormat: string };
type Board = Omit<Plain<grafana.Dashboard>, "annotations"> & { annotations: { list: Note[] } };
type Lines = Plain<grafana.GraphFieldConfig>;
type Shown = Plain<grafana.OptionsWithLegend & grafana.OptionsWithTooltip>;
type Number = Plain<grafana.SingleStatBaseOptions> & Partial<Record<"graphMode" | "colorMode" | "justifyMode" | "textMode", string>>;
`;

const folder = process.argv[2];
mkdirSync("checked", { recursive: true });
const files = readdirSync(folder).filter((name) => name.endsWith(".json")).map((name) => {
  const board = JSON.parse(readFileSync(join(folder, name), "utf8"));
  const parts = board.panels.flatMap((panel) => {
    const custom = panel.fieldConfig?.defaults?.custom;
    if (panel.type === "timeseries") return [[custom, "Lines"], [panel.options, "Shown"]];
    return panel.type === "stat" ? [[panel.options, "Number"]] : [];
  });
  const checks = [[board, "Board"], ...parts].map(([value, type]) => `${JSON.stringify(value)} satisfies ${type};`);
  const file = join("checked", `${basename(name, ".json")}.ts`);
  writeFileSync(file, `${HEAD}${checks.map((check, i) => `export const _${i} = ${check}`).join("\n")}\n`);
  return file;
});

const program = ts.createProgram(files, {
  strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
});
const errors = ts.getPreEmitDiagnostics(program);
for (const error of errors.slice(0, 40)) {
  const place = error.file ? basename(error.file.fileName) : "";
  const line = error.file ? error.file.getLineAndCharacterOfPosition(error.start).line : 0;
  const near = error.file ? error.file.text.slice(error.start, error.start + 60) : "";
  console.log(`${place}:${line}: ${ts.flattenDiagnosticMessageText(error.messageText, " ")} (at ${near})`);
}
console.log(`${files.length} boards, ${errors.length} errors`);
process.exit(files.length && !errors.length ? 0 : 1);
