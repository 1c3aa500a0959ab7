// A board drawn with Grafana's own panels. Their plugins live in Grafana itself; what these are made of is @grafana/ui.
import { createTheme, dateTime, FieldType, getDisplayProcessor, type DataFrame, type Field } from "@grafana/data";
import { BigValue, GlobalStyles, PanelChrome, ThemeContext, TimeSeries } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import "uplot/dist/uPlot.min.css";

const { board, answers, from, to, width, cell } = (window as any).told;
const theme = createTheme({ colors: { mode: "dark" } });
const GAP = 8, TOP = 52;
const range = { from: dateTime(from), to: dateTime(to), raw: { from: dateTime(from), to: dateTime(to) } };

function frames(panel: any): DataFrame[] {
  let series = 0;
  return answers[panel.id].flat().map(({ name, values, refId }: any) => {
    const config = { ...panel.fieldConfig.defaults, displayName: name };
    const time: Field = { name: "Time", type: FieldType.time, config: {}, values: values.map(([at]: any) => at * 1000) };
    const value: Field = {
      name, type: FieldType.number, config, state: { seriesIndex: series++, displayName: name },
      values: values.map(([, told]: any) => (told === "NaN" ? null : Number(told))),
    };
    for (const field of [time, value]) field.display = getDisplayProcessor({ field, theme, timeZone: "utc" });
    return { refId, name, fields: [time, value], length: values.length };
  });
}

function Lines({ panel, width, height }: any) {
  const legend = { ...panel.options.legend, showLegend: true };
  return <TimeSeries frames={frames(panel)} timeRange={range} timeZone="utc" width={width} height={height} legend={legend} />;
}

function Numbers({ panel, width, height }: any) {
  const all = frames(panel);
  const each = width / Math.max(1, all.length);
  return (
    <div style={{ display: "flex" }}>
      {all.map(({ fields: [time, field] }, i) => {
        const last = [...field.values].reverse().find((value) => value !== null);
        const value = { ...field.display!(last), title: all.length > 1 ? field.name : undefined };
        return (
          <BigValue key={i} value={value} width={each} height={height} theme={theme} {...panel.options}
            sparkline={{ y: field, x: time }} />
        );
      })}
    </div>
  );
}

function Panel({ panel }: any) {
  const { x, y, w, h } = panel.gridPos;
  const box = { left: (x * width) / 24 + GAP / 2, top: TOP + y * cell, width: (w * width) / 24 - GAP, height: h * cell - GAP };
  const style = { position: "absolute", ...box } as const;
  if (panel.type === "row") return <div style={{ ...style, font: "500 16px sans-serif", paddingTop: 6 }}>⌄ {panel.title}</div>;
  const Shown = panel.type === "stat" ? Numbers : Lines;
  const empty = answers[panel.id].flat().length === 0;
  return (
    <div style={style}>
      <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height}>
        {(width, height) => (empty ? <div>No data</div> : <Shown panel={panel} width={width} height={height} />)}
      </PanelChrome>
    </div>
  );
}

createRoot(document.getElementById("board")!).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <div style={{ background: theme.colors.background.canvas, color: theme.colors.text.primary, position: "fixed", inset: 0 }}>
      <h3 style={{ position: "absolute", left: 12, top: 12, font: "500 20px sans-serif" }}>{board.title}</h3>
      {board.panels.map((panel: any) => <Panel key={panel.id} panel={panel} />)}
    </div>
  </ThemeContext.Provider>,
);
