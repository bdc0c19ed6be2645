set xlabel 'elements per cube, f16'
set ylabel 'latency of the slowest PE (µs)'
set logscale x 2
set xtics ('1' 1)
set for [i=1:40] xtics add (binary(2**i) 2**i)
set xrange [*:*] noextend
set offsets graph 0.02, graph 0.02, 0, 0
set yrange [0:*]
us(i, name) = strcol('buffer_kind') eq kind[i] ? column(name) / 1e3 : NaN
plot for [i=1:|kind|] csv using 'n_elem':(us(i, 'crit_ns')) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title kind[i], \
     csv using 'n_elem':(us(1, 'lower_bound_ns')) with lines \
       linecolor rgb bound linewidth 2 dashtype (12,6) title 'lower bound'
