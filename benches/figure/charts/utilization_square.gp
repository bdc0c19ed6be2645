set xlabel 'side of the square matrices (elements)'
set ylabel 'utilization (% of peak)'
set logscale x 2
set xtics ('1' 1)
set for [i=1:40] xtics add (binary(2**i) 2**i)
set xrange [*:*] noextend
set offsets graph 0.02, graph 0.02, 0, 0
set yrange [0:100]
percent(i) = strcol('on') eq on[i] && strcol('family') eq 'square' ? 100 * column('utilization') : NaN
plot for [i=1:|on|] csv using 'm':(percent(i)) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title pes[i]
