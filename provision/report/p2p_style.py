"""How the page looks: light and dark, on a screen and on paper."""

from __future__ import annotations

from typing import Final

from provision.report.p2p_heat import heat_style

_LIGHT: Final = (
    "color-scheme:light;--paper:#ffffff;--ink:#1c2128;--quiet:#57606a;--line:#afb8c1;--soft:#f3f5f7;--link:#0a5bc4;"
    "--good:#0b5cad;--doubt:#8a5000;--idle:#57606a;--bad:#a4161a;--letter:#ffffff;"
    "--c0:#0065a8;--c1:#b34700;--c2:#00745a;--c3:#9a3f85;--c4:#4d545c;--c5:#7a6400"
)
_DARK: Final = (
    "color-scheme:dark;--paper:#0d1117;--ink:#e6edf3;--quiet:#9da7b3;--line:#444c56;--soft:#161c24;--link:#79b8ff;"
    "--good:#79b8ff;--doubt:#f0b35e;--idle:#9da7b3;--bad:#ff8a80;--letter:#0d1117;"
    "--c0:#5ab4f0;--c1:#ff9e57;--c2:#3ecfa5;--c3:#e69acb;--c4:#b6bec8;--c5:#d9c24a"
)
_THEMES: Final = (
    f":root{{{_LIGHT}}}\n@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}\n"
    f":root:has(#theme-light:checked){{{_LIGHT}}}\n:root:has(#theme-dark:checked){{{_DARK}}}\n"
    f"@media print{{:root,:root:has(#theme-dark:checked){{{_LIGHT}}}}}\n"
)
_DASHES: Final = ("none", "7 3", "none", "2 3", "6 3 2 3", "10 3")

