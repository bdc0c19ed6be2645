# A column of any rows over another one, with the band in which it lies; a curve for each text of a third one.
set xlabel x_title
set ylabel y_title
if (logarithmic) set logscale x 2
if (has_sizes) eval(sizes_on_x)
if (has_names) set xtics (names[1] 0)
if (has_names) set for [i=2:|names|] xtics add (names[i] i - 1)
if (has_names) set xrange [-0.2:|names| - 0.8]
set yrange [0:*]
of(i, name) = strcol('series') eq series[i] ? column(name) : NaN
plot for [i=1:|series|] csv using 'x':(of(i, 'low')):(of(i, 'high')) with filledcurves \
  fillcolor rgb colour[1 + (i - 1) % |colour|] fillstyle transparent solid 0.2 noborder notitle, \
  for [i=1:|series|] csv using 'x':(of(i, 'y')) with linespoints \
  linecolor rgb colour[1 + (i - 1) % |colour|] pointtype marker[1 + (i - 1) % |marker|] linewidth 2.5 \
  title series[i]
