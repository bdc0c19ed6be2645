set xlabel 'hidden size and projection' offset 0, -1
set bmargin at screen (100 + 24 * note_lines) / 590.
set ylabel 'utilization (% of peak)'
set yrange [0:100]
set xrange [0.4:|shape| + 0.6]
set xtics scale 0
unset grid
set grid y linetype 1 linecolor rgb '#dddddd' linewidth 1.5
set style fill solid
set boxwidth 0.8 / |on|
set xtics ('' 0)
set for [s=1:|shape|] xtics add (word(shape[s], 1)."\n".word(shape[s], 2) s)
# A shape is "1024 qkv, 32 tokens"; some versions of gnuplot see it up to the comma alone.
is(s) = strcol('shape')[1:strlen(shape[s])] eq shape[s] && column('m') == tokens
percent(i, s) = strcol('on') eq on[i] && is(s) ? 100 * column('utilization') : NaN
place(i) = (i - 0.5 * (|on| + 1)) * 0.8 / |on|
plot for [i=1:|on|] for [s=1:|shape|] csv using (s + place(i)):(percent(i, s)) with boxes \
       linecolor rgb colour[i] title s == 1 ? pes[i] : ''
