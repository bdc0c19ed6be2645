# The y axis leaves out what lies between the curves and FSIM; its scale is the same below and above.
stats csv using (column('crit_ns') / 1e3) nooutput
low = ceil(1.2 * STATS_max)
high = floor(fsim - 0.3 * low)
gap = 0.1 * low
set yrange [0:fsim + 0.1 * low]
set nonlinear y via (y <= low || high <= low ? y : y < high ? NaN : y - high + low + gap) \
  inverse (y <= low || high <= low ? y : y < low + gap ? NaN : y + high - low - gap)
if (high > low) {
  bottom = low / (low + gap + fsim + 0.1 * low - high)  # of the break, in parts of the page
  top = bottom * (1 + gap / low)
  set object 1 rectangle from graph -0.01, bottom to graph 1, top front fillcolor rgb 'white' fillstyle solid noborder
  set arrow 1 from graph -0.012, bottom - 0.012 to graph 0.012, bottom + 0.012 nohead linecolor rgb faint front
  set arrow 2 from graph -0.012, top - 0.012 to graph 0.012, top + 0.012 nohead linecolor rgb faint front
  set label 4 sprintf('%g to %g left out', low, high) at graph 0.5, (bottom + top) / 2 center textcolor rgb faint front
}
set xlabel 'elements per cube, f16'
# gnuplot would place a label of the axis without regard to ticks that were added.
set label 5 'latency of the slowest PE (µs)' at screen 20 / 900., graph 0.5 center rotate
set lmargin at screen 90 / 900.
eval sizes_on_x
set ytics 0, ceil(low / 5.), low
set ytics add (sprintf('%g', high + 1) high + 1, sprintf('%g', fsim) fsim)
us(i, name) = strcol('topology') eq topology[i] ? column(name) / 1e3 : NaN
plot for [i=1:|topology|] csv using 'n_elem':(us(i, 'crit_ns')) with linespoints \
       linecolor rgb colour[i] pointtype marker[i] linewidth 2.5 title topology[i], \
     fsim with lines linecolor rgb bound linewidth 2 dashtype (12,6) title fsim_name
