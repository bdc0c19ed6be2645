set xlabel 'side of the square matrices (elements)'
set ylabel 'utilization (% of peak)'
eval sizes_on_x
set yrange [0:100]
percent(i) = strcol('on') eq on[i] && strcol('family') eq 'square' ? 100 * column('utilization') : NaN
plot for [i=1:|on|] csv using 'm':(percent(i)) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title pes[i]
