set xlabel 'theoretical time of the slowest PE (µs)'
set ylabel 'measured time of the slowest PE (µs)'
set logscale xy
set format xy '%g'
set xrange [*:*] noextend
set yrange [*:*] noextend
set offsets graph 0.02, graph 0.02, graph 0.02, graph 0.02
us(i, name) = strcol('on') eq on[i] ? column(name) / 1e3 : NaN
plot x with lines linecolor rgb bound linewidth 2 dashtype (12,6) title 'equal', \
     for [i=1:|on|] csv using (us(i, 'theoretical_ns')):(us(i, 'time_ns')) with points linewidth 2 \
       linecolor rgb colour[i] pointtype marker[i] title pes[i]
