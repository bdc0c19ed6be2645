set xlabel 'elements per cube, f16'
set ylabel 'latency of the slowest PE (µs)'
# The theory of an earlier topology is wider, so that it shows around one on top of it.
eval sizes_on_x
set yrange [0:*]
us(i, name) = strcol('topology') eq topology[i] ? column(name) / 1e3 : NaN
plot for [i=1:|topology|] csv using 'n_elem':(us(i, 'crit_ns')) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title topology[i], \
     for [i=1:|topology|] csv using 'n_elem':(us(i, 'theory_ns')) with linespoints \
       linecolor rgb colour[i] pointtype 7 pointsize 0.3 linewidth 2 + 1.5 * (|topology| - i) dashtype (12,6) notitle, \
     for [i=1:|topology|] csv using 'n_elem':(us(i, 'lower_bound_ns')) with linespoints \
       linecolor rgb colour[i] pointtype 7 pointsize 0.3 linewidth 2 + 1.5 * (|topology| - i) dashtype (3,6) notitle, \
     keyentry with lines linecolor rgb faint linewidth 2 dashtype (12,6) title 'theory', \
     keyentry with lines linecolor rgb faint linewidth 2 dashtype (3,6) title 'lower bound'
