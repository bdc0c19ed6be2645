#include "benches/page/style_sheet.h"

namespace kernbench::benches::page {

std::string_view style_sheet() {
  return R"css(:root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--faint:#595959;
--line:#d5d5d5;--box:#eef1f4;
--kernel:#0072b2;--both:#8a5fb0;--collective:#d55e00;--message:#009e73;--wait:#c9c9c9;
--idle:#e3e3e3;--cold:#cfd8e3}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#e8e8e8;--faint:#a9a9a9;
--line:#3a3d42;--box:#24282d;
--kernel:#56b4e9;--both:#b795d8;--collective:#f08a3c;--message:#2fc79a;--wait:#55595f;
--idle:#303338;--cold:#3b4654}}
body{margin:0 auto;padding:16px;max-width:1180px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:8px 0}h2{font-size:17px;margin:28px 0 4px}p{margin:4px 0;
color:var(--faint)}
.wide{overflow-x:auto}.beside{display:flex;flex-wrap:wrap;gap:0 24px;align-items:flex-start}
.beside>*{flex:1 1 440px;min-width:0}svg{display:block;width:100%;height:auto}
table{border-collapse:collapse;font-size:14px;margin:8px 0}
th,td{text-align:left;padding:2px 12px 2px 0;
border-bottom:1px solid var(--line);white-space:nowrap}th{font-weight:600}.n{text-align:right}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:8px 0}dt{
color:var(--faint)}
dd{margin:0;overflow-wrap:anywhere}
.key span{display:inline-block;margin-right:16px}.key i{display:inline-block;width:12px;
height:12px;
margin-right:6px;vertical-align:-1px}
text{fill:var(--ink);font:12px system-ui,sans-serif}.e{text-anchor:end}.m{text-anchor:middle}
.kernel{fill:var(--kernel);background:var(--kernel)}.both{fill:var(--both);background:var(--both)}
.collective{fill:var(--collective);background:var(--collective)}
.message{fill:var(--message);background:var(--message)}.wait{fill:var(--wait);
background:var(--wait)}
.idle{fill:var(--idle);background:var(--idle)}.hbm{fill:var(--kernel)}
.b{fill:var(--box);stroke:var(--faint)}.g{stroke:var(--line)}.roof{stroke:var(--ink);
stroke-width:2}
.l{stroke-width:8;fill:none}
.curve{stroke-width:2}
.h0{stroke:var(--cold)}.h1{stroke:#f6d5a8}.h2{stroke:#f4bd86}.h3{stroke:#f0a46b}
.h4{stroke:#ea8b56}.h5{stroke:#e17245}.h6{stroke:#d55a38}.h7{stroke:#c5432e}.h8{stroke:#b02b27}
.h9{stroke:#960f22}
.c0{fill:#6b4c9a;background:#6b4c9a}.c1{fill:#8c8c8c;background:#8c8c8c}
.c2{fill:#b8a13c;background:#b8a13c}.c3{fill:#a5a5d9;background:#a5a5d9}
.c4{fill:#0072b2;background:#0072b2}.c5{fill:#56b4e9;background:#56b4e9}
.c6{fill:#cc3d3d;background:#cc3d3d}.c7{fill:#e69f00;background:#e69f00}
.c8{fill:#d55e00;background:#d55e00}.c9{fill:#009e73;background:#009e73}
.c10{fill:#cc79a7;background:#cc79a7}.c11{fill:#7a5230;background:#7a5230}
.c12{fill:#f0e442;background:#f0e442}.c13{fill:#444444;background:#444444}
.curve.c0{stroke:#6b4c9a}.curve.c2{stroke:#b8a13c}.curve.c4{stroke:#0072b2}
.curve.c7{stroke:#e69f00}.curve.c8{stroke:#d55e00}.curve.c9{stroke:#009e73}
.curve.c10{stroke:#cc79a7}
)css";
}

}  // namespace kernbench::benches::page