_PAGE: Final = """
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1.5rem 3rem;max-width:1280px;background:var(--paper);color:var(--ink);
 font:14px/1.45 system-ui,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
html{background:var(--paper)}
h1{font-size:1.5rem;margin:0 0 .5rem}
h2{font-size:1.25rem;margin:2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.35rem 0}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,input:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--link);
 outline-offset:2px}
code,pre{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.92em}
pre{margin:.3rem 0;padding:.6rem;background:var(--soft);border:1px solid var(--line);white-space:pre-wrap}
ul{margin:.3rem 0;padding-left:1.3rem}
.quiet{color:var(--quiet)}
.away{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.defs{position:absolute}
.tools{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;justify-content:space-between;align-items:center;margin:.4rem 0}
nav{display:flex;flex-wrap:wrap;gap:.2rem .9rem}
fieldset{border:0;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem .8rem}
fieldset legend{float:left;padding:0;margin-right:.8rem;color:var(--quiet)}
details{margin:.6rem 0}
summary{cursor:pointer;padding:.2rem 0;font-weight:600}
"""
_TABLES: Final = """
.wide{overflow-x:auto;margin:.8rem 0;max-width:100%;position:relative}
table{border-collapse:collapse;position:relative}
caption{text-align:left;padding:.2rem 0;font-weight:600}
.plain,.figures{width:100%}
.plain th,.plain td,.figures th,.figures td{border-bottom:1px solid var(--line);padding:.3rem .6rem .3rem 0;
 text-align:left;vertical-align:top;font-variant-numeric:tabular-nums}
.plain thead th,.figures thead th{vertical-align:bottom;color:var(--quiet);font-weight:600}
.plain tbody th,.figures tbody th{font-weight:600}
.plain th,.plain td{min-width:3.5rem;overflow-wrap:break-word}
.plain td ul{font-size:.92em}
.why td:last-child{min-width:15rem}
.plain.why tbody th{white-space:normal}
.figures{width:auto}
.figures td,.figures thead th{text-align:right;padding-left:1.2rem}
.figures tbody th,.plain tbody th{white-space:nowrap}
.figures thead th:first-child{text-align:left;padding-left:0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(34rem,1fr));gap:.15rem 1.5rem;margin:.4rem 0}
.facts div{display:grid;grid-template-columns:9rem 1fr;gap:.6rem}
dt{color:var(--quiet)} dd{margin:0}
"""
_VERDICTS: Final = """
.banner{border:1px solid var(--line);border-left:.5rem solid var(--shade);padding:.5rem 1rem;background:var(--soft);
 margin:.8rem 0}
.headline{font-size:1.25rem;display:flex;gap:.6rem;align-items:center}
.headline .v{flex:none}
.warning{font-weight:600;color:var(--bad)}
.bP{--shade:var(--good)} .bG,.bU{--shade:var(--doubt)} .bN,.bI{--shade:var(--idle)} .bW,.bH{--shade:var(--bad)}
.v{display:inline-grid;place-items:center;width:1.65rem;height:1.65rem;font-size:.8rem;font-weight:700;line-height:1;
 color:var(--letter);background:var(--idle);vertical-align:middle;print-color-adjust:exact}
.vP{background:var(--good);border-radius:50%}
.vG{background:var(--doubt);clip-path:polygon(50% 0,100% 50%,50% 100%,0 50%)}
.vN{border-radius:2px}
.vI{border-radius:2px;background:none;color:var(--idle);border:2px dashed var(--idle)}
.vW{background:var(--bad);clip-path:polygon(30% 0,70% 0,100% 30%,100% 70%,70% 100%,30% 100%,0 70%,0 30%)}
.vH{background:var(--bad);clip-path:polygon(50% 0,100% 96%,0 96%);align-items:end;padding-bottom:.15rem}
.vU{background:none;color:var(--doubt);border:2px dotted var(--doubt);border-radius:50%}
.named{white-space:nowrap}
.name{margin-left:.4rem;font-weight:600;color:var(--ink)}
.beside{display:flex;flex-wrap:wrap;gap:1rem 2.5rem;align-items:flex-start}
.side{flex:1 1 20rem}
.meanings div{margin:.4rem 0} .meanings dd{margin-left:2.1rem}
.matrix td,.matrix thead th{width:2.2rem;height:2.2rem;text-align:center;padding:0}
.matrix tbody td{border:1px solid var(--line)}
.matrix tbody th{text-align:left;padding-right:.7rem;white-space:nowrap}
.mixed .nvlink{border:4px double var(--line)}
.matrix caption{font-weight:400;color:var(--quiet)}
.self{background:var(--soft)}
"""
_FIGURES: Final = """
.maps{display:flex;flex-wrap:wrap;gap:1rem 1.6rem;align-items:flex-end}
.heat{min-width:13rem;max-width:100%;font-variant-numeric:tabular-nums}
.heat caption{max-width:100%;font-weight:400;color:var(--quiet);line-height:1.3}
.heat caption b{display:block;color:var(--ink)}
.heat td,.heat th{height:2.1rem;min-width:2.75rem;padding:0 .15rem;text-align:center;font-size:.86rem}
.heat tbody td{border:1px solid var(--paper);print-color-adjust:exact}
.heat th,.heat thead td{min-width:1.6rem;color:var(--quiet);font-weight:600}
.crowded td,.crowded th{height:1.65rem;min-width:2.1rem;padding:0;font-size:.72rem}
.none{background:repeating-linear-gradient(45deg,transparent 0 5px,var(--line) 5px 6px)}
.odd{position:relative}
.odd::after{content:"";position:absolute;top:0;right:0;border:.35rem solid;border-color:var(--bad) var(--bad)
 transparent transparent;outline:0;filter:drop-shadow(0 0 1px var(--paper))}
.sample{display:inline-block;width:1rem;height:1rem;vertical-align:middle;border:1px solid var(--line)}
.legend{color:var(--quiet);max-width:70rem}
.bar{display:inline-flex;vertical-align:middle;border:1px solid var(--line)}
.bar span{width:.8rem;height:.9rem;print-color-adjust:exact}
figure{margin:.6rem 0}
figcaption{font-weight:600}
.charts{display:flex;flex-wrap:wrap;gap:.6rem 1.6rem}
.chart{max-width:100%;overflow:visible}
.pair .chart{display:inline-block}
.axes line{stroke:var(--line);stroke-width:.6}
.axes text{fill:var(--quiet);font-size:11px} .axes .end{text-anchor:end} .axes .mid{text-anchor:middle}
.chart polyline{fill:none;stroke-width:1.8}
.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0}
.key svg{vertical-align:middle}
@media print{
 body{max-width:none;padding:0;font-size:11px} .tools{display:none} .wide{overflow:visible} section{break-before:auto}
 .heat,figure,.banner,tr{break-inside:avoid} h2,h3,summary{break-after:avoid}
 details::details-content{content-visibility:visible;block-size:auto}
}
@media (forced-colors:active){.heat td,.v{forced-color-adjust:none}}
"""


def style() -> str:
    """Return the style sheet."""
    curves = "".join(
        f".s{number}{{stroke:var(--c{number});stroke-dasharray:{dash};marker:url(#mark{number})}}\n"
        f".m{number}{{fill:var(--c{number})}} .chart .b{number}{{fill:var(--c{number});fill-opacity:.1}}\n"
        for number, dash in enumerate(_DASHES)
    )
    return _THEMES + _PAGE + _TABLES + _VERDICTS + _FIGURES + curves + heat_style()
