set xlabel 'elements per cube, f16'
set ylabel 'latency of the slowest PE (µs)'
eval sizes_on_x
set yrange [0:*]
us(i, name) = strcol('buffer_kind') eq kind[i] ? column(name) / 1e3 : NaN
plot for [i=1:|kind|] csv using 'n_elem':(us(i, 'crit_ns')) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title kind[i], \
     csv using 'n_elem':(us(1, 'lower_bound_ns')) with linespoints \
       linecolor rgb bound pointtype 7 pointsize 0.3 linewidth 2 dashtype (12,6) title 'lower bound'
